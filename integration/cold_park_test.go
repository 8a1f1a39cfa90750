package integration

import (
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// goesCold archives a session, as a node's archiver does.
func (b *bundle) goesCold(id events.SessionID) {
	b.t.Helper()
	done, err := follow.NewArchiver(b.bus, follow.ArchiverConfig{Parked: turn.Parked}).Archive(b.ctx, id)
	must(b.t, "archive", err, nil)
	equal(b.t, "cold", done, true)
	equal(b.t, "hot sessions", b.hot(), 0)
	equal(b.t, "place", b.directory(b.ctx, id).Place, follow.PlaceCold)
}

// TestColdParked makes a session cold whose turn waits for an approval. What
// comes next finds it, on another node and connection.
func TestColdParked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		next func(*testing.T, *bundle, *session.Host, events.SessionID)
		end  events.TurnEnd
		runs int64
	}{
		"answered": {func(*testing.T, *bundle, *session.Host, events.SessionID) {}, events.EndFinished, 1},
		"injected": {func(t *testing.T, b *bundle, h *session.Host, id events.SessionID) {
			_, err := h.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{text("hurry")}})
			must(t, "inject", err, nil)
			equal(t, "hot sessions", b.hot(), 1)
			b.goesCold(id)
		}, events.EndFinished, 1},
		"cancelled": {func(t *testing.T, b *bundle, h *session.Host, id events.SessionID) {
			receipt, _, err := h.Cancel(b.ctx, id, "t1", api.CancelRequest{ID: "c1"})
			must(t, "cancel", err, nil)
			equal(t, "receipt", receipt, api.CancelRequested)
		}, events.EndCancelled, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, theCall(), reply(text("3")), reply(text("again")))
			g := &asker{}
			_, kill := b.nodeOn(b.bus, g.factory(events.EffectsNonIdempotent))
			id := b.open(api.CreateRequest{})
			b.parks(id)
			kill()
			b.goesCold(id)
			list, err := b.otherHost().Approvals(b.ctx, id)
			must(t, "approvals", err, nil)
			equal(t, "questions", len(list), 1)
			h := b.otherHost()
			c.next(t, b, h, id)
			if c.end == events.EndFinished {
				must(t, "approve", b.approve(h, id, true), nil)
			}
			b.nodeOn(bustest.Open(t, b.server), g.factory(events.EffectsNonIdempotent))
			equal(t, "end", b.ended(id, "t1").End, c.end)
			equal(t, "runs", g.runs.Load(), c.runs)
			b.verified(id)
		})
	}
}

// TestColdBusy keeps sessions hot in which something is about to happen.
func TestColdBusy(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.commitWith(id, &events.SessionClosed{}) // of no turn: rests
	queued := b.open(api.CreateRequest{})
	c := &events.Commit{
		ID: "q", Session: queued, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("t1", &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{text("hello")}}})},
	}
	_, err := b.bus.Log().Append(b.ctx, c, b.last(queued))
	must(t, "request", err, nil)
	a := follow.NewArchiver(b.bus, follow.ArchiverConfig{Parked: turn.Parked})
	for id, rests := range map[events.SessionID]bool{id: true, queued: false} {
		done, err := a.Archive(b.ctx, id)
		must(t, "archive", err, nil)
		equal(t, "archived", done, rests)
	}
}

// TestColdParkedHot keeps a parked session hot where nobody says what parked means.
func TestColdParkedHot(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, theCall())
	g := &asker{}
	b.nodeOn(b.bus, g.factory(events.EffectsNonIdempotent))
	id := b.open(api.CreateRequest{})
	b.parks(id)
	done, err := follow.NewArchiver(b.bus, follow.ArchiverConfig{}).Archive(b.ctx, id)
	must(t, "archive", err, nil)
	equal(t, "archived", done, false)
}
