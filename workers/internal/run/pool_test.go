package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/internal/wake"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestTurnEndsWithItsWake runs turns in order and expects no wake afterwards.
func TestTurnEndsWithItsWake(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []events.TurnID{"t1", "t2", "t3"} {
		b.submit(id)
	}
	p := b.start(b.pool("w1", 1, says("hi"), nil))
	for i, id := range []events.TurnID{"t1", "t2", "t3"} {
		if r := b.await(id); r.End != events.EndFinished || r.Index != int64(i+1) || r.Text != "hi" || r.Attempts != 1 {
			t.Errorf("%s: got %+v", id, r)
		}
	}
	idle(t, p)
	b.awaitWakes(0)
}

// TestRespond is a table of the wakes that a pool accepts from other workers.
func TestRespond(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	r := b.claimed(p, false)
	mine := r.wake
	handle := func() string { return mine.Handle() }
	for name, c := range map[string]struct {
		q    wake.PeerRequest
		want bool
	}{
		"mine":            {wake.PeerRequest{Turn: "t1", Attempt: 1}, true},
		"mine_with_wake":  {wake.PeerRequest{Turn: "t1", Attempt: 1, Handle: handle()}, true},
		"other_attempt":   {wake.PeerRequest{Turn: "t1", Attempt: 2}, false},
		"other_turn":      {wake.PeerRequest{Turn: "t2", Attempt: 1}, false},
		"offer":           {wake.PeerRequest{Offer: true, Handle: handle()}, true},
		"bad_handle":      {wake.PeerRequest{Offer: true, Handle: "$JS.API.STREAM.PURGE.lash-work"}, false},
		"class_of_tasks":  {wake.PeerRequest{Offer: true, Handle: handle(), Class: bus.ClassTool}, false},
		"other_class":     {wake.PeerRequest{Offer: true, Handle: handle(), Class: bus.ClassAgent}, false},
		"task":            {wake.PeerRequest{Task: "k", Handle: handle()}, false},
		"task_and_offer":  {wake.PeerRequest{Task: "k", Offer: true}, false},
		"no_turn_claimed": {wake.PeerRequest{}, false},
	} {
		r.wake = nil
		c.q.Session, c.q.Class = sid, cmp.Or(c.q.Class, bus.ClassTurn)
		if got := p.respond(&c.q); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		if took := r.wake != nil; took != (c.want && c.q.Handle != "") {
			t.Errorf("%s: took the wake: got %v", name, took)
		}
	}
	other := wake.PeerRequest{Session: "s2", Offer: true, Handle: handle()}
	if p.respond(&other) {
		t.Error("of another session: a full pool took the wake")
	}
	p.cfg.Concurrency = 64
	for i := range 5 {
		p.runs[events.SessionID(fmt.Sprintf("busy%d", i))] = r
	}
	if p.respond(&other) || !p.busier(2) || p.busier(3) {
		t.Error("six turns run: want them busier than a worker with two, and not than one with three")
	}
	p.draining.Store(true)
	if p.respond(&other) {
		t.Error("of another session: a pool that stops took the wake")
	}
}

// TestHandOver transfers the wake of a turn to the worker that runs it. That worker acks the wake at the end. The
// turn is not taken over.
func TestHandOver(t *testing.T) {
	t.Parallel()
	b := setup(t)
	model := newGate()
	holder := b.start(b.pool("w1", 1, model.script(says("hi")), nil)) // full with one run
	b.submit("t1")
	bustest.Receive(t, "an event", model.asked)
	other := b.start(b.pool("w2", 4, says("never"), nil))
	holder.mu.Lock()
	first := holder.runs[sid].wake
	holder.mu.Unlock()
	b.publish()
	bustest.Eventually(t, "the run has the second wake", func() bool {
		holder.mu.Lock()
		defer holder.mu.Unlock()
		return holder.runs[sid].wake != first
	})
	idle(t, other)
	close(model.open)
	if r := b.await("t1"); r.End != events.EndFinished || r.Attempts != 1 || r.Text != "hi" {
		t.Errorf("got %+v, want it finished by its worker", r)
	}
	idle(t, holder)
	b.awaitWakes(0)
}

