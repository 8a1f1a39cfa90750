package task_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// history is a state that folds every decision.
type history struct {
	t *testing.T
	*projector.State
}

func begin(t *testing.T, id events.SessionID) *history {
	t.Helper()
	h := &history{t, projector.New(id)}
	h.add([]events.Event{events.Of("", &events.SessionOpened{})}, nil)
	return h
}

// add folds a decision as one commit and checks the state.
func (h *history) add(list []events.Event, err error) *history {
	h.t.Helper()
	runtest.NoError(h.t, err)
	if len(list) == 0 {
		return h
	}
	c := &events.Commit{
		ID: "c", Session: h.Session, At: events.Millis(100 + h.Seq), Actor: events.Actor{Kind: events.ActorNode}, Events: list,
	}
	runtest.NoError(h.t, c.Validate())
	runtest.NoError(h.t, h.Apply(events.Entry{Seq: h.Seq + 1, Commit: c}))
	runtest.NoError(h.t, h.Check())
	return h
}

func (h *history) state(id events.TaskID) events.TaskState {
	h.t.Helper()
	t, ok := h.Task(id)
	if !ok {
		h.t.Fatalf("task %s: got none", id)
	}
	return t.State
}

// in moves a task into a state along the table.
func in(t *testing.T, state events.TaskState) *history {
	t.Helper()
	h := begin(t, "s1")
	h.add(task.Register(h.State, events.TaskRegistered{Task: "k"}))
	switch state {
	case events.TaskPending:
	case events.TaskCancelling:
		h.add(task.RequestCancel(h.State, "k", "why"), nil)
	case events.TaskRunning, events.TaskWaiting:
		h.add(task.Transition(h.State, "k", state), nil)
	default:
		h.add(task.End(h.State, "k", state, "done"), nil)
	}
	if got := h.state("k"); got != state {
		t.Fatalf("state: got %q, want %q", got, state)
	}
	return h
}

// TestTable checks every pair of states against the table of the package documentation.
func TestTable(t *testing.T) {
	t.Parallel()
	const (
		pend, run, wait, ask = events.TaskPending, events.TaskRunning, events.TaskWaiting, events.TaskCancelling
		done, fail, stop     = events.TaskCompleted, events.TaskFailed, events.TaskCancelled
	)
	allowed := map[events.TaskState][]events.TaskState{
		pend: {run, wait, ask, done, fail, stop},
		run:  {wait, ask, done, fail, stop},
		wait: {run, ask, done, fail, stop},
		ask:  {done, fail, stop},
	}
	for _, from := range []events.TaskState{pend, run, wait, ask, done, fail, stop} {
		for _, to := range []events.TaskState{run, wait, ask, done, fail, stop} {
			t.Run(string(from)+"_to_"+string(to), func(t *testing.T) {
				t.Parallel()
				h := in(t, from)
				var list []events.Event
				switch to {
				case run, wait:
					list = task.Transition(h.State, "k", to)
				case ask:
					list = task.RequestCancel(h.State, "k", "stop it")
				default:
					list = task.End(h.State, "k", to, "end")
				}
				may := slices.Contains(allowed[from], to)
				if (len(list) > 0) != may {
					t.Fatalf("events: got %d, want some %v", len(list), may)
				}
				want := from
				if may {
					want = to
				}
				runtest.Equal(t, "state", h.add(list, nil).state("k"), want)
			})
		}
	}
}

