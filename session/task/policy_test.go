package task_test

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/task"
)

// TestCancelPolicies stops a task of every policy, whoever runs it, in each of the ways there are.
func TestCancelPolicies(t *testing.T) {
	t.Parallel()
	runs := map[string]events.TaskRegistered{
		"runner":  {Runner: "r"},
		"closure": {Worker: "w1", State: events.TaskRunning},
		"child":   {Child: "s2", State: events.TaskRunning},
		"outside": {State: events.TaskRunning},
	}
	ways := map[string]func(h *history) []events.Event{
		"request": func(h *history) []events.Event { return task.RequestCancel(h.State, "k", "why") },
		"cancel":  func(h *history) []events.Event { return task.Cancel(h.State, "k", "why") },
		"all":     func(h *history) []events.Event { return task.CancelAll(h.State, task.Live(h.State), "why") },
	}
	for _, policy := range []events.CancelPolicy{events.CancelCooperative, events.CancelAbortLocal, events.CancelExternal} {
		for who, reg := range runs {
			for way, stop := range ways {
				t.Run(fmt.Sprintf("%q_%s_%s", policy, who, way), func(t *testing.T) {
					t.Parallel()
					reg.Task, reg.Cancel = "k", policy
					h := begin(t, "s")
					h.add(task.Register(h.State, reg))
					h.add(stop(h), nil)
					want := events.TaskCancelled
					switch {
					case policy == events.CancelExternal && who == "outside", policy != events.CancelAbortLocal && way == "request":
						want = events.TaskCancelling
					}
					if got := h.state("k"); got != want {
						t.Errorf("got %s, want %s", got, want)
					}
					before := h.Seq
					if h.add(stop(h), nil); h.Seq != before {
						t.Error("the second time is not like the first")
					}
				})
			}
		}
	}
}

// TestClosePolicies closes a session with a task of every policy and kind.
func TestClosePolicies(t *testing.T) {
	t.Parallel()
	kinds := map[string]events.TaskRegistered{
		"closure": {Worker: "w1"}, "runner": {Runner: "r"}, "outside": {}, "child": {Of: events.TaskSubagent, Child: "s2"},
		"monitor": {Of: events.TaskMonitor, Runner: task.MonitorRunner}, "call": {Of: events.TaskTool, Runner: task.ToolRunner},
	}
	for _, policy := range []events.ClosePolicy{events.CloseKeep, events.CloseCancel, events.CloseTransfer} {
		for kind, reg := range kinds {
			t.Run(fmt.Sprintf("%q_%s", policy, kind), func(t *testing.T) {
				t.Parallel()
				reg.Task, reg.Close, reg.State = "k", policy, events.TaskRunning
				h := begin(t, "s")
				h.add(task.Register(h.State, reg))
				bound := kind == "monitor" || kind == "call" // to its session
				if got, want := len(task.Leaves(h.State)) == 1, policy == events.CloseTransfer && !bound; got != want {
					t.Errorf("moves to the parent: got %v, want %v", got, want)
				}
				h.add(task.Close(h.State, "closed"), nil)
				want := events.TaskCancelled
				if policy == events.CloseKeep && !bound {
					want = events.TaskRunning
				}
				if got := h.state("k"); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
}

// TestPassedOn has the cancel of a task be owed to its child until that knows of it, however many tasks end meanwhile.
func TestPassedOn(t *testing.T) {
	t.Parallel()
	h := begin(t, "s")
	for i := range 300 {
		id := events.TaskID(fmt.Sprintf("k%d", i))
		h.add(task.Register(h.State, events.TaskRegistered{Task: id, Child: "s2", State: events.TaskRunning}))
		if i == 0 {
			h.add(task.RequestCancel(h.State, id, "why"), nil)
			continue
		}
		h.add(task.Cancel(h.State, id, "why"), nil)
	}
	owed := 0
	for i := range h.Tasks {
		if h.Tasks[i].Passing() {
			owed++
		}
	}
	if owed != 300 {
		t.Errorf("owed: got %d, want 300", owed)
	}
	for i := range 300 {
		id := events.TaskID(fmt.Sprintf("k%d", i))
		k, _ := h.Task(id)
		if other := task.PassedOn(h.State, id, k.Seq+1, ""); len(other) != 0 {
			t.Errorf("of another registration: got %v, want nothing", other)
		}
		h.add(task.PassedOn(h.State, id, k.Seq, ""), nil)
		if k, ok := h.Task(id); ok && (k.Owing() || k.State != events.TaskCancelled) {
			t.Errorf("task %s: got %+v, want it cancelled and settled", id, k)
		}
	}
}
