package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// TestServeDead has a served node give up what nobody can read and what is for no session, and looks at it from other processes.
func TestServeDead(t *testing.T) {
	t.Parallel()
	s := serveModel(t, endpoint(t, "none {}"), "--store", filepath.Join(t.TempDir(), "st"), "--listen", "127.0.0.1:0")
	defer s.stop(t, syscall.SIGTERM)
	run := func(want int, args ...string) string {
		t.Helper()
		out, errs, code := lashNode(t, append(append([]string{"dead"}, args...), "--nats", s.url)...)
		if code != want {
			t.Errorf("%q: got exit code %d, %q, want %d", args, code, errs, want)
		}
		return out + errs
	}
	if out := run(exitOK, "ls"); out != "no dead letters\n" {
		t.Errorf("list of nothing: got %q", out)
	}
	b, err := bus.Open(limited(t), bus.Config{URL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	body, err := events.EncodePayload(&session.Command{Input: session.Ask("go").Input})
	if err != nil {
		t.Fatal(err)
	}
	for id, body := range map[string][]byte{"t1": body, "junk": []byte("junk")} {
		if err := b.Enqueue(limited(t), bus.ClassTurn, "later", id, body); err != nil {
			t.Fatal(err)
		}
	}
	var list []bus.DeadLetter
	for ctx := limited(t); len(list) < 2; {
		list = nil
		if err := json.Unmarshal([]byte(run(exitOK, "ls", "--json")), &list); err != nil || ctx.Err() != nil {
			t.Fatalf("list: got %+v, %v, want two", list, err)
		}
	}
	if out := run(exitOK, "ls"); !strings.Contains(out, "turn later junk  unreadable after 1 attempts") || !strings.Contains(out, "turn later t1  no_session after 1") {
		t.Errorf("list: got %q", out)
	}
	if out := run(exitOK, "show", "later", "t1"); !strings.Contains(out, "  command  turn: go\n") {
		t.Errorf("show: got %q", out)
	}
	if out := run(exitOK, "show", "later", "junk"); !strings.Contains(out, "  command  4 bytes that nobody can read\n") {
		t.Errorf("show of junk: got %q", out)
	}
	run(exitDifferent, "show", "later", "junk", "--class", "task")
	run(exitFailed, "show", "later", "junk", "--class", "other")
	if out := run(exitOK, "drop", "later", "junk", "--json"); !strings.Contains(out, `"id"`) || !strings.Contains(out, `"junk"`) {
		t.Errorf("drop: got %q", out)
	}
	run(exitDifferent, "drop", "later", "junk")
	run(exitFailed, "retry", "later", "t1")
	h := clientOf(t, s)
	if _, err := h.Create(limited(t), session.CreateRequest{ID: "later"}); err != nil {
		t.Fatal(err)
	}
	if out := run(exitOK, "retry", "later", "t1"); out != "queued: turn t1 of session later\n" {
		t.Errorf("retry: got %q", out)
	}
	if r, err := h.Await(limited(t), "later", "t1"); err != nil || r.End != events.EndFinished {
		t.Errorf("turn: got %+v, %v", r, err)
	}
	run(exitDifferent, "retry", "later", "t1")
}
