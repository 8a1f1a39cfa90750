package session_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestAgainHintsAgain loses the hint of every command: the same command again,
// from another host, appends nothing and gives the hint.
func TestAgainHintsAgain(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *session.Host) error{
		"submit": func(ctx context.Context, h *session.Host) error {
			_, err := h.Submit(ctx, sid, ask("t2", "go"))
			return err
		},
		"submitAt": func(ctx context.Context, h *session.Host) error {
			_, err := h.SubmitAt(ctx, sid, soon, ask("t2", "go"))
			return err
		},
		"cancel": func(ctx context.Context, h *session.Host) error {
			_, _, err := h.Cancel(ctx, sid, "t1", session.CancelRequest{ID: "r"})
			return err
		},
		"approve": func(ctx context.Context, h *session.Host) error {
			return h.Approve(ctx, sid, events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true})
		},
		"resolve": func(ctx context.Context, h *session.Host) error {
			err := h.ResolveTool(ctx, sid, "t1/0/1", events.ToolResult{})
			if errors.Is(err, api.ErrResolved) {
				err = nil
			}
			return err
		},
		"resolveAt": func(ctx context.Context, h *session.Host) error {
			return h.ResolveAt(ctx, sid, "t1/0/1", soon, events.ToolResult{})
		},
		"inject": func(ctx context.Context, h *session.Host) error {
			_, err := h.Inject(ctx, sid, session.InjectRequest{ID: "i", Parts: session.Ask("x").Input.Parts})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.running(2)
			b.append("t1", &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "t"})
			if err := do(t.Context(), b.host); err != nil {
				t.Fatal(err)
			}
			before := b.state()
			// The hints before these, of the same connection, are stored then too.
			err := errors.Join(b.bus.StoreWake(t.Context(), bus.WakeKey{Class: bus.ClassTurn, Session: "last"}, bus.WakeHint{}),
				b.bus.StoreTimer(t.Context(), "last", events.MillisOf(soon)))
			if err != nil {
				t.Fatal(err)
			}
			js, err := jetstream.New(b.bus.Conn())
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"lash-work", "lash-timers"} {
				stream, err := js.Stream(t.Context(), name)
				if err == nil {
					err = stream.Purge(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := do(t.Context(), b.another(0)); err != nil {
				t.Errorf("again: got %v", err)
			}
			b.awaitHint()
			b.unchanged(before, "again")
		})
	}
}

// awaitHint waits until a wake or a timer is there.
func (b *bundle) awaitHint() {
	b.t.Helper()
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		wakes, err := b.bus.Wakes(b.t.Context())
		timers, timersErr := b.bus.Timers(b.t.Context())
		if err := errors.Join(err, timersErr); err != nil {
			b.t.Fatal(err)
		}
		if len(wakes)+len(timers) > 0 {
			return
		}
	}
	b.t.Fatal("got no hint")
}
