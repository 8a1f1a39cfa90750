package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// NewTask registers a task that the caller's own program runs. Nothing calls
// that back: it watches the session for task.cancel_requested, or reads the
// state in the answers to its progress.
type NewTask struct {
	Kind     string          `json:"kind,omitempty" jsonschema:"observer or other, which is the default"`
	Producer string          `json:"producer,omitempty"`
	Parent   events.TaskID   `json:"parent,omitempty"`
	Cancel   string          `json:"cancel,omitempty" jsonschema:"abort_local, external or cooperative, which is the default"`
	Close    string          `json:"close,omitempty" jsonschema:"cancel, transfer or keep, which is the default"`
	Args     json.RawMessage `json:"args,omitempty" jsonschema:"kept with the task, at most 16 KiB"`
}

// TaskProgress is what a task's program has to say.
type TaskProgress struct {
	Message string `json:"message" jsonschema:"at most 4000 bytes"`
}

// TaskEnd is how a task ended.
type TaskEnd struct {
	State   events.TaskState `json:"state" jsonschema:"completed, failed or cancelled"`
	Summary string           `json:"summary,omitempty" jsonschema:"at most 4000 bytes"`
}

// StopTask asks a task to stop by itself.
type StopTask struct {
	Reason string `json:"reason,omitempty" jsonschema:"at most 4000 bytes"`
}

// CancelTasks cancels all live tasks at once.
type CancelTasks struct {
	Keep []events.TaskID `json:"keep,omitempty" jsonschema:"but these"`
}

// CancelledTasks are the tasks that a cancel of all met.
type CancelledTasks struct {
	Cancelled []events.TaskID `json:"cancelled" jsonschema:"by creation"`
}

// TransferTasks moves tasks to another session, all or none.
type TransferTasks struct {
	To    events.SessionID `json:"to"`
	Tasks []events.TaskID  `json:"tasks" jsonschema:"those that the session does not have are skipped"`
}

// unless is a word of the format, which is empty for the default.
func unless[T ~string](word, otherwise string) T {
	if word == otherwise {
		return ""
	}
	return T(word)
}

func registerTask(c *call, in NewTask) (reply, error) {
	req := api.TaskRequest{
		ID: c.task(), Of: unless[events.TaskKind](in.Kind, "other"), Producer: in.Producer, Parent: in.Parent,
		Cancel: unless[events.CancelPolicy](in.Cancel, "cooperative"), Close: unless[events.ClosePolicy](in.Close, "keep"), Args: in.Args,
	}
	if err := req.Outside(); err != nil {
		return reply{}, err
	}
	t, err := c.s.cfg.Service.RegisterTask(c.Context(), c.session, req)
	return reply{status: http.StatusCreated, body: taskOf(&t), location: "/v1/sessions/" + string(c.session) + "/tasks/" + string(req.ID)}, err
}

func progressTask(c *call, in TaskProgress) (reply, error) {
	t, err := c.s.cfg.Service.ProgressTask(c.Context(), c.session, c.task(), in.Message)
	return reply{status: http.StatusOK, body: taskOf(&t)}, err
}

func endTask(c *call, in TaskEnd) (reply, error) {
	t, err := c.s.cfg.Service.EndTask(c.Context(), c.session, c.task(), in.State, in.Summary)
	return reply{status: http.StatusOK, body: taskOf(&t)}, err
}

func stopTask(c *call, in StopTask) (reply, error) {
	t, err := c.s.cfg.Service.RequestCancelTask(c.Context(), c.session, c.task(), in.Reason)
	return reply{status: http.StatusOK, body: taskOf(&t)}, err
}

func cancelTasks(c *call, in CancelTasks) (reply, error) {
	list, err := c.s.cfg.Service.CancelTasks(c.Context(), c.session, in.Keep)
	return reply{status: http.StatusOK, body: CancelledTasks{Cancelled: orNone(list)}}, err
}

func transferTasks(c *call, in TransferTasks) (reply, error) {
	return reply{status: http.StatusNoContent}, c.s.cfg.Service.TransferAsyncHandles(c.Context(), c.session, in.To, in.Tasks)
}