// TestOvertakenRunDropsItsEffects expects a run to transfer its wake to the worker that has taken the turn over, and
// to record none of its in-flight effects.
func TestOvertakenRunDropsItsEffects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	model := newGate()
	p := b.start(b.pool("w1", 1, model.script(says("late")), nil))
	b.submit("t1")
	bustest.Receive(t, "an event", model.asked)
	asked := make(chan wake.PeerRequest, 4)
	stop, err := b.Bus.ServeWorker("w2", func(body []byte) []byte {
		var q wake.PeerRequest
		if err := events.DecodePayload(body, &q); err != nil {
			return []byte("no")
		}
		asked <- q
		return []byte("yes")
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := b.Bus.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	b.Append("t1", &events.TurnStarted{Attempt: 2, Worker: "w2"})
	last := b.State().Seq
	if err := b.Bus.Notify("w1", sid); err != nil {
		t.Fatal(err)
	}
	if err := bustest.Receive(t, "an event", model.ended); !errors.Is(err, wake.ErrSuperseded) {
		t.Errorf("the model call ended with %v, want %v: its turn goes on elsewhere", err, wake.ErrSuperseded)
	}
	if q := bustest.Receive(t, "an event", asked); q.Session != sid || q.Turn != "t1" || q.Attempt != 2 || q.Handle == "" || q.Class != bus.ClassTurn {
		t.Errorf("asked: got %+v", q)
	}
	idle(t, p)
	if now := b.State(); now.Seq != last {
		t.Errorf("history: got %d commits more, want none", now.Seq-last)
	}
	b.awaitWakes(1) // the other worker's
}

// TestPanickedRunEndsItsEffects has a run panic while a model call of it runs, and an effect waits until its events are recorded. Both end with
// the cause that the run has ended, as the turn goes on, in another run.
func TestPanickedRunEndsItsEffects(t *testing.T) {
	t.Parallel()
	b := setup(t)
	model := newGate()
	p := b.start(b.pool("w1", 1, model.script(says("hi")), nil))
	b.submit("t1")
	bustest.Receive(t, "an event", model.asked)
	p.mu.Lock()
	r := p.runs[sid]
	p.mu.Unlock()
	recorded := make(chan error, 1)
	r.recordRequests <- recordRequest{done: recorded} // of no effect
	if err := bustest.Receive(t, "an answer", recorded); !errors.Is(err, errRunEnded) {
		t.Errorf("the request to record got %v, want %v", err, errRunEnded)
	}
	if err := bustest.Receive(t, "an event", model.ended); !errors.Is(err, errRunEnded) {
		t.Errorf("the model call ended with %v, want %v", err, errRunEnded)
	}
	close(model.open)
	if r := b.await("t1"); r.End != events.EndFinished || r.Attempts != 2 || r.Text != "hi" {
		t.Errorf("got %+v, want it finished by the second attempt", r)
	}
}

// TestTakeOverOfSilentWorker takes over a turn whose worker does not respond.
func TestTakeOverOfSilentWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("t1")
	b.Append("t1", &events.TurnStarted{Attempt: 1, Worker: "gone"})
	p := b.start(b.pool("w1", 1, says("hi"), nil))
	if r := b.await("t1"); r.End != events.EndFinished || r.Attempts != 2 {
		t.Errorf("got %+v, want it finished by the second attempt", r)
	}
	idle(t, p)
	b.awaitWakes(0)
}

// TestPoisonedTurn expects a turn to fail in the history after the limit of attempts that record nothing, two of which
// died beside no other suspect.
func TestPoisonedTurn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.submit("t1")
	for n := range int64(3) {
		b.Append("t1", &events.TurnStarted{Attempt: n + 1, Worker: "gone"})
	}
	if err := b.Bus.PutTrial(t.Context(), bus.TrialKey{Session: sid, Of: bus.TrialTurn, Turn: "t1"}, bus.Trial{Count: 3, Own: 2, Attempt: 2}); err != nil {
		t.Fatal(err)
	}
	b.submit("t2")
	p := b.start(b.pool("w1", 1, says("hi"), nil))
	_, err := b.Host.Await(t.Context(), sid, "t1")
	record, recordErr := b.State().Record("t1")
	if err == nil || recordErr != nil || record.End != events.EndFailed || record.Issue.Code != wake.CodePoisoned {
		t.Errorf("got %v, %+v, want it given up", err, record)
	}
	if r := b.await("t2"); r.End != events.EndFinished {
		t.Errorf("the next turn: got %+v", r)
	}
	idle(t, p)
}

