package run

import (
	"testing"

	"github.com/lash-go/lash/events"
)

// TestRunGoesOnWithState gives the next run the very state of the one before,
// with what was computed from it: a copy would build the whole prompt again.
func TestRunGoesOnWithState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	once := func(id events.TurnID) { // no loop starts runs of its own, which would take the state too
		b.submit(id)
		r := newRun(p, sid, b.take(p.cfg.Bus))
		p.runs[sid] = r
		p.work(t.Context(), r)
	}
	once("t1")
	state := p.cfg.Host.Take(sid)
	p.cfg.Host.Keep(state)
	once("t2")
	if got := p.cfg.Host.Take(sid); got != state || got.Turns != 2 {
		t.Errorf("got the state %p at %d with %d turns, want %p with two", got, got.Seq, got.Turns, state)
	}
	behind := state.Clone()
	behind.Seq--
	p.cfg.Host.Keep(behind)
	if got := p.cfg.Host.Take(sid); got == behind || got.Seq != state.Seq {
		t.Errorf("got the state at %d, want the one at %d: it is newer", got.Seq, state.Seq)
	}
}
