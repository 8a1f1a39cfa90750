package integration

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers"
)

// family is a child whose task k is to be its parent's when it closes.
type family struct {
	*bundle
	parent, child events.SessionID
}

func (b *bundle) family(name string, req api.TaskRequest) *family {
	b.t.Helper()
	f := &family{b, events.SessionID("parent-" + name), events.SessionID("child-" + name)}
	b.open(api.CreateRequest{ID: f.parent})
	b.open(api.CreateRequest{ID: f.child, Parent: f.parent})
	req.ID, req.Close = "k", events.CloseTransfer
	_, err := b.RegisterTask(b.ctx, f.child, req)
	must(b.t, "register", err, nil)
	return f
}

// owes closes the child as a host that died right after its commit, and gives the record of what it owes.
func (f *family) owes() projector.Task {
	f.t.Helper()
	_, err := f.bus.Log().Append(f.ctx, &events.Commit{
		ID: "close", Session: f.child, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("", &events.TaskLeaving{Tasks: []events.TaskID{"k"}, To: f.parent}), events.Of("", &events.SessionClosed{})},
	}, f.last(f.child))
	must(f.t, "close", err, nil)
	k, _ := f.state(f.child).Task("k")
	equal(f.t, "is to go to", k.Leaves, f.parent)
	return *k
}

// places is in how many of the two sessions a reader finds the task.
func (f *family) places() (n int) {
	f.t.Helper()
	for _, id := range []events.SessionID{f.child, f.parent} {
		if f.listed(id, "k").ID != "" {
			n++
		}
	}
	return n
}

// settled waits until the task is the parent's, and wants it to have come there once.
func (f *family) settled() {
	f.t.Helper()
	f.await(f.child, "the transfer", func(s *projector.State) bool {
		k, ok := s.Task("k")
		return ok && k.To == f.parent && s.Status == projector.StatusClosed
	})
	equal(f.t, "registrations at the parent", len(find[*events.TaskRegistered](f.bundle, f.parent)), 1)
	equal(f.t, "transfers", len(find[*events.TaskTransferred](f.bundle, f.child)), 1)
	equal(f.t, "places", f.places(), 1)
}

// begins is a runner that counts how often each session's task begins.
type begins struct {
	mu   sync.Mutex
	runs map[events.SessionID]int
}

func (c *begins) run(_ context.Context, r *workers.RunningTask) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[r.Session()]++
	return "done", nil
}

// TestCloseKilledAnywhere kills a host that closes a session with a task for its parent, and a worker that transfers what
// a closed one owes, at each request, before it and after it. A session that is open has moved nothing; at each point a
// reader finds the task in one place; and nodes finish: the task is the parent's, and ran once.
func TestCloseKilledAnywhere(t *testing.T) {
	t.Parallel()
	tasks := map[string]api.TaskRequest{"runner": {Runner: "count"}, "outside": {}}
	works := map[string]func(f *family, h *session.Host) func(context.Context) error{
		"closes": func(f *family, h *session.Host) func(context.Context) error {
			return func(ctx context.Context) error { return h.CloseSession(ctx, f.child, "over") }
		},
		"transfers": func(f *family, h *session.Host) func(context.Context) error {
			k := f.owes()
			return func(ctx context.Context) error { return h.Leave(ctx, f.child, k) }
		},
	}
	for what, work := range works {
		for who, req := range tasks {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s_%s_late_%t", what, who, late), func(t *testing.T) {
					t.Parallel()
					b := setupIdle(t)
					var all []*family
					for finished := false; !finished; {
						f := b.family(fmt.Sprint(len(all)), req)
						all = append(all, f)
						finished = f.cut(len(all), late, work)
					}
					if len(all) < 5 {
						t.Errorf("it took %d requests, want more", len(all))
					}
					c := &begins{runs: make(map[events.SessionID]int)}
					b.tasks(bustest.Open(t, b.server), map[string]workers.TaskFunc{"count": c.run})
					b.work(bustest.Open(t, b.server)) // it sweeps
					for _, f := range all {
						f.settled()
						if who == "runner" {
							b.taskIs(f.parent, "k", events.TaskCompleted)
							c.mu.Lock()
							equal(t, "runs", c.runs[f.parent]+c.runs[f.child], 1)
							c.mu.Unlock()
						}
					}
				})
			}
		}
	}
}

// cut does the work until the k-th request of it. Where that left the session open, another host closes it.
func (f *family) cut(k int, late bool, work func(*family, *session.Host) func(context.Context) error) (finished bool) {
	f.t.Helper()
	before := f.last(f.parent)
	var do func(context.Context) error
	finished = bustest.KilledAt(f.t, f.server, k, late, func(ctx context.Context, victim *bus.Bus) error {
		if do == nil {
			do = work(f, f.newHost(victim))
		}
		return errors.Join(do(ctx), context.Cause(ctx)) // a close that was cut later is one all the same
	})
	equal(f.t, "places after the kill", f.places(), 1)
	if f.state(f.child).Status == projector.StatusOpen {
		equal(f.t, "commits of the parent of an open session", f.last(f.parent), before)
		must(f.t, "close", f.otherHost().CloseSession(f.ctx, f.child, "over"), nil)
	}
	return finished
}

