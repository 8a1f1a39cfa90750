package stdio_test

import (
	"context"
	"testing"

	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/stdio"
)

// TestExitAtEachLine has the program exit when it reads a line of one type. Every request has an answer, what the exit took with it
// fails, and everything else is served by the next child.
func TestExitAtEachLine(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"", "init", "session_start", "call", "callback", "cancel", "hook", "idle", "drain"} {
		t.Run("at_"+at, func(t *testing.T) {
			t.Parallel()
			b := start(t, "session", func(c *stdio.Config) { c.Env["EXIT_AT"] = at })
			fails := func(what string, failed bool, takenBy ...string) {
				t.Helper()
				want := false
				for _, line := range append(takenBy, "init", "session_start") { // without these two no child serves
					want = want || line == at
				}
				if failed != want {
					t.Errorf("%s: failed %v, want %v", what, failed, want)
				}
			}
			err := b.StartSession(t.Context(), wire.SessionStart{Session: "s", Epoch: 1})
			fails("start", err != nil)
			o := b.call(t.Context(), "s", "asks", "echo", `{"do":"ask"}`)
			fails("call", o == nil || o.Failure != nil, "call", "callback")
			h := b.Hook(t.Context(), &wire.HookCall{Hook: "h", Point: "before_turn", Invocation: "i", Session: "s", Epoch: 1, DeadlineMS: 5000})
			fails("hook", h.Error != nil, "hook")
			ctx, cancel := context.WithCancelCause(t.Context())
			on, cancelled := new(caller), make(chan *wire.Outcome, 1)
			go func() { cancelled <- b.callOn(ctx, on, "s", "cancelled", "once", `{"do":"hang"}`) }() // ends with the cancel
			cancel(&remote.Cancelled{Cancel: wire.Cancel{CallID: wire.CallID{Session: "s", Call: "cancelled"}, GraceMS: 200}})
			if o := <-cancelled; o != nil && !o.Cancelled && o.Failure == nil {
				t.Errorf("cancelled call: got %+v", o)
			}
			b.IdleSession(t.Context(), "s")
			b.Drain()
			b.Close()
		})
	}
}