// TestFoldKeepsTable folds events that violate the table: other writers cannot break it.
func TestFoldKeepsTable(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		state   events.TaskState
		payload events.Payload
	}{
		{"completed_to_running", events.TaskCompleted, &events.TaskStateChanged{Task: "k", State: events.TaskRunning}},
		{"completed_to_cancelled", events.TaskCompleted, &events.TaskEnded{Task: "k", State: events.TaskCancelled}},
		{"completed_asked_to_cancel", events.TaskCompleted, &events.TaskCancelRequested{Task: "k"}},
		{"completed_started", events.TaskCompleted, &events.TaskStarted{Task: "k", Worker: "w", Attempt: 9}},
		{"asked_to_running", events.TaskCancelling, &events.TaskStateChanged{Task: "k", State: events.TaskRunning}},
		{"asked_again", events.TaskCancelling, &events.TaskCancelRequested{Task: "k", Reason: "another"}},
		{"live_registered_again", events.TaskRunning, &events.TaskRegistered{Task: "k", Producer: "other"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := in(t, tt.state)
			before, _ := h.Task("k")
			h.add([]events.Event{events.Of("", tt.payload)}, nil)
			after, _ := h.Task("k")
			if after.State != before.State || after.Reason != before.Reason || after.Producer != before.Producer || after.Summary != before.Summary {
				t.Errorf("task: got %+v, want %+v", *after, *before)
			}
		})
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	h := in(t, events.TaskRunning)
	_, err := task.Register(h.State, events.TaskRegistered{Task: "k"})
	runtest.WantError(t, "live id", err, api.ErrTaskRunning)
	h.add(task.End(h.State, "k", events.TaskFailed, ""), nil)
	h.add(task.Register(h.State, events.TaskRegistered{Task: "k", Producer: "again"}))
	if got := len(h.Tasks); got != 1 || h.Tasks[0].Producer != "again" {
		t.Errorf("tasks: got %+v, want one, the new", h.Tasks)
	}
	for _, id := range []events.TaskID{"", "a.b", "plug:x", "0123456789012345678901234567890123456789012345678"} {
		_, err := task.Register(h.State, events.TaskRegistered{Task: id})
		runtest.WantError(t, fmt.Sprintf("id %q", id), err, events.ErrInvalidID)
	}
}

// TestRegisterChildOnce cancels the task of a child, and registers it again, as a repeated creator does.
func TestRegisterChildOnce(t *testing.T) {
	t.Parallel()
	h, reg := begin(t, "s1"), events.TaskRegistered{Task: "k", Child: "kid", State: events.TaskRunning}
	h.add(task.Register(h.State, reg))
	h.add(task.End(h.State, "k", events.TaskCancelled, "enough"), nil)
	list, err := task.Register(h.State, reg)
	if err != nil || len(list) != 0 {
		t.Errorf("the same child again: got %v and %v, want nothing", list, err)
	}
	reg.Child = "other"
	_, err = task.Register(h.State, reg)
	runtest.WantError(t, "another child before the cancel is passed on", err, api.ErrTaskRunning)
	rec, _ := h.Task("k")
	h.add(task.PassedOn(h.State, "k", rec.Seq, ""), nil)
	h.add(task.Register(h.State, reg))
	runtest.Equal(t, "another child", h.state("k"), events.TaskRunning)
}

// TestClaim: of two workers with the same claim one wins, and reports of the other are refused.
func TestClaim(t *testing.T) {
	t.Parallel()
	h := in(t, events.TaskPending)
	seen := task.ClaimOf(&h.Tasks[0])
	h.add(task.ClaimFor(h.State, seen, "w1"))
	_, err := task.ClaimFor(h.State, seen, "w2")
	runtest.WantError(t, "second start", err, api.ErrTaskTaken)
	first := task.ClaimOf(&h.Tasks[0])
	h.add(task.ClaimFor(h.State, first, "w2"))
	_, err = task.CheckClaim(h.State, first)
	runtest.WantError(t, "claim of the dead", err, api.ErrTaskTaken)
	if got := h.Tasks[0]; got.Attempt != 2 || got.Worker != "w2" || got.State != events.TaskRunning {
		t.Errorf("task: got %+v, want attempt 2 by w2", got)
	}
}

// TestWhile: only the worker with the current claim decides.
func TestWhile(t *testing.T) {
	t.Parallel()
	h := in(t, events.TaskPending)
	gone := task.ClaimOf(&h.Tasks[0])
	h.add(task.ClaimFor(h.State, gone, "w1"))
	held := task.ClaimOf(&h.Tasks[0])
	say := func() []events.Event { return task.Progress(h.State, "k", "half of it") }
	if list, err := task.While(h.State, gone, say); !errors.Is(err, api.ErrTaskTaken) || len(list) > 0 {
		t.Errorf("by a claim that is gone: got %d events, %v, want none, %v", len(list), err, api.ErrTaskTaken)
	}
	h.add(task.While(h.State, held, say))
	runtest.Equal(t, "message", h.Tasks[0].Message, "half of it")
	h.add(task.End(h.State, "k", events.TaskCompleted, "done"), nil)
	if list, err := task.While(h.State, held, say); !errors.Is(err, api.ErrTaskTaken) || len(list) > 0 {
		t.Errorf("of an ended task: got %d events, %v, want none, %v", len(list), err, api.ErrTaskTaken)
	}
}

