package task_test

import (
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// TestTransferCameBack refuses to mark a task that left and came back since the list was made: the registered copy
// has left the target again.
func TestTransferCameBack(t *testing.T) {
	t.Parallel()
	a, b := in(t, events.TaskRunning), begin(t, "s2")
	pass := func(from, to *history) {
		t.Helper()
		list, err := task.Leaving(from.State, []events.TaskID{"k"})
		runtest.NoError(t, err)
		to.add(task.Arrive(to.State, list))
		out, moved := task.Depart(from.State, to.Session, list, from.Seq)
		if !moved || len(out) != 1 {
			t.Fatalf("leave: got %v, %v, want moved", out, moved)
		}
		from.add(out, nil)
	}
	slow, err := task.Leaving(a.State, []events.TaskID{"k"})
	seen := a.Seq
	if err != nil || len(slow) != 1 {
		t.Fatalf("leaving: got %v, %v, want one", slow, err)
	}
	pass(a, b)
	pass(b, a)
	if out, moved := task.Depart(a.State, "s2", slow, seen); moved || out != nil {
		t.Errorf("leave: got %v, %v, want refused", out, moved)
	}
}

// TestTransfer repeats every step, as a caller does that died in between.
func TestTransfer(t *testing.T) {
	t.Parallel()
	from, to := in(t, events.TaskRunning), begin(t, "s2")
	from.add(task.ClaimFor(from.State, task.ClaimOf(&from.Tasks[0]), "w1"))
	list, err := task.Leaving(from.State, []events.TaskID{"k", "missing"})
	if err != nil || len(list) != 1 {
		t.Fatalf("leaving: got %v, %v, want one", list, err)
	}
	to.add(task.Arrive(to.State, list))
	if again, err := task.Arrive(to.State, list); err != nil || len(again) != 0 {
		t.Errorf("second arrival: got %v, %v, want nothing", again, err)
	}
	// It ends in between: the copy has to learn of it first.
	from.add(task.End(from.State, "k", events.TaskCompleted, "42"), nil)
	if out, moved := task.Depart(from.State, "s2", list, from.Seq); moved || out != nil {
		t.Errorf("leave with an old copy: got %v, %v, want refused", out, moved)
	}
	list, _ = task.Leaving(from.State, []events.TaskID{"k"})
	to.add(task.Arrive(to.State, list))
	out, moved := task.Depart(from.State, "s2", list, from.Seq)
	if !moved {
		t.Fatal("leave: got refused, want moved")
	}
	from.add(out, nil)
	if out, moved := task.Depart(from.State, "s2", list, from.Seq); !moved || out != nil {
		t.Errorf("second leave: got %v, %v, want nothing to do", out, moved)
	}
	if got := to.Tasks[0]; got.State != events.TaskCompleted || got.Summary != "42" || got.From != "s1" || got.CreatedAt != from.Tasks[0].CreatedAt {
		t.Errorf("arrived: got %+v", got)
	}
	if got := from.Tasks[0]; got.Live() || got.To != "s2" {
		t.Errorf("left behind: got %+v", got)
	}
	if list, _ := task.Leaving(from.State, []events.TaskID{"k"}); len(list) != 0 {
		t.Errorf("leaving twice: got %v, want none", list)
	}
}

// TestTasksOfOneMillisecond registers a task again at the time of the earlier one, of which another session has a
// live copy. The copy is not mistaken for the new task.
func TestTasksOfOneMillisecond(t *testing.T) {
	t.Parallel()
	s := projector.New("s1")
	add := func(payloads ...events.Payload) {
		t.Helper()
		c := &events.Commit{Session: "s1", At: 7}
		for _, p := range payloads {
			c.Events = append(c.Events, events.Of("", p))
		}
		runtest.NoError(t, s.Apply(events.Entry{Seq: s.Seq + 1, Commit: c}))
	}
	to := begin(t, "s2")
	add(&events.SessionOpened{}, &events.TaskRegistered{Task: "k", State: events.TaskRunning})
	list, _ := task.Leaving(s, []events.TaskID{"k"})
	to.add(task.Arrive(to.State, list))
	add(&events.TaskTransferred{Tasks: []events.TaskID{"k"}, To: "s2"})
	add(&events.TaskRegistered{Task: "k", State: events.TaskRunning})
	list, _ = task.Leaving(s, []events.TaskID{"k"})
	if out, err := task.Arrive(to.State, list); !errors.Is(err, api.ErrTaskRunning) {
		t.Errorf("arrival of the second one: got %v, %v, want %v", out, err, api.ErrTaskRunning)
	}
}

// TestTransferOfEnded cancels the copy of a task before the source marks it as transferred, while a worker starts it
// in the source. It stays cancelled.
func TestTransferOfEnded(t *testing.T) {
	t.Parallel()
	from, to := in(t, ""), begin(t, "s2")
	list, _ := task.Leaving(from.State, []events.TaskID{"k"})
	to.add(task.Arrive(to.State, list))
	to.add(task.Cancel(to.State, "k", "not wanted"), nil)
	from.add(task.ClaimFor(from.State, task.ClaimOf(&from.Tasks[0]), "w1"))
	list, _ = task.Leaving(from.State, []events.TaskID{"k"})
	if out, err := task.Arrive(to.State, list); err != nil || len(out) != 0 {
		t.Errorf("arrival of what was started since: got %v, %v, want nothing", out, err)
	}
	out, moved := task.Depart(from.State, "s2", list, from.Seq)
	if from.add(out, nil); !moved || to.Tasks[0].State != events.TaskCancelled || from.Tasks[0].Live() {
		t.Errorf("got moved %v, %+v and %+v, want it cancelled there and gone here", moved, to.Tasks[0], from.Tasks[0])
	}
}

// TestTransferOfStopping requests a stop of the copy of a task before the source marks it as transferred. The request stays, with its
// reason, also where a worker starts the task in the source meanwhile.
func TestTransferOfStopping(t *testing.T) {
	t.Parallel()
	for _, claimed := range []bool{false, true} {
		from, to := in(t, ""), begin(t, "s2")
		list, _ := task.Leaving(from.State, []events.TaskID{"k"})
		to.add(task.Arrive(to.State, list))
		to.add(task.RequestCancel(to.State, "k", "not wanted"), nil)
		if claimed {
			from.add(task.ClaimFor(from.State, task.ClaimOf(&from.Tasks[0]), "w1"))
		}
		for i := range 2 { // a repeat changes nothing
			list, _ = task.Leaving(from.State, []events.TaskID{"k"})
			out, err := task.Arrive(to.State, list)
			if to.add(out, err); (len(out) > 0) != (claimed && i == 0) {
				t.Errorf("claimed %t, try %d: got %v", claimed, i, out)
			}
			if got := to.Tasks[0]; got.State != events.TaskCancelling || got.Reason != "not wanted" || got.Worker != from.Tasks[0].Worker {
				t.Errorf("claimed %t: got %+v, want it to stop", claimed, got)
			}
		}
		if out, moved := task.Depart(from.State, "s2", list, from.Seq); !moved || len(out) != 1 {
			t.Errorf("claimed %t: got %v, %v, want it moved", claimed, out, moved)
		}
	}
}

func TestTransferRefused(t *testing.T) {
	t.Parallel()
	from, to := in(t, events.TaskRunning), in(t, events.TaskRunning)
	to.Session = "s2"
	list, _ := task.Leaving(from.State, []events.TaskID{"k"})
	_, err := task.Arrive(to.State, list)
	runtest.WantError(t, "arrive", err, api.ErrTaskRunning)
	from.add(task.StartMonitor(from.State, spec("m")))
	_, err = task.Leaving(from.State, []events.TaskID{"monitor-m"})
	runtest.WantError(t, "monitor", err, api.ErrMonitorTask)
}