// TestCloseRacesTurn submits a turn while another host closes the session: the turn is refused and the task moves, or the
// close is and nothing moves.
func TestCloseRacesTurn(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	other := b.otherHost()
	for i := range 12 {
		f := b.family(fmt.Sprint(i), api.TaskRequest{})
		before := b.last(f.parent)
		closed := make(chan error, 1)
		go func() { closed <- other.CloseSession(b.ctx, f.child, "over") }()
		_, submitErr := b.Submit(b.ctx, f.child, asksTurn("t1", "t1"))
		switch closeErr := receive(b, "the close", closed); closeErr {
		case nil:
			must(t, "the turn", submitErr, api.ErrClosed)
			f.settled()
		default:
			must(t, "the close", closeErr, api.ErrTurnRunning)
			must(t, "the turn", submitErr, nil)
			equal(t, "commits of the parent", b.last(f.parent), before)
			must(t, "close again", other.CloseSession(b.ctx, f.child, "over"), api.ErrTurnRunning)
			equal(t, "commits of the parent", b.last(f.parent), before)
			equal(t, "is the child's", f.listed(f.child, "k").ID, "k")
		}
	}
}

// TestParentDoesNotTake closes a session whose parent does not take its task, also where that is found by a worker, and
// where the parent is gone between the two commits of the transfer. The task ends as cancelled, in the session or with the
// parent, and nothing is owed.
func TestParentDoesNotTake(t *testing.T) {
	t.Parallel()
	full := func(f *family) {
		list := make([]events.Event, task.MaxLeft)
		for i := range list {
			list[i] = events.Of("", &events.TaskRegistered{Task: events.TaskID(fmt.Sprintf("k%d", i)), From: "another", Created: 1})
		}
		_, err := f.bus.Log().Append(f.ctx, &events.Commit{ID: "full", Session: f.parent, At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: list}, f.last(f.parent))
		must(f.t, "fill", err, nil)
	}
	gone := map[string]func(f *family){
		"full":   full,
		"closed": func(f *family) { must(f.t, "close", f.CloseSession(f.ctx, f.parent, "first"), nil) },
		"erased": func(f *family) {
			_, err := f.Erase(f.ctx, f.parent, "asked to")
			must(f.t, "erase", err, nil)
		},
		"its_id": func(f *family) { f.register(f.parent, "k") },
	}
	for name, makeGone := range gone {
		for _, byWorker := range []bool{false, true} {
			for _, copied := range []bool{false, true} {
				if copied && (!byWorker || name == "full" || name == "its_id") {
					continue // it has its place there
				}
				t.Run(fmt.Sprintf("%s_worker_%t_copied_%t", name, byWorker, copied), func(t *testing.T) {
					t.Parallel()
					b := setupIdle(t)
					f := b.family("a", api.TaskRequest{})
					if byWorker {
						k := f.owes()
						if copied {
							f.commitWith(f.parent, &events.TaskRegistered{Task: "k", Close: events.CloseTransfer, State: k.State, From: f.child, Created: k.CreatedAt})
						}
					}
					makeGone(f)
					if byWorker {
						b.tasks(bustest.Open(t, b.server), nil)
						b.work(bustest.Open(t, b.server)) // it sweeps
					} else {
						must(t, "close", b.CloseSession(b.ctx, f.child, "over"), nil)
					}
					s := b.await(f.child, "its end", func(s *projector.State) bool { return s.Status == projector.StatusClosed && !s.Tasks[0].Owing() })
					k := s.Tasks[0]
					if copied && name == "closed" {
						equal(t, "went to", k.To, f.parent)
						b.taskIs(f.parent, "k", events.TaskCancelled)
						return
					}
					equal(t, "state", k.State, events.TaskCancelled)
					equal(t, "went to", k.To, "")
				})
			}
		}
	}
}

// TestOpeningParentIsAwaited leaves the task owed while the parent may yet open.
func TestOpeningParentIsAwaited(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	f := b.family("a", api.TaskRequest{})
	k := f.owes()
	const opening = events.SessionID("opening")
	_, err := b.bus.Log().Append(b.ctx, &events.Commit{
		ID: "o", Session: opening, At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{events.Of("", &events.SessionOpened{Commits: 1})},
	}, 0)
	must(t, "open", err, nil)
	k.Leaves = opening
	if err := b.Leave(b.ctx, f.child, k); !errors.Is(err, api.ErrOpening) {
		t.Errorf("got %v, want %v", err, api.ErrOpening)
	}
	equal(t, "is owed", b.state(f.child).Tasks[0].Moving(), true)
}

// TestRunningTaskLeaves has the host that closes die after its commit, while a node runs the task and holds its wake: that node
// transfers it, and the same run ends in the parent.
func TestRunningTaskLeaves(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	gate, begun := make(chan struct{}), make(chan struct{}, 2)
	b.tasks(bustest.Open(t, b.server), map[string]workers.TaskFunc{"stay": func(ctx context.Context, r *workers.RunningTask) (string, error) {
		begun <- struct{}{}
		return gated(gate)(ctx, r)
	}})
	f := b.family("a", api.TaskRequest{Runner: "stay"})
	receive(b, "the task", begun)
	f.owes()
	f.await(f.child, "the transfer", func(s *projector.State) bool { return s.Tasks[0].To == f.parent })
	close(gate)
	b.taskIs(f.parent, "k", events.TaskCompleted)
	f.settled()
	equal(t, "runs that began besides", len(begun), 0)
}
