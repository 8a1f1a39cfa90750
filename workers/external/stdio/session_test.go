package stdio_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/stdio"
)

func (b *bundle) session(id string, epoch int64) error {
	b.t.Helper()
	return b.StartSession(b.t.Context(), wire.SessionStart{Session: events.SessionID(id), Epoch: epoch})
}

// TestSessions has a child for each session. It ends when it was idle; the next call has a child that got the start.
func TestSessions(t *testing.T) {
	t.Parallel()
	b := start(t, "session", func(c *stdio.Config) { c.Idle = time.Second })
	if o := b.call(t.Context(), "s1", "early", "echo", `{}`); o.Failure == nil || o.Failure.Class != "unavailable" {
		t.Errorf("call before the start: got %+v, want unavailable", o)
	}
	for _, id := range []string{"s1", "s2"} {
		if err := b.session(id, 1); err != nil {
			t.Fatal(err)
		}
	}
	one, two := b.text("s1", "p", `{"do":"pid"}`), b.text("s2", "p", `{"do":"pid"}`)
	if one == two {
		t.Errorf("two sessions have one child")
	}
	held := b.beginIn(t.Context(), new(caller), "s1", "T55_no_idle_while_a_call_runs", "echo", "held")
	pid, _ := strconv.Atoi(b.text("s1", "held by", `{"do":"pid"}`))
	unused, _ := strconv.Atoi(two)
	waitGone(t, unused) // it began to be idle before
	b.text("s1", "release", `{"do":"release"}`)
	if o := <-held; o == nil || o.Text != "held" {
		t.Errorf("got %+v", o)
	}
	waitGone(t, pid)
	if got := b.text("s1", "T54_session_start_comes_before_the_call", `{"do":"seen"}`); got != "init session_start call" {
		t.Errorf("lines of the second child: got %q", got)
	}
	third := b.text("s1", "third", `{"do":"pid"}`)
	if err := b.session("s1", 2); err != nil {
		t.Fatal(err)
	}
	if got := b.text("s1", "fourth", `{"do":"pid"}`); got == third {
		t.Errorf("a placement with another epoch has the child of the one before")
	}
	if b.IdleSession(t.Context(), "s1") != remote.IdleEnd {
		t.Error("an idle session is kept")
	}
	if got := b.text("s1", "T54_session_start_comes_before_the_next_call", `{"do":"seen"}`); got != "init session_start call" {
		t.Errorf("lines of the child after the end: got %q", got)
	}
}

// TestHookWithoutAPlacement calls a hook that observes, of a session that is not placed here. Hooks of placements are
// refused.
func TestHookWithoutAPlacement(t *testing.T) {
	t.Parallel()
	b := start(t, "session", nil)
	for epoch, want := range map[int64]string{0: "", 1: wire.CodeNotOwner} {
		got := b.Hook(t.Context(), &wire.HookCall{Hook: "h", Point: "turn_finalized", Invocation: fmt.Sprint(epoch), Session: "s", Epoch: epoch, DeadlineMS: 60_000})
		if code := cmp.Or(got.Error, &wire.Error{}).Code; code != want {
			t.Errorf("hook with epoch %d: got %q, want %q", epoch, code, want)
		}
	}
}

// TestLateHookResult has the program answer a hook after its time, just before the next hook of the same point.
func TestLateHookResult(t *testing.T) {
	t.Parallel()
	b := start(t, "", nil)
	hook := func(ctx context.Context, name string) *wire.HookResult {
		return b.Hook(ctx, &wire.HookCall{Hook: name, Point: "before_turn", Invocation: "i", Session: "s", DeadlineMS: 60_000})
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	hook(short, "late")
	if got := hook(t.Context(), "next"); len(got.Directives) != 1 || got.Directives[0].Code != "by next" {
		t.Errorf("got %+v, want the directive of the hook that was called", got)
	}
}

// TestHooksOfTurnsWithOneID calls a hook in many sessions at the same time. Their turns have one id, which callers choose. Each session gets
// the answer to its own hook.
func TestHooksOfTurnsWithOneID(t *testing.T) {
	t.Parallel()
	b := start(t, "", nil)
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for n := range togetherHooks {
		all.Go(func() {
			session := fmt.Sprint("s", n)
			got := b.Hook(within, &wire.HookCall{Hook: "together", Point: "before_turn", Invocation: "t1/0/before_turn", Session: events.SessionID(session), DeadlineMS: 60_000})
			if len(got.Directives) != 1 || got.Directives[0].Code != session {
				t.Errorf("session %s: got %+v, want the directive of its own hook", session, got)
			}
		})
	}
	all.Wait()
}

// TestIdleSessionWhileACallRuns keeps the session.
func TestIdleSessionWhileACallRuns(t *testing.T) {
	t.Parallel()
	b := start(t, "session", nil)
	if err := b.session("s", 1); err != nil {
		t.Fatal(err)
	}
	on := &caller{hold: make(chan struct{})}
	outcome := b.beginOn(t.Context(), on, "echo", "ask")
	if b.IdleSession(t.Context(), "s") != remote.IdleKeep {
		t.Error("T55_a_session_with_a_call_is_ended")
	}
	close(on.hold)
	if o := <-outcome; !strings.HasPrefix(o.Text, "200 ") {
		t.Errorf("got %+v, want the call served", o)
	}
}

// TestBackoff calls a program that ends at each call without an answer. It starts again before each next call, after waits
// of 100, 200, 400 and 800 ms.
func TestBackoff(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `echo start >>starts; echo '{"type":"register","protocol":1,"manifest":{"version":"1","tools":[{"name":"echo","effects":"none"}]}}'; read -r init; read -r call`
	a, err := stdio.New(t.Context(), stdio.Config{Plugin: "notes", Command: []string{"sh", "-c", script}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, began := &bundle{Adapter: a, t: t}, time.Now()
	for n := range 5 {
		if o := b.call(t.Context(), "s", fmt.Sprint("c", n), "echo", `{}`); o == nil || o.Failure == nil || !strings.Contains(o.Failure.Message, "ended during the call") {
			t.Errorf("call %d: got %+v, want that the program ended", n, o)
		}
	}
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("five calls took %v, want the waits before four of them", took)
	}
	starts, err := os.ReadFile(filepath.Join(dir, "starts"))
	if err != nil || strings.Count(string(starts), "start") != 5 {
		t.Errorf("starts: got %q, %v, want one for each call", starts, err)
	}
}