// TestKept drops the task that ended first beyond the limit, and no live task.
func TestKept(t *testing.T) {
	t.Parallel()
	h := begin(t, "s1")
	h.add(task.Register(h.State, events.TaskRegistered{Task: "live"}))
	for i := range projector.KeptTasks + 5 {
		id := events.TaskID("k" + string(rune('a'+i/26/26)) + string(rune('a'+i/26%26)) + string(rune('a'+i%26)))
		h.add(task.Register(h.State, events.TaskRegistered{Task: id}))
		h.add(task.End(h.State, id, events.TaskCompleted, ""), nil)
	}
	if got, want := len(h.Tasks), projector.KeptTasks+1; got != want {
		t.Errorf("tasks: got %d, want %d", got, want)
	}
	if h.Tasks[0].ID != "live" || h.Tasks[1].ID != "kaaf" {
		t.Errorf("first tasks: got %s, %s, want live, kaaf", h.Tasks[0].ID, h.Tasks[1].ID)
	}
}

// TestArgsTogether limits the arguments of a session's live tasks, own and transferred ones; ended ones do not count.
func TestArgsTogether(t *testing.T) {
	t.Parallel()
	h := begin(t, "s1")
	reg := func(i int) events.TaskRegistered {
		return events.TaskRegistered{Task: events.TaskID(fmt.Sprintf("k%d", i)), Args: make([]byte, events.MaxTaskArgsBytes)}
	}
	n := task.MaxLiveArgs / events.MaxTaskArgsBytes
	for i := range n {
		h.add(task.Register(h.State, reg(i)))
	}
	_, err := task.Register(h.State, reg(n))
	if limit, ok := errors.AsType[*api.LimitError](err); !ok || limit.Limit != task.MaxLiveArgs {
		t.Errorf("one more: got %v, want the limit", err)
	}
	come := reg(n)
	come.From = "s2"
	if _, err = task.Arrive(h.State, []events.TaskRegistered{come}); !errors.As(err, new(*api.LimitError)) {
		t.Errorf("one that comes: got %v, want the limit", err)
	}
	h.add(task.End(h.State, "k0", events.TaskCompleted, ""), nil)
	h.add(task.Register(h.State, reg(n)))
}

// TestProgressOfClosedSession: a task that continues after its session closed does not make the history grow.
func TestProgressOfClosedSession(t *testing.T) {
	t.Parallel()
	h := begin(t, "s1")
	h.add(task.Register(h.State, events.TaskRegistered{Task: "k", Close: events.CloseKeep}))
	for _, closed := range []bool{false, true} {
		if closed {
			h.add([]events.Event{events.Of("", &events.SessionClosed{})}, nil)
		}
		for name, tc := range map[string]struct {
			list []events.Event
			goes bool
		}{
			"progress": {task.Progress(h.State, "k", "on"), !closed}, "waits": {task.Transition(h.State, "k", events.TaskWaiting), !closed},
			"request": {task.RequestCancel(h.State, "k", "enough"), true}, "cancel": {task.Cancel(h.State, "k", "enough"), true},
			"end": {task.End(h.State, "k", events.TaskCompleted, ""), true},
		} {
			if got := len(tc.list) > 0; got != tc.goes {
				t.Errorf("%s, closed %v: got recorded %v, want %v", name, closed, got, tc.goes)
			}
		}
	}
}

// TestLongPassingTogether: cancelled tasks of children count against the limits until the children have the cancel.
func TestLongPassingTogether(t *testing.T) {
	t.Parallel()
	h := begin(t, "s1")
	reg := func(n int) events.TaskRegistered {
		return events.TaskRegistered{Task: events.TaskID(fmt.Sprint("k", n)), Of: events.TaskSubagent, Child: events.SessionID(fmt.Sprint("c", n))}
	}
	for n := range task.MaxLive {
		h.add(task.Register(h.State, reg(n)))
		h.add(task.Cancel(h.State, reg(n).Task, ""), nil)
	}
	_, err := task.Register(h.State, reg(task.MaxLive))
	runtest.WantError(t, "one more", err, events.ErrTooLarge)
	k, _ := h.Task("k0")
	h.add(task.PassedOn(h.State, "k0", k.Seq, ""), nil)
	h.add(task.Register(h.State, reg(task.MaxLive)))
}
