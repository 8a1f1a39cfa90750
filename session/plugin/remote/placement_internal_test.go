package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// deciding is a plugin that decides about an idle session when the test lets it.
type deciding struct {
	plugin.Factory
	action IdleAction
	decide chan struct{} // nil: at once
	asked  int
	starts []int64 // epochs
}

func (d *deciding) IdleSession(context.Context, events.SessionID) IdleAction {
	d.asked++
	if d.decide != nil {
		<-d.decide
	}
	return d.action
}

func (d *deciding) StartSession(_ context.Context, in wire.SessionStart) error {
	d.starts = append(d.starts, in.Epoch)
	return nil
}

// placing is an instance of scope session that is not connected, with the session s at epoch 1.
func placing(t *testing.T, d *deciding) *Instance {
	t.Helper()
	i := &Instance{cfg: Config{Plugin: d, Scope: wire.ScopeSession, Logger: zap.NewNop()}, ctx: t.Context(), calls: newCalls(time.Hour), asked: make(chan struct{})}
	i.hooks = map[string]hookFunc{"custom.x": func(context.Context, *wire.HookCall) ([]plugin.Directive, error) { return nil, nil }}
	i.manifest = &wire.Manifest{Hooks: []wire.Hook{{Name: "x", Point: "custom.x"}}}
	if refused := i.place(&wire.SessionStart{Session: "s", Epoch: 1}); refused != nil {
		t.Fatal(refused)
	}
	return i
}

// TestCallThatIsLongIsNotIdle sends hints during a call, just after its end, and later. Only the last one reaches the plugin.
func TestCallThatIsLongIsNotIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &deciding{action: IdleEnd}
		i := placing(t, d)
		hint := &wire.Idle{Session: "s", Epoch: 1, QuietMS: 30_000}
		at, refused := i.owns(&wire.Call{CallID: wire.CallID{Session: "s"}, Epoch: 1})
		if refused != nil {
			t.Fatal(refused)
		}
		for _, step := range []struct {
			after time.Duration
			ends  bool // the call ends then
			want  bool
		}{{time.Minute, true, false}, {29 * time.Second, false, false}, {time.Second, false, true}} {
			time.Sleep(step.after) //nolint:forbidigo // in a bubble
			if ended := i.endIdle(hint); ended != step.want || (d.asked > 0) != step.want {
				t.Errorf("got %v, and the plugin was asked %d times, want %v", ended, d.asked, step.want)
			}
			if step.ends {
				i.sessions.done(at)
				if i.endIdle(hint) || d.asked > 0 {
					t.Error("it ends with the call")
				}
			}
		}
	})
}

// TestForgottenSessionIsIdle has no node say that a session is idle. The instance asks the plugin after twice the time,
// once for each use of the session, and not while a call runs.
func TestForgottenSessionIsIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &deciding{action: IdleKeep}
		i := placing(t, d)
		if refused := i.place(&wire.SessionStart{Session: "s", Epoch: 2, IdleMS: 30_000}); refused != nil {
			t.Fatal(refused)
		}
		var at *placed
		for n, step := range []struct {
			do    func()
			after time.Duration
			asked int // times so far
		}{
			{func() {}, 59 * time.Second, 0},
			{func() {}, time.Second, 1},
			{func() {}, time.Hour, 1}, // it was kept
			{func() { at, _ = i.owns(&wire.Call{CallID: wire.CallID{Session: "s"}, Epoch: 2}) }, time.Hour, 1},
			{func() { i.sessions.done(at); d.action = IdleEnd }, 59 * time.Second, 1},
			{func() {}, time.Second, 2},
			{func() {}, time.Hour, 2}, // it has ended
		} {
			step.do()
			time.Sleep(step.after) //nolint:forbidigo // in a bubble
			i.endForgotten(time.Now())
			synctest.Wait()
			if d.asked != step.asked {
				t.Errorf("step %d: the plugin was asked %d times, want %d", n, d.asked, step.asked)
			}
		}
		if n := i.sessions.live(); n != 0 {
			t.Errorf("sessions: got %d, want none", n)
		}
	})
}

