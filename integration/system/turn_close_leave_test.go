package system

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// parentAndChild is a parent and a child. The task k of the child becomes the parent's when the child closes.
type parentAndChild struct {
	*harness.System
	parent, child events.SessionID
}

func newFamily(b *harness.System, name string, req api.TaskRequest) *parentAndChild {
	b.T.Helper()
	f := &parentAndChild{b, events.SessionID("parent-" + name), events.SessionID("child-" + name)}
	b.Open(api.CreateRequest{ID: f.parent})
	b.Open(api.CreateRequest{ID: f.child, Parent: f.parent})
	req.ID, req.Close = "k", events.CloseTransfer
	_, err := b.RegisterTask(b.Ctx, f.child, req)
	runtest.WantError(b.T, "register", err, nil)
	return f
}

// closeWithoutTransfer closes the child as a host does that dies right after its commit, and returns the record of the pending
// transfer.
func (f *parentAndChild) closeWithoutTransfer() projector.Task {
	f.T.Helper()
	_, err := f.Bus.Log().Append(f.Ctx, &events.Commit{
		ID: "close", Session: f.child, At: 1, Actor: events.Actor{Kind: events.ActorSystem},
		Events: []events.Event{events.Of("", &events.TaskLeaving{Tasks: []events.TaskID{"k"}, To: f.parent}), events.Of("", &events.SessionClosed{})},
	}, f.LastSeq(f.child))
	runtest.WantError(f.T, "close", err, nil)
	k, _ := f.StateOf(f.child).Task("k")
	runtest.Equal(f.T, "is to go to", k.Leaves, f.parent)
	return *k
}

// listedIn is the number of the two sessions in which a reader finds the task.
func (f *parentAndChild) listedIn() (n int) {
	f.T.Helper()
	for _, id := range []events.SessionID{f.child, f.parent} {
		if f.ListedTask(id, "k").ID != "" {
			n++
		}
	}
	return n
}

// awaitTransfer waits until the parent has the task, and checks that it was transferred once.
func (f *parentAndChild) awaitTransfer() {
	f.T.Helper()
	f.AwaitState(f.child, "the transfer", func(s *projector.State) bool {
		k, ok := s.Task("k")
		return ok && k.To == f.parent && s.Status == projector.StatusClosed
	})
	runtest.Equal(f.T, "registrations at the parent", len(harness.Find[*events.TaskRegistered](f.System, f.parent)), 1)
	runtest.Equal(f.T, "transfers", len(harness.Find[*events.TaskTransferred](f.System, f.child)), 1)
	runtest.Equal(f.T, "places", f.listedIn(), 1)
}

// startCounter is a runner that counts the starts of each session's task.
type startCounter struct {
	mu   sync.Mutex
	runs map[events.SessionID]int
}

func (c *startCounter) run(_ context.Context, r *workers.RunningTask) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[r.Session()]++
	return "done", nil
}

// TestCloseKilledAnywhere kills a host that closes a session with a task for its parent, and a worker that
// transfers the task of a closed one, before each request. While the session is open no task moves. At
// each point a reader finds the task in one place. In the end the parent has the task, which ran once.
func TestCloseKilledAnywhere(t *testing.T) {
	t.Parallel()
	tasks := map[string]api.TaskRequest{"runner": {Runner: "count"}, "outside": {}}
	works := map[string]func(f *parentAndChild, h *session.Host) func(context.Context) error{
		"closes": func(f *parentAndChild, h *session.Host) func(context.Context) error {
			return func(ctx context.Context) error { return h.CloseSession(ctx, f.child, "over") }
		},
		"transfers": func(f *parentAndChild, h *session.Host) func(context.Context) error {
			k := f.closeWithoutTransfer()
			return func(ctx context.Context) error { return h.Worker().Leave(ctx, f.child, k) }
		},
	}
	for what, work := range works {
		for who, req := range tasks {
			t.Run(what+"_"+who, func(t *testing.T) {
				t.Parallel()
				b := harness.StartIdle(t)
				var all []*parentAndChild
				for finished := false; !finished; {
					f := newFamily(b, fmt.Sprint(len(all)), req)
					all = append(all, f)
					finished = f.cut(len(all), work)
				}
				if len(all) < 5 {
					t.Errorf("it took %d requests, want more", len(all))
				}
				c := &startCounter{runs: make(map[events.SessionID]int)}
				b.StartTasks(bustest.Open(t, b.Server), map[string]workers.TaskFunc{"count": c.run})
				b.StartWorker(bustest.Open(t, b.Server)) // it sweeps
				for _, f := range all {
					f.awaitTransfer()
					if who == "runner" {
						b.AwaitTask(f.parent, "k", events.TaskCompleted)
						c.mu.Lock()
						runtest.Equal(t, "runs", c.runs[f.parent]+c.runs[f.child], 1)
						c.mu.Unlock()
					}
				}
			})
		}
	}
}