// TestUnfoldableSession expects a dead letter of the session, and no effect on other sessions.
func TestUnfoldableSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	js, err := jetstream.New(b.Bus.Conn())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Host.Create(t.Context(), sessionRequest("bad")); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "lash.s.bad.turn", []byte("junk")); err != nil {
		t.Fatal(err)
	}
	p := b.start(b.pool("w1", 4, says("hi"), nil))
	if err := b.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: "bad"}, bus.WakeHint{}); err != nil {
		t.Fatal(err)
	}
	b.submit("t1")
	if r := b.await("t1"); r.End != events.EndFinished {
		t.Errorf("the other session: got %+v", r)
	}
	var letter bus.DeadLetter
	for err = bus.ErrNotFound; errors.Is(err, bus.ErrNotFound); {
		letter, err = b.Bus.DeadLetter(t.Context(), "bad")
	}
	if err != nil || letter.Attempts != 3 || letter.Error == "" || letter.Worker != "w1" {
		t.Errorf("got %+v, %v, want the third attempt's error", letter, err)
	}
	idle(t, p)
	b.awaitWakes(0)
}

// TestSoftStop completes and records the in-flight effects. The next worker runs the rest; its attempt follows no
// failed one.
func TestSoftStop(t *testing.T) {
	t.Parallel()
	b := setup(t)
	model := newGate()
	asks := func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{Stop: events.StopToolUse, Parts: []events.Part{
			{Kind: events.PartToolCall, Call: "k", Tool: "look", Args: []byte("{}")},
		}}}, nil
	}
	looked := make(chan string, 4)
	tools := func(name string) *plugin.Tools {
		list := plugin.NewTools()
		plugin.AddTool(list, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
			looked <- name
			return "seen", nil
		})
		return list
	}
	first := b.start(b.pool("w1", 1, model.script(asks), tools("first")))
	b.submit("t1")
	bustest.Receive(t, "an event", model.asked)
	stopped := make(chan struct{})
	go func() { first.Stop(t.Context()); close(stopped) }()
	bustest.Eventually(t, "the pool stops", first.draining.Load)
	close(model.open)
	bustest.Receive(t, "an event", stopped)
	if run := b.State().Turn(); run == nil || !run.Replied || run.Starts != 0 || run.Attempt != 1 || len(looked) != 0 {
		t.Fatalf("after the stop: got %+v, %d calls, want the reply recorded and the turn released", run, len(looked))
	}
	b.start(b.pool("w2", 1, says("done"), tools("second")))
	if r := b.await("t1"); r.End != events.EndFinished || r.Attempts != 2 || r.ModelCalls != 2 {
		t.Errorf("got %+v, want it finished by the next worker", r)
	}
	if who := bustest.Receive(t, "an event", looked); who != "second" || len(looked) != 0 {
		t.Errorf("the call ran on %s, and %d times more", who, len(looked))
	}
}

// TestPanicEndsOneRun expects the pool and its other sessions to continue.
func TestPanicEndsOneRun(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.start(b.pool("w1", 4, func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if req.Turn == "t1" {
			panic("scripted")
		}
		return says("hi")(ctx, req)
	}, nil))
	b.submit("t1")
	b.submit("t2")
	if _, err := b.Host.Await(t.Context(), sid, "t1"); err == nil {
		t.Log("the panic ended the turn in order")
	}
	if record, err := b.State().Record("t1"); err != nil || record == nil || record.End == events.EndFinished {
		t.Errorf("got %+v, %v, want it ended by the panic", record, err)
	}
	if r := b.await("t2"); r.End != events.EndFinished {
		t.Errorf("the next turn: got %+v", r)
	}
	idle(t, p)
}

// TestWakeOfNoSession expects an ack.
func TestWakeOfNoSession(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.start(b.pool("w1", 1, says("hi"), nil))
	if err := b.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: "none"}, bus.WakeHint{Worker: "nobody"}); err != nil {
		t.Fatal(err)
	}
	b.submit("t1")
	b.await("t1")
	b.awaitWakes(0)
	idle(t, p)
}

// TestTimers starts a scheduled turn on a worker when it is due, and resolves a call.
func TestTimers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.start(b.pool("w1", 1, says("hi"), nil))
	at := time.Now().Add(1200 * time.Millisecond)
	req := sessionAsk("later")
	if _, err := b.Host.SubmitAt(t.Context(), sid, at, req); err != nil {
		t.Fatal(err)
	}
	r := b.await("later")
	if r.End != events.EndFinished || r.StartedAt < events.MillisOf(at) {
		t.Errorf("got %+v, want it started at %d or later", r, events.MillisOf(at))
	}
	idle(t, p)
	b.awaitWakes(0)
}
