package integration

import (
	"context"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers"
)

// sweeper looks at sessions that did not move for that long, and gives creators as long.
func (f *fleet) sweeper(on *bus.Bus, quiet time.Duration) *workers.Sweeper {
	f.t.Helper()
	return workers.NewSweeper(workers.SweeperConfig{Bus: on, Host: f.newHost(on), Quiet: quiet, Opening: quiet})
}

// sweep looks once.
func (f *fleet) sweep() {
	f.t.Helper()
	must(f.t, "sweep", f.sweeper(f.bus, time.Nanosecond).Sweep(f.ctx), nil)
}

// left is a session that a process left behind which died: with these events, and nothing in the queue.
func (f *fleet) left(list ...events.Event) events.SessionID {
	f.t.Helper()
	id := f.open(session.CreateRequest{})
	f.leave(id, list...)
	return id
}

func (f *fleet) leave(id events.SessionID, list ...events.Event) {
	f.t.Helper()
	seq, err := f.bus.Log().Last(f.ctx, id)
	if err != nil {
		seq = 0
	}
	_, err = f.bus.Log().Append(f.ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: 1,
		Actor: events.Actor{Kind: events.ActorNode, ID: "dead"}, Events: list,
	}, events.At(seq))
	must(f.t, "append", err, nil)
}

// commands counts what the queue has of a session.
func (f *fleet) commands(id events.SessionID) int {
	f.t.Helper()
	n, err := f.bus.Backlog(f.ctx, bus.ClassTurn, id)
	must(f.t, "backlog", err, nil)
	more, err := f.bus.Backlog(f.ctx, bus.ClassTask, id)
	must(f.t, "backlog", err, nil)
	return n + more
}

var (
	wanted  = &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}}
	started = &events.TurnStarted{Attempt: 1, Worker: "dead"}
)

// TestFleetSweep leaves sessions behind that owe work of which the queue knows nothing. A sweep sees to it that it is done.
func TestFleetSweep(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	running := f.left(events.Of("t1", wanted), events.Of("t1", started))
	behind := f.left(events.Of("t1", wanted), events.Of("t1", started), events.Of("t2", wanted))
	queued := f.left(events.Of("t1", wanted), events.Of("t2", wanted))
	runs := f.left(events.Of("", &events.TaskRegistered{Task: "k", Runner: "work"}))
	dead := f.left(events.Of("", &events.TaskRegistered{Task: "k", Worker: "dead", State: events.TaskRunning}))
	idle := f.open(session.CreateRequest{})
	f.join(workers.Config{Runners: map[string]workers.TaskFunc{
		"work": func(context.Context, *workers.RunningTask) (string, error) { return "done", nil },
	}})
	f.sweep()
	equal(t, "running", f.ended(running, "t1").Attempts, 2)
	equal(t, "behind a running one", f.ended(behind, "t2").End, events.EndFinished)
	equal(t, "first of the queue", f.ended(queued, "t1").End, events.EndFinished)
	equal(t, "second of the queue", f.ended(queued, "t2").End, events.EndFinished)
	equal(t, "task", f.taskIs(runs, "k", events.TaskCompleted).Summary, "done")
	equal(t, "task of a dead worker", f.taskIs(dead, "k", events.TaskFailed).Summary, "abandoned: worker dead is gone")
	equal(t, "commits of an idle session", f.last(idle), 1)
	for _, id := range []events.SessionID{running, behind, queued} {
		verified(t, f.bus.Log(), id)
	}
}