// TestCallWhileThePluginDecides has a call and a hook arrive while the plugin decides about an idle session. The call is
// refused, and the session starts again after the decision, so that the plugin never has calls of a session that it
// ends. The hook waits for the decision.
func TestCallWhileThePluginDecides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		action IdleAction
		hook   string // code of its error
	}{"kept": {IdleKeep, ""}, "ended": {IdleEnd, wire.CodeNotOwner}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &deciding{action: c.action, decide: make(chan struct{})}
			i := placing(t, d)
			ended, hooked := make(chan bool), make(chan *wire.HookResult)
			go func() { ended <- i.endIdle(&wire.Idle{Session: "s", Epoch: 1}) }()
			i.awaitUses(t, 1)
			bustest.Eventually(t, "the plugin decides", func() bool { return i.sessions.live() == 0 })
			if _, refused := i.owns(&wire.Call{CallID: wire.CallID{Session: "s"}, Epoch: 1}); refused == nil || refused.Code != wire.CodeNotOwner {
				t.Errorf("call: got %v, want %s", refused, wire.CodeNotOwner)
			}
			data, err := json.Marshal(&wire.HookCall{Hook: "x", Session: "s", Epoch: 1, Point: "custom.x", DeadlineMS: 60_000})
			if err != nil {
				t.Fatal(err)
			}
			go func() { hooked <- i.runHook(data) }()
			i.awaitUses(t, 2)
			close(d.decide)
			code := ""
			if got := <-hooked; got.Error != nil {
				code = got.Error.Code
			}
			if code != c.hook || <-ended != (c.action == IdleEnd) {
				t.Errorf("hook: got %q, want %q after the decision", code, c.hook)
			}
			if refused := i.place(&wire.SessionStart{Session: "s", Epoch: 2}); refused != nil || fmt.Sprint(d.starts) != "[1 2]" {
				t.Errorf("next start: got %v, starts %v, want [1 2]", refused, d.starts)
			}
		})
	}
}

// awaitUses waits until n uses of the session s run.
func (i *Instance) awaitUses(t *testing.T, n int) {
	t.Helper()
	bustest.Eventually(t, fmt.Sprintf("%d uses of the session", n), func() bool {
		i.sessions.mu.Lock()
		defer i.sessions.mu.Unlock()
		return i.sessions.byID["s"].running == n
	})
}

// TestSessionsAreBounded starts more sessions than an instance keeps, of a plugin that never ends one. Those without a
// call for the longest time are dropped; one with a call stays.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	i := placing(t, &deciding{})
	if _, refused := i.owns(&wire.Call{CallID: wire.CallID{Session: "s"}, Epoch: 1}); refused != nil {
		t.Fatal(refused)
	}
	for n := range 2 * wire.MaxSessions {
		if refused := i.place(&wire.SessionStart{Session: events.SessionID(fmt.Sprint(n)), Epoch: 1}); refused != nil {
			t.Fatal(refused)
		}
	}
	if n := len(i.sessions.byID); n != wire.MaxSessions || i.sessions.used.Len() != n {
		t.Errorf("sessions: got %d, and %d in order, want %d", n, i.sessions.used.Len(), wire.MaxSessions)
	}
	for id, want := range map[events.SessionID]bool{"s": true, "0": false, events.SessionID(fmt.Sprint(2*wire.MaxSessions - 1)): true} {
		if got := i.sessions.use(id, 1) != nil; got != want {
			t.Errorf("session %s: got %v, want %v", id, got, want)
		}
	}
}

// TestStartOfNoSession sends starts whose session is no token. They reach neither the plugin nor the table.
func TestStartOfNoSession(t *testing.T) {
	t.Parallel()
	d := &deciding{}
	i := placing(t, d)
	for _, session := range []string{"", "a b", "a.b", "*", ">", "a/b", "\n", strings.Repeat("s", events.MaxTokenBytes+1)} {
		data, err := json.Marshal(&wire.SessionStart{Session: events.SessionID(session), Epoch: 1})
		if err != nil {
			t.Fatal(err)
		}
		i.startSession(&nats.Msg{Data: data})
	}
	i.work.Wait()
	if len(d.starts) != 1 || len(i.sessions.byID) != 1 {
		t.Errorf("got %d starts and %d sessions, want those of s only", len(d.starts), len(i.sessions.byID))
	}
}
