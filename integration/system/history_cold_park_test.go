package system

import (
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// goesCold archives a session, as a node's archiver does.
func goesCold(b *harness.System, id events.SessionID) {
	b.T.Helper()
	done, err := follow.NewArchiver(b.Bus, follow.ArchiverConfig{Parked: turn.Parked}).Archive(b.Ctx, id)
	runtest.WantError(b.T, "archive", err, nil)
	runtest.Equal(b.T, "cold", done, true)
	runtest.Equal(b.T, "hot sessions", hot(b), 0)
	runtest.Equal(b.T, "place", b.DirectoryRow(b.Ctx, id).Place, follow.PlaceCold)
}

// TestColdWhileParked makes a session cold whose turn waits for an approval. The answer and later turns find it, on
// another node and connection.
func TestColdWhileParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next func(*testing.T, *harness.System, *session.Host, events.SessionID)
		end  events.TurnEnd
		runs int64
	}{
		"answered": {func(*testing.T, *harness.System, *session.Host, events.SessionID) {}, events.EndFinished, 1},
		"injected": {func(t *testing.T, b *harness.System, h *session.Host, id events.SessionID) {
			_, err := h.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("hurry")}})
			runtest.WantError(t, "inject", err, nil)
			runtest.Equal(t, "hot sessions", hot(b), 1)
			goesCold(b, id)
		}, events.EndFinished, 1},
		"cancelled": {func(t *testing.T, b *harness.System, h *session.Host, id events.SessionID) {
			receipt, _, err := h.Cancel(b.Ctx, id, "t1", api.CancelRequest{ID: "c1"})
			runtest.WantError(t, "cancel", err, nil)
			runtest.Equal(t, "receipt", receipt, api.CancelRequested)
		}, events.EndCancelled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("3")), harness.Reply(harness.Text("again")))
			g := &harness.Approver{}
			_, kill := b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent))
			id := b.Open(api.CreateRequest{})
			b.ParkTurn(id)
			kill()
			goesCold(b, id)
			list, err := b.OtherHost().Approvals(b.Ctx, id)
			runtest.WantError(t, "approvals", err, nil)
			runtest.Equal(t, "questions", len(list), 1)
			h := b.OtherHost()
			c.next(t, b, h, id)
			if c.end == events.EndFinished {
				runtest.WantError(t, "approve", b.AnswerApproval(h, id, true), nil)
			}
			b.StartNodeOn(bustest.Open(t, b.Server), g.Factory(events.EffectsNonIdempotent))
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, c.end)
			runtest.Equal(t, "runs", g.Runs.Load(), c.runs)
			b.Verify(id)
		})
	}
}

// TestColdIgnoresBusySessions keeps sessions with pending work hot.
func TestColdIgnoresBusySessions(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.CommitUnchecked(id, &events.SessionClosed{}) // of no turn: rests
	queued := b.Open(api.CreateRequest{})
	c := &events.Commit{
		ID: "q", Session: queued, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{harness.Text("hello")}}})},
	}
	_, err := b.Bus.Log().Append(b.Ctx, c, b.LastSeq(queued))
	runtest.WantError(t, "request", err, nil)
	a := follow.NewArchiver(b.Bus, follow.ArchiverConfig{Parked: turn.Parked})
	for id, rests := range map[events.SessionID]bool{id: true, queued: false} {
		done, err := a.Archive(b.Ctx, id)
		runtest.WantError(t, "archive", err, nil)
		runtest.Equal(t, "archived", done, rests)
	}
}

// TestSmokeColdParkedHot has an archiver without a rule for parked sessions: a parked session stays hot.
func TestSmokeColdParkedHot(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.CallAdd())
	g := &harness.Approver{}
	b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent))
	id := b.Open(api.CreateRequest{})
	b.ParkTurn(id)
	done, err := follow.NewArchiver(b.Bus, follow.ArchiverConfig{}).Archive(b.Ctx, id)
	runtest.WantError(t, "archive", err, nil)
	runtest.Equal(t, "archived", done, false)
}
