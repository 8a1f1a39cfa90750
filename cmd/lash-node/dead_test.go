package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
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
	_, err := h.Create(limited(t), api.CreateRequest{ID: "mended"})
	runtest.NoError(t, err)
	for _, letter := range []bus.DeadLetter{
		{Session: "mended", Error: "commit 3:\tcannot be read", Attempts: 8, At: 86_400_000, Worker: "w1"},
		{Session: "deadly", Attempts: 8, At: 86_401_000, Worker: "w2"},
		{Session: "gone", Error: "no more", Attempts: 1, At: 86_402_000, Worker: "w2"},
	} {
		runtest.NoError(t, b.PutDeadLetter(limited(t), &letter))
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
