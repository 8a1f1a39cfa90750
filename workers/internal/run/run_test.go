package run

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/session/work"
	"github.com/lash-go/lash/workers/internal/wake"
)

// claimed is a run that has claimed turn t1. With called, the turn has a tool call.
func (b *bundle) claimed(p *Pool, called bool) *run {
	b.T.Helper()
	r := b.unstarted(p)
	if err := errors.Join(r.claimTurn(b.T.Context()), r.record(b.T.Context())); err != nil || !r.m.IsOurs(r.m.State.Turn()) {
		b.T.Fatalf("claim: got %v, turn %+v", err, r.m.State.Turn())
	}
	if called {
		r.m.Input(turn.Reply{ModelReplied: *b.asksTool()})
		if err := r.record(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	}
	return r
}

// record does what the machine says until its inputs are in the log.
func (r *run) record(ctx context.Context) error {
	for {
		switch rd := r.ready(ctx); rd.Do {
		case work.Add, work.Append, work.Reread:
			if err := r.do(ctx, &rd); err != nil {
				return err
			}
		default:
			if r.m.Durable() == r.m.State {
				return nil
			}
		}
	}
}

// age makes the run's state too old to be trusted.
func (r *run) age() {
	r.m.Unanswered()
	r.m.Tick()
}

// asksTool is a reply with one call of a tool that no worker has.
func (b *bundle) asksTool() *events.ModelReplied {
	b.T.Helper()
	prompt, err := b.State().Prompt()
	if err != nil {
		b.T.Fatal(err)
	}
	return &events.ModelReplied{Prompt: prompt.Ref, Stop: events.StopToolUse, Parts: []events.Part{{Kind: events.PartToolCall, Call: "k", Tool: "tool", Args: []byte("{}")}}}
}

// TestStoppedRunStartsNothing expects a stopped run not to start a model call that the state needs.
func TestStoppedRunStartsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.claimed(b.pool("w1", 1, says("hi"), nil), false)
	last := r.m.State.Seq
	ctx, stop := context.WithCancelCause(t.Context())
	stop(wake.ErrStopped)
	if done, err := r.advance(ctx); done || !errors.Is(err, wake.ErrStopped) || len(r.m.Inflight) != 0 || b.State().Seq != last {
		t.Errorf("got %v, %v, %d in flight, want %v and nothing started", done, err, len(r.m.Inflight), wake.ErrStopped)
	}
}

// TestUnansweredRead reads a log that does not respond: the run continues and starts nothing. A stopped run ends.
func TestUnansweredRead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.claimed(b.pool("w1", 1, says("hi"), nil), true)
	server := bustest.Server(t, busembed.Config{})
	away, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	server.Stop()
	r.p.cfg.Bus = away
	r.age()
	if done, err := r.advance(t.Context()); done || err != nil || len(r.m.Inflight) != 0 {
		t.Errorf("needs a call: got %v, %v, %d in flight, want nothing started", done, err, len(r.m.Inflight))
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := r.readLog(ctx); err == nil {
		t.Error("was stopped: it goes on")
	}
}

