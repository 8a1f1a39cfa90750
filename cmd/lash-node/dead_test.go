package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// TestLongServeDeadLetters lists the dead letters of a served node from other processes, and retries and drops them.
func TestLongServeDeadLetters(t *testing.T) {
	t.Parallel()
	s := serveModel(t, endpoint(t, "none {}"), "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0")
	defer s.stop(t, syscall.SIGTERM)
	run := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := lashNode(t, append(append([]string{"dead"}, args...), "--store", s.store)...)
		if code != want {
			t.Errorf("%q: got exit code %d, %q, want %d", args, code, errs, want)
		}
		return out + errs
	}
	if out := run(exitOK, "ls"); out != "no dead letters\n" {
		t.Errorf("list of nothing: got %q", out)
	}
	if out := run(exitOK, "ls", "--json"); strings.TrimSpace(out) != "[]" {
		t.Errorf("JSON list of nothing: got %q", out)
	}
	b := s.open(t)
	h := clientOf(t, s)
	if _, err := h.Create(limited(t), api.CreateRequest{ID: "mended"}); err != nil {
		t.Fatal(err)
	}
	for _, letter := range []bus.DeadLetter{
		{Session: "mended", Error: "commit 3:\tcannot be read", Attempts: 8, At: 86_400_000, Worker: "w1"},
		{Session: "deadly", Attempts: 8, At: 86_401_000, Worker: "w2"},
		{Session: "gone", Error: "no more", Attempts: 1, At: 86_402_000, Worker: "w2"},
	} {
		if err := b.PutDeadLetter(limited(t), &letter); err != nil {
			t.Fatal(err)
		}
	}
	var list []bus.DeadLetter
	if err := json.Unmarshal([]byte(run(exitOK, "ls", "--json")), &list); err != nil || len(list) != 3 || list[0].Session != "mended" || list[2].Session != "gone" {
		t.Errorf("JSON list: got %+v, %v, want three, the oldest first", list, err)
	}
	if out := run(exitOK, "ls"); !strings.Contains(out, "mended  after 8 attempts, 1970-01-02 00:00:00Z\n  commit 3:") || !strings.Contains(out, "deadly  after 8 attempts") {
		t.Errorf("list: got %q", out)
	}
	if out := run(exitOK, "show", "mended"); !strings.Contains(out, "mended after 8 attempts\n  error    commit 3:") || !strings.Contains(out, "worker w1\n") || strings.Contains(out, "\t") {
		t.Errorf("show: got %q", out)
	}
	if out := run(exitOK, "show", "deadly"); strings.Contains(out, "error") {
		t.Errorf("show without an error: got %q", out)
	}
	run(exitDifferent, "show", "none")
	run(exitFailed, "show", "a.b")
	if out := run(exitOK, "drop", "deadly", "--json"); !strings.Contains(out, `"session"`) || !strings.Contains(out, `"deadly"`) {
		t.Errorf("drop: got %q", out)
	}
	run(exitDifferent, "drop", "deadly")
	run(exitFailed, "retry", "gone") // there is no such session, so nothing is left to do
	run(exitDifferent, "show", "gone")
	if out := run(exitOK, "retry", "mended"); out != "woken: session mended\n" {
		t.Errorf("retry: got %q", out)
	}
	run(exitDifferent, "retry", "mended")
	if r, err := h.Run(limited(t), "mended", api.Ask("go")); err != nil || r.End != events.EndFinished {
		t.Errorf("turn after the retry: got %+v, %v", r, err)
	}
}

// TestLongServeAcceptsLoss deletes the stream of a session that continued after its archive. The served node refuses the session, and says what
// to do, until the loss is accepted.
func TestLongServeAcceptsLoss(t *testing.T) {
	t.Parallel()
	s := serveModel(t, endpoint(t, "none {}"), "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0")
	defer s.stop(t, syscall.SIGTERM)
	accept := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := lashNode(t, append([]string{"dead", "accept-loss", "--store", s.store, "--reason", "no backup", "--as", "kim"}, args...)...)
		if code != want {
			t.Errorf("%q: got exit code %d, %q, want %d", args, code, errs, want)
		}
		return out + errs
	}
	b, h, ctx := s.open(t), clientOf(t, s), limited(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := h.Create(ctx, api.CreateRequest{ID: "cut"})
	must(err)
	at, err := b.Log().Last(ctx, "cut")
	must(err)
	must(b.Archive(ctx, "cut", at))
	must(b.Discard(ctx, "cut"))
	must(h.Configure(ctx, "cut", api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Instructions = "more"; return c }}))
	bustest.Eventually(t, "the row has the commit", func() bool {
		row, err := b.Directory().Get(ctx, "cut")
		return err == nil && strings.Contains(string(row.Value), `"seq":2`)
	})
	if out := accept(exitDifferent, "cut", "--yes"); !strings.Contains(out, "there is nothing to accept") {
		t.Errorf("accept without a loss: got %q", out)
	}
	js, err := jetstream.New(b.Conn())
	must(err)
	for name := range js.StreamNames(ctx).Name() {
		if strings.HasPrefix(name, "lash-s-cut") {
			must(js.DeleteStream(ctx, name))
		}
	}
	if _, err := b.Log().Last(ctx, "cut"); err == nil || !strings.Contains(err.Error(), "commits 2 to 2 are lost") {
		t.Errorf("read: got %v, want the lost commit", err)
	}
	if _, errs, code := lashNode(t, "fork", "cut", "--store", s.store); code != exitFailed || !strings.Contains(errs, "lash-node dead accept-loss cut") {
		t.Errorf("fork: got code %d, %q, want the command that accepts the loss", code, errs)
	}
	if err := h.Configure(ctx, "cut", api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Model = "m"; return c }}); err == nil {
		t.Error("configure: got no error while a commit is missing")
	}
	if out := accept(exitFailed, "cut"); !strings.Contains(out, "--yes continues without the lost commits of session cut") {
		t.Errorf("accept without --yes: got %q", out)
	}
	if out := accept(exitOK, "cut", "--yes", "--json"); !strings.Contains(out, `"last":1,"lost_up_to":2`) && !strings.Contains(out, `"lost_up_to": 2`) {
		t.Errorf("accept: got %q", out)
	}
	must(h.Configure(ctx, "cut", api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Model = "m"; return c }}))
	if last, err := b.Log().Last(ctx, "cut"); err != nil || last != 3 {
		t.Errorf("end: got %d, %v, want 3", last, err)
	}
	entry, err := b.Log().CommitAt(ctx, "cut", 2)
	must(err)
	if p, ok := entry.Commit.Events[0].Payload.(*events.SessionLossAccepted); !ok || p.By != "kim" || p.Reason != "no backup" || p.After != 1 || p.UpTo != 2 || entry.Commit.Actor.ID != "kim" {
		t.Errorf("record: got %+v of %+v", p, entry.Commit.Actor)
	}
}
