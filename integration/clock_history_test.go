package integration

import (
	"math/rand/v2"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// TestClockHistory has the times of a history jump back and forth by up to a
// year, as those of nodes whose clocks are wrong do, with a turn claimed in the
// far future whose worker is gone. Nothing but the times is different in what
// it folds to, and a node whose clock is right goes on with it.
func TestClockHistory(t *testing.T) {
	t.Parallel()
	const seed, year = 20261121, int64(365 * 24 * 3600 * 1000)
	random := rand.New(rand.NewPCG(seed, 0))
	b := setupOrphaned(t, 1)
	away := bustest.Open(t, b.server)
	b.start("a", "a-1", away, 8)
	from := b.open(api.CreateRequest{})
	b.submit(from, "t1", text("go"))
	receive(b.bundle, "first call", b.asked)
	away.Close() // in the middle of the turn
	const id = "jumped"
	for e, err := range b.bus.Log().Read(b.ctx, from, 1) {
		if err != nil {
			t.Fatal(err)
		}
		c := *e.Commit
		c.Session, c.At = id, c.At+events.Millis(random.Int64N(2*year)-year)
		if _, err := b.bus.Log().Append(b.ctx, &c, e.Seq-1); err != nil {
			t.Fatal(err)
		}
	}
	verified(t, b.bus, id)
	must(t, "wake", b.bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, bus.WakeHint{}), nil)
	b.start("b", "b-1", b.bus, 8)
	for _, session := range []events.SessionID{from, id} {
		record := b.ended(session, "t1")
		equal(t, "end", record.End, events.EndFinished)
		equal(t, "attempts", record.Attempts, 2)
		r, err := b.Run(b.ctx, session, turnOf("t2"))
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "next turn", r.End, events.EndFinished)
		verified(t, b.bus, session)
	}
	equal(t, "sequences", b.last(id), b.last(from))
}

func turnOf(id events.TurnID) api.TurnRequest {
	return api.TurnRequest{ID: id, Input: events.TurnInput{Parts: []events.Part{text("go")}}}
}