// resting is a run that is about to ack, because its session needs nothing in the run's state.
func (b *bundle) resting(p *Pool) *run {
	b.T.Helper()
	b.submit("t0")
	b.Append("t0", &events.TurnCompleted{End: events.EndFailed})
	r := newRun(p, sid, bus.ClassTurn, b.FetchWake(p.cfg.Bus, bus.ClassTurn))
	p.runs[sid] = r
	if err := r.load(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
	if done, err := r.advance(b.T.Context()); !done || err != nil {
		b.T.Fatalf("got %v, %v, want it at rest", done, err)
	}
	b.T.Cleanup(r.closeStack)
	return r
}

// TestWakeBeforeTheAck accepts a turn just before the run acks, and delivers its wake: the run reads the log again,
// and acks the newest wake.
func TestWakeBeforeTheAck(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]func(b *bundle, p *Pool){
		"wake":         func(b *bundle, p *Pool) { p.deliver(b.FetchWake(p.cfg.Bus, bus.ClassTurn)) },
		"hint":         func(_ *bundle, p *Pool) { p.NeedsWorker(projector.New(sid)) },
		"notification": func(_ *bundle, p *Pool) { p.logMoved(sid) },
		"handover": func(b *bundle, p *Pool) {
			w := b.FetchWake(b.Bus, bus.ClassTurn)
			if !p.respond(&wake.PeerRequest{Session: sid, Offer: true, Handle: w.Handle(), Class: bus.ClassTurn}) {
				b.T.Error("the wake was refused")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.pool("w1", 1, says("hi"), nil)
			r := b.resting(p)
			first := r.wake
			b.submit("t1")
			come(b, p)
			if over, err := r.end(t.Context()); over || err != nil {
				t.Fatalf("got over %v, %v, want another look", over, err)
			}
			if replaced := r.wake != first; replaced != (name == "wake" || name == "handover") {
				t.Errorf("holds another wake: got %v", replaced)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if done, err := r.advance(ctx); done || err != nil || !r.m.IsOurs(r.m.State.Turn()) {
				t.Errorf("got %v, %v, turn %+v, want it claimed", done, err, r.m.State.Turn())
			}
			cancel()
			p.jobs.Wait()
		})
	}
}

// TestWakeAfterTheEnd expects another run: an ended run reads nothing.
func TestWakeAfterTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	r := b.resting(p)
	if over, err := r.end(t.Context()); !over || err != nil || p.Running() != 0 {
		t.Fatalf("got over %v, %v, %d runs, want it over", over, err, p.Running())
	}
	p.life, p.kill = context.WithCancelCause(t.Context())
	b.submit("t1")
	p.deliver(b.FetchWake(p.cfg.Bus, bus.ClassTurn))
	if got := b.await("t1"); got.End != events.EndFinished {
		t.Errorf("got %+v", got)
	}
	p.jobs.Wait()
	p.finish(t.Context(), r, r.wake, nil) // the late ack of the first run
	b.awaitWakes(0)
}

// TestYield has more turns than a run does in a row. A run of a full pool ends between two of them: a new wake puts the session at the
// end of the queue, and the run acks nothing.
func TestYield(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ concurrency, turns int }{"full": {1, fairTurns}, "room": {2, fairTurns + 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.pool("w1", c.concurrency, says("hi"), nil)
			r := b.unstarted(p)
			for n := range fairTurns {
				b.submit(events.TurnID(fmt.Sprint("more", n)))
			}
			p.work(t.Context(), r)
			if got := b.State().Turns; int(got) != c.turns || p.Running() != 0 || r.stack.Stack != nil {
				t.Errorf("got %d turns, %d runs, a stack %v, want %d turns and it over", got, p.Running(), r.stack.Stack != nil, c.turns)
			}
			if w := b.FetchWake(b.Bus, bus.ClassTurn); w.Deliveries != 1 || w.Repair {
				t.Errorf("got %+v, delivery %d, want a new wake", w.WakeHint, w.Deliveries)
			}
		})
	}
}

// TestTwoWakesAreOne has a run get a wake of another class than the one that it has, as an agent's session may: the earlier one is gone.
func TestTwoWakesAreOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	for _, class := range bus.TurnClasses() {
		if err := b.Bus.StoreWake(t.Context(), bus.WakeKey{Class: class, Session: sid}, bus.WakeHint{}); err != nil {
			t.Fatal(err)
		}
	}
	r := newRun(p, sid, bus.ClassTurn, b.FetchWake(p.cfg.Bus, bus.ClassTurn))
	p.mu.Lock()
	r.replaceWakeLocked(b.FetchWake(p.cfg.Bus, bus.ClassAgent))
	p.mu.Unlock()
	bustest.Eventually(t, "one wake is left", func() bool {
		wakes, err := b.Bus.Wakes(t.Context())
		return err == nil && len(wakes) == 1 && wakes[bus.WakeKey{Class: bus.ClassAgent, Session: sid}]
	})
}