// cut does the work up to its k-th request. Where the session is still open, another host closes it.
func (f *parentAndChild) cut(k int, work func(*parentAndChild, *session.Host) func(context.Context) error) (finished bool) {
	f.T.Helper()
	before := f.LastSeq(f.parent)
	var do func(context.Context) error
	finished = bustest.KilledAt(f.T, f.Server, k, false, func(ctx context.Context, victim *bus.Bus) error {
		if do == nil {
			do = work(f, f.NewHost(victim))
		}
		return errors.Join(do(ctx), context.Cause(ctx)) // a close that was cut later is one all the same
	})
	runtest.Equal(f.T, "places after the kill", f.listedIn(), 1)
	if f.StateOf(f.child).Status == projector.StatusOpen {
		runtest.Equal(f.T, "commits of the parent of an open session", f.LastSeq(f.parent), before)
		runtest.WantError(f.T, "close", f.OtherHost().CloseSession(f.Ctx, f.child, "over"), nil)
	}
	return finished
}

// TestCloseRacesTurn submits a turn while another host closes the session: the turn is refused and the task moves, or the
// close is and nothing moves. Each of the two comes first on a state that the other host does not know of, and then both at once.
//
//	close first                             turn first
//	b    folds n                            other  folds n
//	other  appends session.closed at n      b    appends turn.requested at n
//	b    appends at n: conflict, refused    other  appends at n: conflict, refused
func TestCloseRacesTurn(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	other := b.OtherHost()
	for i := range 12 {
		f := newFamily(b, fmt.Sprint(i), api.TaskRequest{})
		before := b.LastSeq(f.parent)
		b.StateOf(f.child)
		_, err := other.State(b.Ctx, f.child)
		runtest.WantError(t, "the other's state", err, nil)
		var closeErr, submitErr error
		closes := func() { closeErr = other.CloseSession(b.Ctx, f.child, "over") }
		submits := func() { _, submitErr = b.Submit(b.Ctx, f.child, harness.TurnRequest("t1", "t1")) }
		closeWins := false
		switch i % 3 {
		case 0:
			closes()
			submits()
			closeWins = true
		case 1:
			submits()
			closes()
		default:
			var both sync.WaitGroup
			both.Go(closes)
			submits()
			both.Wait()
			closeWins = closeErr == nil
		}
		if closeWins {
			runtest.WantError(t, "the close", closeErr, nil)
			runtest.WantError(t, "the turn", submitErr, api.ErrClosed)
			if k, _ := b.StateOf(f.child).Task("k"); k.To != f.parent {
				t.Fatalf("the task as the close returned: went to %q, want %q", k.To, f.parent) // no worker would transfer it
			}
			f.awaitTransfer()
			continue
		}
		runtest.WantError(t, "the close", closeErr, api.ErrTurnRunning)
		runtest.WantError(t, "the turn", submitErr, nil)
		runtest.Equal(t, "commits of the parent", b.LastSeq(f.parent), before)
		runtest.WantError(t, "close again", other.CloseSession(b.Ctx, f.child, "over"), api.ErrTurnRunning)
		runtest.Equal(t, "commits of the parent", b.LastSeq(f.parent), before)
		runtest.Equal(t, "is the child's", f.ListedTask(f.child, "k").ID, "k")
	}
}

// TestParentCannotBeRead has a parent with a copy of the task whose history cannot be folded. A reader of the closed session
// gets the error, and not a task that may be in both; once the parent has its dead letter, the task ends as cancelled.
func TestParentCannotBeRead(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	f := newFamily(b, "a", api.TaskRequest{})
	k := f.closeWithoutTransfer()
	f.CommitUnchecked(f.parent, &events.TaskRegistered{Task: "k", Close: events.CloseTransfer, State: k.State, From: f.child, Created: k.CreatedAt})
	runtest.Equal(t, "places", f.listedIn(), 1)
	b.AppendJunk(f.parent)
	_, err := b.OtherHost().Tasks(b.Ctx, f.child)
	runtest.WantError(t, "tasks", err, events.ErrMalformed)
	startHastyNode(t, bustest.Open(t, b.Server), scripted.New(b.Model.Answer))
	awaitDeadLetter(b, f.parent)
	b.AwaitState(f.child, "its end", func(s *projector.State) bool { return !s.Tasks[0].Unfinished() })
	rest := f.ListedTask(f.child, "k")
	runtest.Equal(t, "state", rest.State, events.TaskCancelled)
	runtest.Equal(t, "went to", rest.To, "")
}

