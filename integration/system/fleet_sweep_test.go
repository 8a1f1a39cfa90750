package system

import (
	"context"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
)

// openOrphan is a session of a process that died: it has these events, and no wake in the queue.
func openOrphan(f *harness.Fleet, list ...events.Event) events.SessionID {
	f.T.Helper()
	id := f.Open(api.CreateRequest{})
	appendWithoutWake(f, id, list...)
	return id
}

func appendWithoutWake(f *harness.Fleet, id events.SessionID, list ...events.Event) {
	f.T.Helper()
	seq, err := f.Bus.Log().Last(f.Ctx, id)
	if err != nil {
		seq = 0
	}
	_, err = f.Bus.Log().Append(f.Ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: 1,
		Actor: events.Actor{Kind: events.ActorNode, ID: "dead"}, Events: list,
	}, seq)
	runtest.WantError(f.T, "append", err, nil)
}

var (
	wanted  = &events.TurnRequested{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}}
	started = &events.TurnStarted{Attempt: 1, Worker: "dead"}
)

// TestFleetSweep has sessions with pending work and without a wake. The sweep of a node wakes them.
func TestFleetSweep(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	running := openOrphan(f, events.Of("t1", wanted), events.Of("t1", started))
	waiting := openOrphan(f, events.Of("t1", wanted), events.Of("t1", started), events.Of("t2", wanted))
	queued := openOrphan(f, events.Of("t1", wanted), events.Of("t2", wanted))
	scheduled := openOrphan(f, events.Of("t1", &events.TurnScheduled{Input: wanted.Input, At: 1}))
	runs := openOrphan(f, events.Of("", &events.TaskRegistered{Task: "k", Runner: "work"}))
	orphan := openOrphan(f, events.Of("", &events.TaskRegistered{Task: "k", Worker: "dead", State: events.TaskRunning}))
	idle := f.Open(api.CreateRequest{})
	f.Join(workers.Config{Runners: map[string]workers.TaskFunc{
		"work": func(context.Context, *workers.RunningTask) (string, error) { return "done", nil },
	}})
	runtest.Equal(t, "running", f.AwaitTurn(running, "t1").Attempts, 2)
	runtest.Equal(t, "behind a running one", f.AwaitTurn(waiting, "t2").End, events.EndFinished)
	runtest.Equal(t, "first of the queue", f.AwaitTurn(queued, "t1").End, events.EndFinished)
	runtest.Equal(t, "second of the queue", f.AwaitTurn(queued, "t2").End, events.EndFinished)
	runtest.Equal(t, "one whose time has come", f.AwaitTurn(scheduled, "t1").End, events.EndFinished)
	runtest.Equal(t, "task", f.AwaitTask(runs, "k", events.TaskCompleted).Summary, "done")
	runtest.Equal(t, "task of a dead worker", f.AwaitTask(orphan, "k", events.TaskFailed).Summary, "abandoned: worker dead is gone")
	runtest.Equal(t, "commits of an idle session", f.LastSeq(idle), 1)
	for _, id := range []events.SessionID{running, waiting, queued, scheduled} {
		harness.VerifyHistory(t, f.Bus, id)
	}
}

// TestFleetSweepParked has a host die between its cancel of a parked turn and the wake, while the node that parked
// the turn lives: the turn still ends.
func TestFleetSweepParked(t *testing.T) {
	t.Parallel()
	p := &harness.Fleet{System: harness.StartIdle(t, harness.CallAdd())}
	g := &harness.Approver{}
	p.StartNodeOn(p.Bus, g.Factory(events.EffectsNonIdempotent))
	parked := p.Open(api.CreateRequest{})
	p.ParkTurn(parked)
	appendWithoutWake(p, parked, events.Of("t1", &events.TurnCancelRequested{Request: "r", Origin: "dead"}))
	runtest.Equal(t, "end", p.AwaitTurn(parked, "t1").End, events.EndCancelled)
	harness.VerifyHistory(t, p.Bus, parked)
}
