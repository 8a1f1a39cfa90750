package session_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestRepeatPublishesLostHint loses the hint of every command. A repeat of the command from another host appends nothing and
// publishes the hint.
func TestRepeatPublishesLostHint(t *testing.T) {
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
			_, _, err := h.Cancel(ctx, sid, "t1", api.CancelRequest{ID: "r"})
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
			_, err := h.Inject(ctx, sid, api.InjectRequest{ID: "i", Parts: api.Ask("x").Input.Parts})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.running(2)
			b.Append("t1", &events.ToolApprovalAsked{Effect: "t1/0/0", Tool: "t"})
			runtest.NoError(t, do(t.Context(), b.Host))
			before := b.State()
			// The earlier hints were published on the same connection, so they are stored by now.
			err := errors.Join(b.Bus.StoreWake(t.Context(), bus.WakeKey{Class: bus.ClassTurn, Session: "last"}, bus.WakeHint{}),
				b.Bus.StoreTimer(t.Context(), "last", events.MillisOf(soon)))
			runtest.NoError(t, err)
			js, err := jetstream.New(b.Bus.Conn())
			runtest.NoError(t, err)
			for _, name := range []string{"lash-work", "lash-timers"} {
				stream, err := js.Stream(t.Context(), name)
				if err == nil {
					err = stream.Purge(t.Context())
				}
				runtest.NoError(t, err)
			}
			runtest.WantError(t, "again", do(t.Context(), b.another(0)), nil)
			b.awaitHint()
			b.unchanged(before, "again")
		})
	}
}

// awaitHint waits until the bus has a wake or a timer.
func (b *bundle) awaitHint() {
	b.T.Helper()
	bustest.Eventually(b.T, "a hint", func() bool {
		wakes, err := b.Bus.Wakes(b.T.Context())
		timers, timersErr := b.Bus.Timers(b.T.Context())
		runtest.NoError(b.T, errors.Join(err, timersErr))
		return len(wakes)+len(timers) > 0
	})
}

// TestRepeatKeepsQueuePlace repeats commands whose hints are stored. The repeat publishes no hint: a newer wake would
// move the session to the end of the queue, and each publish is a write.
func TestRepeatKeepsQueuePlace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first := events.Seq(0)
	repeat := func() {
		t.Helper()
		_, err := b.Host.Submit(t.Context(), sid, ask("t1", "go"))
		runtest.NoError(t, err)
		ctx, receipt := api.WithReceipt(t.Context(), sid)
		_, err = b.Host.SubmitAt(ctx, sid, soon, ask("t2", "go"))
		runtest.NoError(t, err)
		if first == 0 {
			first = receipt.Seq()
		}
		if got := receipt.Seq(); got == 0 || got != first {
			t.Errorf("receipt: got %d, want the sequence of the first, %d", got, first)
		}
	}
	repeat()
	last := func() (list []uint64) {
		t.Helper()
		js, err := jetstream.New(b.Bus.Conn())
		runtest.NoError(t, err)
		// The earlier hints were published on the same connection, so they are stored by now.
		err = errors.Join(b.Bus.StoreWake(t.Context(), bus.WakeKey{Class: bus.ClassTurn, Session: "last"}, bus.WakeHint{}),
			b.Bus.StoreTimer(t.Context(), "last", events.MillisOf(soon)))
		runtest.NoError(t, err)
		for _, name := range []string{"lash-work", "lash-timers"} {
			stream, err := js.Stream(t.Context(), name)
			runtest.NoError(t, err)
			list = append(list, stream.CachedInfo().State.LastSeq)
		}
		return list
	}
	before := last()
	for range 5 {
		repeat()
	}
	if got := last(); got[0] != before[0]+1 || got[1] != before[1]+1 { // of this test's own
		t.Errorf("got to %v from %v in the queue and among the timers, want one message more in each", got, before)
	}
}
