package run

import (
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// TestRunGoesOnWithState passes the state to the next run without a copy, with its computed values: a copy would
// build the whole prompt again.
func TestRunGoesOnWithState(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	once := func(id events.TurnID) { // without a loop, whose runs would take the state too
		b.submit(id)
		r := newRun(p, sid, bus.ClassTurn, b.FetchWake(p.cfg.Bus, bus.ClassTurn))
		p.runs[sid] = r
		p.work(t.Context(), r)
	}
	once("t1")
	state := p.cfg.Worker.TakeState(t.Context(), sid)
	p.cfg.Worker.ReturnState(t.Context(), state)
	once("t2")
	if got := p.cfg.Worker.TakeState(t.Context(), sid); got != state || got.Turns != 2 {
		t.Errorf("got the state %p at %d with %d turns, want %p with two", got, got.Seq, got.Turns, state)
	}
	behind := state.Clone()
	behind.Seq--
	p.cfg.Worker.ReturnState(t.Context(), behind)
	if got := p.cfg.Worker.TakeState(t.Context(), sid); got == behind || got.Seq != state.Seq {
		t.Errorf("got the state at %d, want the one at %d: it is newer", got.Seq, state.Seq)
	}
}

// TestRunReadsOneCommit expects one request from a worker whose cached state lacks only the accepted turn: it does
// not ask a leader for the end of the log.
func TestRunReadsOneCommit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	r := b.unstarted(p)
	p.work(t.Context(), r)
	b.submit("t2")
	var asked []string
	sub, err := b.Bus.Conn().SubscribeSync("$JS.API.>")
	if err == nil {
		err = b.Bus.Conn().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	r = newRun(p, sid, bus.ClassTurn, nil)
	if err := r.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if q := r.m.State.Queue; len(q) != 1 || q[0].ID != "t2" {
		t.Errorf("got %d turns that wait, want t2", len(q))
	}
	if err := b.Bus.Conn().Flush(); err != nil { // waits for the messages before it
		t.Fatal(err)
	}
	for {
		msg, err := sub.NextMsg(time.Millisecond)
		if err != nil {
			break
		}
		asked = append(asked, msg.Subject)
	}
	if len(asked) != 1 || !strings.HasPrefix(asked[0], "$JS.API.DIRECT.GET.") {
		t.Errorf("got the requests %q, want one direct get", asked)
	}
}
