package integration

import (
	"context"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// left is a session that a process left behind which died: with these events, and nothing in the queue.
func (f *fleet) left(list ...events.Event) events.SessionID {
	f.t.Helper()
	id := f.open(api.CreateRequest{})
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
	}, seq)
	must(f.t, "append", err, nil)
}

var (
	wanted  = &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}}
	started = &events.TurnStarted{Attempt: 1, Worker: "dead"}
)

// TestFleetSweep leaves sessions behind that owe work and have no wake. A node sees to it that it is done.
func TestFleetSweep(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	running := f.left(events.Of("t1", wanted), events.Of("t1", started))
	behind := f.left(events.Of("t1", wanted), events.Of("t1", started), events.Of("t2", wanted))
	queued := f.left(events.Of("t1", wanted), events.Of("t2", wanted))
	scheduled := f.left(events.Of("t1", &events.TurnScheduled{Input: wanted.Input, At: 1}))
	runs := f.left(events.Of("", &events.TaskRegistered{Task: "k", Runner: "work"}))
	dead := f.left(events.Of("", &events.TaskRegistered{Task: "k", Worker: "dead", State: events.TaskRunning}))
	idle := f.open(api.CreateRequest{})
	f.join(workers.Config{Runners: map[string]workers.TaskFunc{
		"work": func(context.Context, *workers.RunningTask) (string, error) { return "done", nil },
	}})
	equal(t, "running", f.ended(running, "t1").Attempts, 2)
	equal(t, "behind a running one", f.ended(behind, "t2").End, events.EndFinished)
	equal(t, "first of the queue", f.ended(queued, "t1").End, events.EndFinished)
	equal(t, "second of the queue", f.ended(queued, "t2").End, events.EndFinished)
	equal(t, "one whose time has come", f.ended(scheduled, "t1").End, events.EndFinished)
	equal(t, "task", f.taskIs(runs, "k", events.TaskCompleted).Summary, "done")
	equal(t, "task of a dead worker", f.taskIs(dead, "k", events.TaskFailed).Summary, "abandoned: worker dead is gone")
	equal(t, "commits of an idle session", f.last(idle), 1)
	for _, id := range []events.SessionID{running, behind, queued, scheduled} {
		verified(t, f.bus, id)
	}
}

// TestFleetSweepParked has a host die between its cancel of a parked turn and
// the wake, while the node that parked the turn lives: the turn ends all the same.
func TestFleetSweepParked(t *testing.T) {
	t.Parallel()
	p := &fleet{bundle: setupIdle(t, theCall())}
	g := &asker{}
	p.nodeOn(p.bus, g.factory(events.EffectsNonIdempotent))
	parked := p.open(api.CreateRequest{})
	p.parks(parked)
	p.leave(parked, events.Of("t1", &events.TurnCancelRequested{Request: "r", Origin: "dead"}))
	equal(t, "end", p.ended(parked, "t1").End, events.EndCancelled)
	verified(t, p.bus, parked)
}