// TestFleetSweepLeaves has nothing to do for sessions that owe nothing, whose
// work is in the queue, that wait for somebody outside, or that moved just now.
func TestFleetSweepLeaves(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	waiting := f.open(session.CreateRequest{})
	f.submit(waiting, "t1", text("go"))
	moved := f.left(events.Of("t1", wanted))
	must(t, "sweep of quiet ones", f.sweeper(f.bus, time.Hour).Sweep(f.ctx), nil)
	equal(t, "moved just now", f.commands(moved), 0)
	closed := f.left(events.Of("", &events.SessionClosed{}))
	f.sweep()
	f.sweep()
	equal(t, "moved, later, by however many sweeps", f.commands(moved), 1)
	equal(t, "waiting", f.commands(waiting), 1)
	equal(t, "closed", f.commands(closed), 0)

	p := &fleet{bundle: setupIdle(t, theCall())}
	g := &asker{}
	p.nodeOn(p.bus, g.factory(events.EffectsNonIdempotent))
	parked := p.open(session.CreateRequest{})
	p.parks(parked)
	seq := p.last(parked)
	p.sweep()
	equal(t, "parked", p.commands(parked), 0)
	equal(t, "parked, commits", p.last(parked), seq)
	p.leave(parked, events.Of("t1", &events.TurnCancelRequested{Request: "r", Origin: "dead"}))
	p.sweep()
	equal(t, "end of one that was cancelled while it was parked", p.ended(parked, "t1").End, events.EndCancelled)

	k := &talker{parks: true}
	talk, id, kill := setupTalk(t, k, 1)
	p = &fleet{bundle: talk}
	k.begins(talk, id)
	kill()
	p.leave(id, events.Of("t2", &events.TurnRequested{Input: wanted.Input, Busy: events.BusyBranch, Behind: "t1"}))
	p.sweep()
	equal(t, "behind a parked one, and to branch off", p.commands(id), 1)
}

// TestFleetSweepOpening closes a session whose creator died over it, with the reason.
func TestFleetSweepOpening(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	f.leave("o", events.Of("", &events.SessionOpened{Commits: 2}))
	must(t, "sweep with patience", f.sweeper(f.bus, time.Hour).Sweep(f.ctx), nil)
	equal(t, "status", f.state("o").Status, projector.StatusOpening)
	f.sweep()
	equal(t, "status", f.state("o").Status, projector.StatusClosed)
	closed := find[*events.SessionClosed](f.bundle, "o")
	if len(closed) != 1 || closed[0].Reason == "" {
		t.Errorf("got %v, want it closed once with a reason", closed)
	}
	f.sweep()
	equal(t, "last", f.last("o"), 2)
	verified(t, f.bus.Log(), "o")
}

// TestFleetSweepCost sweeps idle sessions: the first time it reads their rows, from then on only lists.
func TestFleetSweepCost(t *testing.T) {
	t.Parallel()
	const sessions = 300
	f := setupFleet(t)
	project := follow.NewProjector(f.bus, nil)
	for range sessions {
		must(t, "project", project.Project(f.ctx, f.open(session.CreateRequest{})), nil)
	}
	on := bustest.Open(t, f.server)
	s := f.sweeper(on, time.Nanosecond)
	cost := func() uint64 {
		before := on.Conn().Stats().OutMsgs
		must(t, "sweep", s.Sweep(f.ctx), nil)
		return on.Conn().Stats().OutMsgs - before
	}
	if n := cost(); n > sessions+20 {
		t.Errorf("first sweep: got %d requests for %d idle sessions, want one each", n, sessions)
	}
	if n := cost(); n > 20 {
		t.Errorf("second sweep: got %d requests for %d idle sessions, want a few in all", n, sessions)
	}
}

// TestFleetWakeParked wakes a session whose turn is parked: the wake waits
// longer and longer, and is there when the turn has ended.
func TestFleetWakeParked(t *testing.T) {
	t.Parallel()
	f := &fleet{bundle: setupIdle(t, theCall(), reply(text("done")), reply(text("woken")))}
	g := &asker{}
	naks := f.naks()
	f.nodeOn(f.bus, g.factory(events.EffectsNonIdempotent))
	id := f.open(session.CreateRequest{})
	f.parks(id)
	wake, err := f.Wake(f.ctx, id, "w")
	must(t, "wake", err, nil)
	receive(f.bundle, "wake given back", naks)
	must(t, "approve", f.approve(f.Host, id, true), nil)
	f.ended(id, "t1")
	f.unqueued(string(wake))
}
