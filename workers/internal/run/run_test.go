package run

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/wake"
)

// claimed is a run that has claimed turn t1. With called, the turn has a tool call.
func (b *bundle) claimed(p *Pool, called bool) *run {
	b.T.Helper()
	r := b.unstarted(p)
	if err := r.claimNext(b.T.Context()); err != nil || !r.isOurs(r.state.Turn()) {
		b.T.Fatalf("claim: got %v, turn %+v", err, r.state.Turn())
	}
	if called {
		if err := r.step(b.T.Context(), turn.Reply{ModelReplied: *b.asksTool()}); err != nil {
			b.T.Fatal(err)
		}
		if err := r.flush(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
	}
	return r
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

func success(text string) turn.Results {
	return turn.Results{Results: []events.ToolResult{{Text: text}}}
}

// overtake lets another worker take the run's turn over and record the result of its effect.
func (b *bundle) overtake(called bool) {
	b.T.Helper()
	recorded := events.Payload(b.asksTool())
	if called {
		recorded = &events.ToolReturned{Results: success("other's").Results}
	}
	b.Append("t1", &events.TurnStarted{Attempt: 2, Worker: "other"}, recorded)
}

// TestStoppedRunStartsNothing expects a stopped run not to start a model call that the state needs.
func TestStoppedRunStartsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	r := b.claimed(b.pool("w1", 1, says("hi"), nil), false)
	last := r.state.Seq
	ctx, stop := context.WithCancelCause(t.Context())
	stop(wake.ErrStopped)
	if done, err := r.advance(ctx); done || !errors.Is(err, wake.ErrStopped) || len(r.inflight) != 0 || b.State().Seq != last {
		t.Errorf("got %v, %v, %d in flight, want %v and nothing started", done, err, len(r.inflight), wake.ErrStopped)
	}
}

// TestResultsAreSorted completes calls in another order than that of the reply.
func TestResultsAreSorted(t *testing.T) {
	t.Parallel()
	got := sorted(turn.Results{Results: []events.ToolResult{{Call: 3}, {Call: 1}}, Pending: []int64{4, 0, 2}})
	if want := []int64{0, 2, 4}; !slices.Equal(got.Pending, want) || got.Results[0].Call != 1 || got.Results[1].Call != 3 {
		t.Errorf("got %+v, want both ascending", got)
	}
}

// TestOvertakenRunStartsNothing has a run whose turn another worker has taken over since the run's last append; that
// worker has recorded the effect. A run whose state is aged reads the log first and starts nothing. A run that has
// just read the log starts the effect at once.
func TestOvertakenRunStartsNothing(t *testing.T) {
	t.Parallel()
	advance := func(ctx context.Context, r *run) error {
		_, err := r.advance(ctx)
		return err
	}
	for name, c := range map[string]struct {
		called bool // the turn has a tool call
		do     func(ctx context.Context, r *run) error
	}{
		"needs_the_model": {false, advance},
		"needs_a_call":    {true, advance},
		"needs_the_model_on_results_that_linger": {true, func(ctx context.Context, r *run) error {
			return errors.Join(r.step(ctx, success("mine")), advance(ctx, r))
		}},
		"had_a_fact_recorded": {true, func(ctx context.Context, r *run) error {
			recorded := make(chan error, 1)
			e := &effect{turn: "t1", id: "t1/0/0", cancel: func(error) {}}
			r.inflight[e.id] = e
			err := r.handleRecordRequest(ctx, recordRequest{e, nil, recorded})
			delete(r.inflight, e.id)
			if err == nil && errors.Is(<-recorded, turn.ErrStale) {
				err = wake.ErrSuperseded // for the effect
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, long := range []bool{true, false} {
				b := setup(t)
				p := b.pool("w1", 1, says("hi"), nil)
				stop, err := b.Bus.ServeWorker("other", func([]byte) []byte { return []byte("yes") })
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				r := b.claimed(p, c.called)
				b.overtake(c.called)
				ctx, cancel := context.WithCancel(t.Context())
				r.logEnd.since = time.Now().Add(time.Hour) // also on a slow machine
				if long {
					r.logEnd.since = time.Now().Add(-trusted)
				}
				err = c.do(ctx, r)
				if long && (!errors.Is(err, wake.ErrSuperseded) && !errors.Is(err, errDropped) || len(r.inflight) != 0) {
					t.Errorf("asked long ago: got %v, %d in flight, want it superseded and nothing started", err, len(r.inflight))
				}
				if !long && err != nil {
					t.Errorf("asked just now: got %v, want it trusted", err)
				}
				cancel()
				p.jobs.Wait()
			}
		})
	}
}

// TestGivenUpEffectRecordsNothing has a discarded effect that ignores its cancel: its events are refused. The effect
// that the turn started in its place continues.
func TestGivenUpEffectRecordsNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	r := b.claimed(p, true)
	old, now := &effect{turn: "t1", id: "t1/0/0", cancel: func(error) {}}, &effect{turn: "t1", id: "t1/0/0", cancel: func(error) {}}
	r.inflight[now.id] = now
	last := b.State().Seq
	for e, want := range map[*effect]error{old: turn.ErrStale, now: nil} {
		recorded := make(chan error, 1)
		err := r.handleRecordRequest(t.Context(), recordRequest{e, []events.Payload{&events.ToolNestedCalled{Effect: "t1/0/0/0", Tool: "t", Digest: "d"}}, recorded})
		if got := <-recorded; err != nil || !errors.Is(got, want) || want == nil && got != nil {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	if got := b.State().Seq; got != last+1 {
		t.Errorf("got %d commits, want that of the effect that runs", got-last)
	}
	p.jobs.Wait()
}

// TestLingeringResultsCostNoWrite starts an effect on lingering results with an aged state: if the log has not moved,
// asking for its end costs no write.
func TestLingeringResultsCostNoWrite(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	r := b.claimed(p, true)
	last := r.state.Seq
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.step(ctx, success("mine")); err != nil {
		t.Fatal(err)
	}
	r.logEnd.since = time.Now().Add(-trusted)
	if done, err := r.advance(ctx); done || err != nil || len(r.inflight) != 1 {
		t.Errorf("got %v, %v, %d in flight, want the model asked", done, err, len(r.inflight))
	}
	if now, err := b.Bus.Log().Last(t.Context(), sid); err != nil || now != last {
		t.Errorf("last sequence: got %d, %v, want %d", now, err, last)
	}
	cancel()
	p.jobs.Wait()
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
	r.logEnd.since = time.Now().Add(-trusted)
	if done, err := r.advance(t.Context()); done || err != nil || len(r.inflight) != 0 {
		t.Errorf("needs a call: got %v, %v, %d in flight, want nothing started", done, err, len(r.inflight))
	}
	r.logEnd.moved.Store(true)
	r.signal()
	if err := r.wait(t.Context(), nil); err != nil {
		t.Errorf("read of the log: got %v", err)
	}
	if !r.logEnd.moved.Load() {
		t.Error("it forgot that the session moved")
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
			if done, err := r.advance(ctx); done || err != nil || !r.isOurs(r.state.Turn()) {
				t.Errorf("got %v, %v, turn %+v, want it claimed", done, err, r.state.Turn())
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

// TestYield ends a run of many turns when the pool is full: a new wake puts the session at the end of the queue, and
// the run acks nothing.
func TestYield(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turns, concurrency int
		yields             bool
	}{"full": {fairTurns, 1, true}, "fewer_turns": {fairTurns - 1, 1, false}, "room": {fairTurns, 2, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.pool("w1", c.concurrency, says("hi"), nil)
			r := b.unstarted(p)
			if err := r.openStack(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.turns = c.turns
			w := r.wake
			err := r.claimNext(t.Context())
			if got := errors.Is(err, errDropped); got != c.yields || !got && err != nil {
				t.Fatalf("got %v, want that it yields: %v", err, c.yields)
			}
			if !c.yields {
				if !r.isOurs(r.state.Turn()) {
					t.Errorf("got %+v, want the turn claimed", r.state.Turn())
				}
				return
			}
			if p.Running() != 0 || r.stack.Stack != nil || r.state.Turn() != nil {
				t.Errorf("got %d runs, a stack %v, want it over", p.Running(), r.stack.Stack != nil)
			}
			p.finish(t.Context(), r, w, err)
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
