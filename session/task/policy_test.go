package task_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// TestCancelPolicies stops a task of every policy and every kind of runner in every way.
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
					runtest.Equal(t, "state", h.state("k"), want)
					before := h.Seq
					if h.add(stop(h), nil); h.Seq != before {
						t.Error("the second time is not like the first")
					}
				})
			}
		}
	}
}

// TestClosePolicies closes a session with a task of every policy and kind, with and without a parent. A task for the
// parent is leaving until it is transferred or stays.
func TestClosePolicies(t *testing.T) {
	t.Parallel()
	kinds := map[string]events.TaskRegistered{
		"closure": {Worker: "w1"}, "runner": {Runner: "r"}, "outside": {}, "external": {Cancel: events.CancelExternal}, "child": {Of: events.TaskSubagent, Child: "s2"},
		"monitor": {Of: events.TaskMonitor, Runner: task.MonitorRunner}, "call": {Of: events.TaskTool, Runner: task.ToolRunner},
	}
	for _, policy := range []events.ClosePolicy{events.CloseKeep, events.CloseCancel, events.CloseTransfer} {
		for kind, reg := range kinds {
			for _, parent := range []events.SessionID{"", "p"} {
				t.Run(fmt.Sprintf("%q_%s_parent_%q", policy, kind, parent), func(t *testing.T) {
					t.Parallel()
					reg.Task, reg.Close, reg.State = "k", policy, events.TaskRunning
					h := &history{t, projector.New("s")}
					h.add([]events.Event{events.Of("", &events.SessionOpened{Parent: parent})}, nil)
					h.add(task.Register(h.State, reg))
					bound := kind == "monitor" || kind == "call" // ends with its session
					leaves := policy == events.CloseTransfer && !bound && parent != ""
					h.add(append(task.Close(h.State, "closed"), events.Of("", &events.SessionClosed{})), nil)
					cancelled := events.TaskCancelled
					if kind == "external" {
						cancelled = events.TaskCancelling
					}
					want := cancelled
					if leaves || policy == events.CloseKeep && !bound {
						want = events.TaskRunning
					}
					runtest.Equal(t, "state", h.state("k"), want)
					runtest.Equal(t, "is to leave", h.Tasks[0].LeavePending(), leaves)
					stays(h, leaves, cancelled)
				})
			}
		}
	}
}

// stays keeps a leaving task: it is cancelled and needs nothing more. For other tasks there is no decision.
func stays(h *history, leaves bool, cancelled events.TaskState) {
	h.t.Helper()
	k, seq := h.Tasks[0], h.Seq
	h.add(task.Stay(h.State, "k", k.Seq+1, "full"), nil)
	if h.Seq != seq {
		h.t.Error("another registration of the id stays")
	}
	h.add(task.Stay(h.State, "k", k.Seq, "full"), nil)
	runtest.Equal(h.t, "stays", h.Seq != seq, leaves)
	if k = h.Tasks[0]; leaves && (k.LeavePending() || k.State != cancelled || k.Reason != "full") {
		h.t.Errorf("that stays: got %+v, want it %s and not to leave", k, cancelled)
	}
}

// TestTransferCapacity: tasks of closed sessions fill their limit. The session can register as many of its own, and
// each limit alone refuses one more.
func TestTransferCapacity(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ n, size int }{"tasks": {task.MaxLeft, 0}, "bytes": {task.MaxLeftArgs / (8 << 10), 8 << 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(t, "s")
			args := []byte(nil)
			if tc.size > 0 {
				args = []byte(`"` + strings.Repeat("x", tc.size-2) + `"`)
			}
			var last events.TaskRegistered
			for i := range tc.n {
				last = events.TaskRegistered{Task: events.TaskID(fmt.Sprintf("k%d", i)), Runner: "r", Args: args, From: "c", Created: 5}
				if err := task.CheckTransferCapacity(h.State, []events.TaskRegistered{last}); err != nil {
					t.Fatalf("task %d: %v", i, err)
				}
				h.add(task.Arrive(h.State, []events.TaskRegistered{last}))
			}
			more := last
			more.Task = "more"
			code, class := api.Code(task.CheckTransferCapacity(h.State, []events.TaskRegistered{more}))
			if class != api.ClassTooLarge && class != api.ClassBusy {
				t.Errorf("one more: got %s of class %s, want a refusal", code, class)
			}
			if !task.New(h.State, []events.TaskRegistered{last, more}) || task.New(h.State, []events.TaskRegistered{last}) {
				t.Error("what is new: got the copy that is there, want the other")
			}
			for i := range tc.n {
				h.add(task.Register(h.State, events.TaskRegistered{Task: events.TaskID(fmt.Sprintf("own%d", i)), Runner: "r", Args: args}))
			}
		})
	}
}

// TestPassedOn: the cancel of a task is passing until its child has it, however many tasks end meanwhile.
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
		if h.Tasks[i].PassOnPending() {
			owed++
		}
	}
	runtest.Equal(t, "owed", owed, 300)
	for i := range 300 {
		id := events.TaskID(fmt.Sprintf("k%d", i))
		k, _ := h.Task(id)
		runtest.Equal(t, "of another registration", len(task.PassedOn(h.State, id, k.Seq+1, "")), 0)
		h.add(task.PassedOn(h.State, id, k.Seq, ""), nil)
		if k, ok := h.Task(id); ok && (k.Unfinished() || k.State != events.TaskCancelled) {
			t.Errorf("task %s: got %+v, want it cancelled and settled", id, k)
		}
	}
}
