package servicetest

import (
	"errors"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// registers registers a task of this program in a session.
func (b *bench) registers(id events.SessionID, name events.TaskID) projector.Task {
	b.t.Helper()
	t, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: name, Of: events.TaskObserver, Producer: "me", Args: []byte(`{"a":1}`)})
	b.must("register", err, nil)
	return t
}

var taskCases = []testCase{
	{"task_of_closed_session", func(b *bench) {
		id := b.open()
		_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: "k1", Close: events.CloseKeep})
		b.must("register", err, nil)
		b.must("close", b.CloseSession(b.ctx, id, "done"), nil)
		at := b.state(id).Seq
		_, err = b.ProgressTask(b.ctx, id, "k1", "still here")
		b.must("progress", err, api.ErrClosed)
		equal(b, "sequence", b.state(id).Seq, at)
		got, err := b.RequestCancelTask(b.ctx, id, "k1", "enough")
		b.must("ask it to stop", err, nil)
		equal(b, "state", got.State, events.TaskCancelling)
		got, err = b.EndOwnTask(b.ctx, id, "k1", events.TaskCompleted, "well")
		b.must("end", err, nil)
		equal(b, "state at its end", got.State, events.TaskCompleted)
		got, err = b.ProgressTask(b.ctx, id, "k1", "late")
		b.must("progress after its end", err, nil)
		equal(b, "state then", got.State, events.TaskCompleted)
	}},
	{"task_outside", func(b *bench) {
		id := b.open()
		got := b.registers(id, "k1")
		equal(b, "state", got.State, events.TaskRunning)
		equal(b, "who runs it", got.Runner+string(got.Worker), "")
		_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: "k1"})
		b.must("register again", err, api.ErrTaskRunning)
		got, err = b.ProgressTask(b.ctx, id, "k1", "half way")
		b.must("progress", err, nil)
		equal(b, "message", got.Message, "half way")
		_, err = b.ProgressTask(b.ctx, id, "k1", strings.Repeat("x", events.MaxTaskText+1))
		b.must("long progress", err, events.ErrTooLarge)
		equal(b, "field", as[*events.FieldError](b, "long progress", err).Field, "message")
		_, err = b.EndOwnTask(b.ctx, id, "k1", events.TaskRunning, "")
		equal(b, "field", as[*events.FieldError](b, "end in a state that is none", err).Field, "state")
		got, err = b.EndOwnTask(b.ctx, id, "k1", events.TaskCompleted, "all well")
		b.must("end", err, nil)
		equal(b, "summary", string(got.State)+" "+got.Summary, "completed all well")
		got, err = b.EndOwnTask(b.ctx, id, "k1", events.TaskFailed, "or not")
		b.must("end again", err, nil)
		equal(b, "state that stays", got.State, events.TaskCompleted)
		got, err = b.ProgressTask(b.ctx, id, "k1", "late")
		b.must("progress after the end", err, nil)
		equal(b, "message that stays", got.Message, "half way")
		_, err = b.ProgressTask(b.ctx, id, "k9", "x")
		b.must("progress of nothing", err, api.ErrUnknownTask)
		_, err = b.EndOwnTask(b.ctx, id, "k9", events.TaskFailed, "")
		b.must("end of nothing", err, api.ErrUnknownTask)
		b.must("close", b.CloseSession(b.ctx, id, "done"), nil)
		_, err = b.RegisterTask(b.ctx, id, api.TaskRequest{ID: "k2"})
		b.must("register in a closed session", err, api.ErrClosed)
	}},
	{"task_moved", func(b *bench) {
		id := b.open()
		b.registers(id, "k1")
		for _, state := range []events.TaskState{events.TaskWaiting, events.TaskRunning, events.TaskWaiting} {
			got, err := b.TransitionOwnTask(b.ctx, id, "k1", state)
			b.must("transition", err, nil)
			equal(b, "state", got.State, state)
			t, _ := b.state(id).Task("k1")
			equal(b, "state in the session", t.State, state)
		}
		for _, state := range []events.TaskState{events.TaskPending, events.TaskCompleted, events.TaskCancelling, "else"} {
			_, err := b.TransitionOwnTask(b.ctx, id, "k1", state)
			equal(b, "field", as[*events.FieldError](b, "transition to "+string(state), err).Field, "state")
		}
		_, err := b.RequestCancelTask(b.ctx, id, "k1", "enough")
		b.must("request", err, nil)
		at := b.state(id).Seq
		got, err := b.TransitionOwnTask(b.ctx, id, "k1", events.TaskRunning)
		b.must("transition of one that should stop", err, nil)
		equal(b, "state that its program is told", got.State, events.TaskCancelling)
		equal(b, "sequence", b.state(id).Seq, at)
		_, err = b.TransitionOwnTask(b.ctx, id, "k9", events.TaskRunning)
		b.must("transition of nothing", err, api.ErrUnknownTask)
		closed := b.open()
		_, err = b.RegisterTask(b.ctx, closed, api.TaskRequest{ID: "k1", Close: events.CloseKeep})
		b.must("register", err, nil)
		b.must("close", b.CloseSession(b.ctx, closed, "done"), nil)
		_, err = b.TransitionOwnTask(b.ctx, closed, "k1", events.TaskWaiting)
		b.must("transition in a closed session", err, api.ErrClosed)
	}},
	{"task_unregistered", func(b *bench) {
		id := b.open()
		b.registers(id, "k1")
		b.registers(id, "k2")
		_, err := b.EndOwnTask(b.ctx, id, "k2", events.TaskCompleted, "well")
		b.must("end", err, nil)
		for _, name := range []events.TaskID{"k1", "k2"} {
			b.must("unregister", b.UnregisterOwnTask(b.ctx, id, name), nil)
			_, err = b.Task(b.ctx, id, name)
			b.must("task", err, api.ErrUnknownTask)
		}
		list, err := b.Tasks(b.ctx, id)
		b.must("tasks", err, nil)
		equal(b, "tasks", len(list), 0)
		at := b.state(id).Seq
		b.must("unregister again", b.UnregisterOwnTask(b.ctx, id, "k1"), nil)
		b.must("unregister nothing", b.UnregisterOwnTask(b.ctx, id, "k9"), nil)
		equal(b, "sequence", b.state(id).Seq, at)
		_, err = b.ProgressTask(b.ctx, id, "k1", "x")
		b.must("progress", err, api.ErrUnknownTask)
		b.must("unregister in nothing", b.UnregisterOwnTask(b.ctx, "nobody", "k1"), events.ErrNoSession)
	}},
	{"task_asked_to_stop", func(b *bench) {
		id := b.open()
		b.registers(id, "k1")
		got, err := b.RequestCancelTask(b.ctx, id, "k1", "enough")
		b.must("request", err, nil)
		equal(b, "state", got.State, events.TaskCancelling)
		// The program reads the request from the session, and from its next progress call.
		b.await(id, "the request", func(s *projector.State) bool {
			t, _ := s.Task("k1")
			return t.State == events.TaskCancelling && t.Reason == "enough"
		})
		got, err = b.ProgressTask(b.ctx, id, "k1", "still here")
		b.must("progress", err, nil)
		equal(b, "state that its program is told", got.State, events.TaskCancelling)
		got, err = b.EndOwnTask(b.ctx, id, "k1", events.TaskCancelled, "stopped")
		b.must("end", err, nil)
		equal(b, "state at its end", got.State, events.TaskCancelled)
		_, err = b.RequestCancelTask(b.ctx, id, "k9", "")
		b.must("request of nothing", err, api.ErrUnknownTask)
		b.registers(id, "k2")
		_, err = b.RequestCancelTask(b.ctx, id, "k2", strings.Repeat("x", events.MaxReasonBytes+1))
		b.must("long reason", err, events.ErrTooLarge)
	}},
	{"task_of_a_node", func(b *bench) { // an outside program must not end it
		id := b.open()
		b.must("start", b.StartMonitor(b.ctx, id, events.MonitorSpec{ID: "m1", Command: "sleep 1000", Persistent: true}), nil)
		_, err := b.EndOwnTask(b.ctx, id, events.TaskOf("m1"), events.TaskCompleted, "")
		b.must("end", err, api.ErrTaskTaken)
		_, err = b.ProgressTask(b.ctx, id, events.TaskOf("m1"), "x")
		b.must("progress", err, api.ErrTaskTaken)
		_, err = b.TransitionOwnTask(b.ctx, id, events.TaskOf("m1"), events.TaskWaiting)
		b.must("transition", err, api.ErrTaskTaken)
		b.must("unregister", b.UnregisterOwnTask(b.ctx, id, events.TaskOf("m1")), api.ErrTaskTaken)
	}},
	{"tasks_cancelled", func(b *bench) {
		id := b.open()
		for _, name := range []events.TaskID{"k1", "k2", "k3"} {
			b.registers(id, name)
		}
		_, err := b.CancelTasks(b.ctx, id, make([]events.TaskID, 1025))
		b.must("keep too many", err, events.ErrTooLarge)
		list, err := b.CancelTasks(b.ctx, id, []events.TaskID{"k2", "k9"})
		b.must("cancel", err, nil)
		equal(b, "cancelled", list, []events.TaskID{"k1", "k3"})
		list, err = b.CancelTasks(b.ctx, id, nil)
		b.must("cancel all", err, nil)
		equal(b, "cancelled", list, []events.TaskID{"k2"})
		for _, t := range b.state(id).Tasks {
			equal(b, "state", t.State, events.TaskCancelled)
		}
		_, err = b.CancelTasks(b.ctx, "nobody", nil)
		b.must("cancel in nothing", err, events.ErrNoSession)
	}},
	{"tasks_transferred", func(b *bench) {
		from, to := b.open(), b.open()
		b.registers(from, "k1")
		b.must("transfer", b.TransferTasks(b.ctx, from, to, []events.TaskID{"k1", "k9"}), nil)
		_, err := b.ProgressTask(b.ctx, from, "k1", "x")
		b.must("progress where it was", err, api.ErrUnknownTask)
		got, err := b.ProgressTask(b.ctx, to, "k1", "here now")
		b.must("progress where it is", err, nil)
		equal(b, "producer", got.Producer, "me")
		b.registers(from, "k1")
		b.must("transfer of a taken id", b.TransferTasks(b.ctx, from, to, []events.TaskID{"k1"}), api.ErrTaskRunning)
		b.must("transfer to nothing", b.TransferTasks(b.ctx, from, "nobody", []events.TaskID{"k1"}), events.ErrNoSession)
		b.must("transfer of too many", b.TransferTasks(b.ctx, from, to, make([]events.TaskID, 1025)), events.ErrTooLarge)
	}},
	{"task_refused", func(b *bench) {
		id := b.open()
		for field, req := range map[string]api.TaskRequest{
			"task": {ID: "no id"}, "parent": {ID: "k1", Parent: "no id"}, "args": {ID: "k1", Args: []byte(`"` + strings.Repeat("x", events.MaxTaskArgsBytes) + `"`)},
			"producer": {ID: "k1", Producer: strings.Repeat("x", events.MaxIDBytes+1)}, "kind": {ID: "k1", Of: "else"},
		} {
			_, err := b.RegisterTask(b.ctx, id, req)
			if f, ok := errors.AsType[*events.FieldError](err); !ok || f.Field != field {
				b.t.Errorf("register with a wrong %s: got %v", field, err)
			}
		}
	}},
}
