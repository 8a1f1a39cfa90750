package run

import "testing"

// TestRunGoesOnWithState gives the next run the very state of the one before,
// with what was computed from it: a copy would build the whole prompt again.
func TestRunGoesOnWithState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.start(b.pool("w1", 1, says("hi"), nil))
	b.submit("t1")
	b.await("t1")
	idle(t, p)
	state := p.cfg.Host.Take(sid)
	p.cfg.Host.Keep(state)
	b.submit("t2")
	b.await("t2")
	idle(t, p)
	if got := p.cfg.Host.Take(sid); got != state || got.Turns != 2 {
		t.Errorf("got the state %p at %d, want %p with two turns", got, got.Seq, state)
	}
	behind := state.Clone()
	behind.Seq--
	p.cfg.Host.Keep(behind)
	if got := p.cfg.Host.Take(sid); got == behind || got.Seq != state.Seq {
		t.Errorf("got the state at %d, want the one at %d: it is newer", got.Seq, state.Seq)
	}
}
