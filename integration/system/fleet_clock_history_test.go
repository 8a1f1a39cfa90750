package system

import (
	"math/rand/v2"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestClockHistory has a history whose times jump back and forth by up to a year, as those of nodes with wrong
// clocks do. A turn was claimed in the far future by a worker that is gone. The folded state differs in its times
// only, and a node with the right time continues the turn, with times that do not go back.
func TestClockHistory(t *testing.T) {
	t.Parallel()
	const seed, year = 20261121, int64(365 * 24 * 3600 * 1000)
	random := rand.New(rand.NewPCG(seed, 0))
	b := setupOrphaned(t, 1)
	secondBus := bustest.Open(t, b.Server)
	b.start("a", "a-1", secondBus, 8)
	from := b.Open(api.CreateRequest{})
	b.StartTurn(from, "t1", harness.Text("go"))
	harness.Receive(b.System, "first call", b.calls)
	secondBus.Close() // in the middle of the turn
	const id = "jumped"
	end := b.LastSeq(from)
	for e, err := range b.Bus.Log().Read(b.Ctx, from, 1) {
		runtest.NoError(t, err)
		c := *e.Commit
		c.Session, c.At = id, c.At+events.Millis(random.Int64N(2*year)-year)
		if e.Seq == end {
			c.At = e.Commit.At + events.Millis(year)
		}
		_, err = b.Bus.Log().Append(b.Ctx, &c, e.Seq-1)
		runtest.NoError(t, err)
	}
	jumped := b.LastSeq(id)
	harness.VerifyHistory(t, b.Bus, id)
	runtest.WantError(t, "wake", b.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, bus.WakeHint{}), nil)
	b.start("b", "b-1", b.Bus, 8)
	for _, session := range []events.SessionID{from, id} {
		record := b.AwaitTurn(session, "t1")
		runtest.Equal(t, "end", record.End, events.EndFinished)
		runtest.Equal(t, "attempts", record.Attempts, 2)
		r, err := b.Run(b.Ctx, session, turnOf("t2"))
		runtest.NoError(t, err)
		runtest.Equal(t, "next turn", r.End, events.EndFinished)
		harness.VerifyHistory(t, b.Bus, session)
	}
	runtest.Equal(t, "sequences", b.LastSeq(id), b.LastSeq(from))
	var last events.Millis
	for e, err := range b.Bus.Log().Read(b.Ctx, id, jumped) {
		runtest.NoError(t, err)
		if e.Commit.At < last {
			t.Errorf("commit %d: got time %d, want at least %d, that of the commit before it", e.Seq, e.Commit.At, last)
		}
		last = e.Commit.At
	}
}

func turnOf(id events.TurnID) api.TurnRequest {
	return api.TurnRequest{ID: id, Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}}
}