// TestParentDoesNotTake closes a session whose parent does not take its task, also where that is found by a worker, and
// where the parent is gone between the two commits of the transfer. The task ends as cancelled, in the session or with the
// parent, and nothing is owed.
func TestParentDoesNotTake(t *testing.T) {
	t.Parallel()
	full := func(f *parentAndChild) {
		list := make([]events.Event, task.MaxLeft)
		for i := range list {
			list[i] = events.Of("", &events.TaskRegistered{Task: events.TaskID(fmt.Sprintf("k%d", i)), From: "another", Created: 1})
		}
		_, err := f.Bus.Log().Append(f.Ctx, &events.Commit{ID: "full", Session: f.parent, At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: list}, f.LastSeq(f.parent))
		runtest.WantError(f.T, "fill", err, nil)
	}
	removals := map[string]func(f *parentAndChild){
		"full": full,
		"closed": func(f *parentAndChild) {
			runtest.WantError(f.T, "close", f.CloseSession(f.Ctx, f.parent, "first"), nil)
		},
		"erased": func(f *parentAndChild) {
			_, err := f.Erase(f.Ctx, f.parent, "asked to")
			runtest.WantError(f.T, "erase", err, nil)
		},
		"its_id": func(f *parentAndChild) { register(f.System, f.parent, "k") },
	}
	for name, remove := range removals {
		for _, byWorker := range []bool{false, true} {
			for _, copied := range []bool{false, true} {
				if copied && (!byWorker || name == "full" || name == "its_id") {
					continue // it has its place there
				}
				t.Run(fmt.Sprintf("%s_worker_%t_copied_%t", name, byWorker, copied), func(t *testing.T) {
					t.Parallel()
					b := harness.StartIdle(t)
					f := newFamily(b, "a", api.TaskRequest{})
					if byWorker {
						k := f.closeWithoutTransfer()
						if copied {
							f.CommitUnchecked(f.parent, &events.TaskRegistered{Task: "k", Close: events.CloseTransfer, State: k.State, From: f.child, Created: k.CreatedAt})
						}
					}
					remove(f)
					if byWorker {
						b.StartTasks(bustest.Open(t, b.Server), nil)
						b.StartWorker(bustest.Open(t, b.Server)) // it sweeps
					} else {
						runtest.WantError(t, "close", b.CloseSession(b.Ctx, f.child, "over"), nil)
					}
					s := b.AwaitState(f.child, "its end", func(s *projector.State) bool { return s.Status == projector.StatusClosed && !s.Tasks[0].Unfinished() })
					k := s.Tasks[0]
					if copied && name == "closed" {
						runtest.Equal(t, "went to", k.To, f.parent)
						b.AwaitTask(f.parent, "k", events.TaskCancelled)
						return
					}
					runtest.Equal(t, "state", k.State, events.TaskCancelled)
					runtest.Equal(t, "went to", k.To, "")
				})
			}
		}
	}
}

// TestOpeningParentIsAwaited keeps the transfer pending while the parent may still open.
func TestOpeningParentIsAwaited(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	f := newFamily(b, "a", api.TaskRequest{})
	k := f.closeWithoutTransfer()
	const opening = events.SessionID("opening")
	_, err := b.Bus.Log().Append(b.Ctx, &events.Commit{
		ID: "o", Session: opening, At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{events.Of("", &events.SessionOpened{Commits: 1})},
	}, 0)
	runtest.WantError(t, "open", err, nil)
	k.Leaves = opening
	runtest.WantError(t, "leave", b.Worker().Leave(b.Ctx, f.child, k), api.ErrOpening)
	runtest.Equal(t, "is owed", b.StateOf(f.child).Tasks[0].LeavePending(), true)
}

// TestRunningTaskLeaves has the closing host die after its commit, while a node runs the task and has its wake.
// That node transfers the task, and the same run ends in the parent.
func TestRunningTaskLeaves(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	gate, started := make(chan struct{}), make(chan struct{}, 2)
	b.StartTasks(bustest.Open(t, b.Server), map[string]workers.TaskFunc{"stay": func(ctx context.Context, r *workers.RunningTask) (string, error) {
		started <- struct{}{}
		return harness.GatedTask(gate)(ctx, r)
	}})
	f := newFamily(b, "a", api.TaskRequest{Runner: "stay"})
	harness.Receive(b, "the task", started)
	f.closeWithoutTransfer()
	f.AwaitState(f.child, "the transfer", func(s *projector.State) bool { return s.Tasks[0].To == f.parent })
	close(gate)
	b.AwaitTask(f.parent, "k", events.TaskCompleted)
	f.awaitTransfer()
	runtest.Equal(t, "runs that began besides", len(started), 0)
}
