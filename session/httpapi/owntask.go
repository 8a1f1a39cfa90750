package httpapi

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// newTaskJSON registers a task that the caller's own program runs. The server does not call the program: it watches the
// session for task.cancel_requested, or reads the state in the responses to its progress.
type newTaskJSON struct {
	Kind     ownKindJSON      `json:"kind,omitempty" jsonschema:"defaults to other"`
	Producer string           `json:"producer,omitempty"`
	Parent   events.TaskID    `json:"parent,omitempty"`
	Cancel   cancelPolicyJSON `json:"cancel,omitempty" jsonschema:"defaults to cooperative"`
	Close    closePolicyJSON  `json:"close,omitempty" jsonschema:"defaults to keep"`
	Args     json.RawMessage  `json:"args,omitempty" jsonschema:"JSON, stored with the task, at most 16 KiB"`
}

// taskProgressJSON is a progress message of a task's program.
type taskProgressJSON struct {
	Message string `json:"message" jsonschema:"at most 1000 bytes"`
}

// taskEndJSON is how a task ended.
type taskEndJSON struct {
	State   endStateJSON `json:"state"`
	Summary string       `json:"summary,omitempty" jsonschema:"at most 4000 bytes"`
}

// taskMoveJSON is the state that a live task moves to.
type taskMoveJSON struct {
	State liveStateJSON `json:"state"`
}

// stopTaskJSON requests that a task stops by itself.
type stopTaskJSON struct {
	Reason string `json:"reason,omitempty" jsonschema:"at most 4000 bytes"`
}

// cancelTasksJSON cancels all live tasks at once.
type cancelTasksJSON struct {
	Keep []events.TaskID `json:"keep,omitempty" jsonschema:"ids of tasks that are not cancelled"`
}

// cancelledTasksJSON are the tasks that a request cancelled.
type cancelledTasksJSON struct {
	Cancelled []events.TaskID `json:"cancelled" jsonschema:"ids in order of creation"`
}

// transferTasksJSON moves tasks to another session, all or none.
type transferTasksJSON struct {
	To    events.SessionID `json:"to"`
	Tasks []events.TaskID  `json:"tasks" jsonschema:"ids of tasks; unknown ones are skipped"`
}

// unless converts a word to the format, where the default is empty.
func unless[T, Word ~string](word, otherwise Word) T {
	if word == otherwise {
		return ""
	}
	return T(word)
}

func (in newTaskJSON) args(c *httpRequest) (api.TaskRequest, error) {
	return api.TaskRequest{
		ID: c.task(), Of: unless[events.TaskKind](in.Kind, "other"), Producer: in.Producer, Parent: in.Parent,
		Cancel: unless[events.CancelPolicy](in.Cancel, "cooperative"), Close: unless[events.ClosePolicy](in.Close, "keep"), Args: in.Args,
	}, nil
}

func (in taskProgressJSON) args(c *httpRequest) (api.ProgressArgs, error) {
	return api.ProgressArgs{Task: c.task(), Message: in.Message}, nil
}

func (in taskEndJSON) args(c *httpRequest) (api.EndOwnTaskArgs, error) {
	return api.EndOwnTaskArgs{Task: c.task(), State: events.TaskState(in.State), Summary: in.Summary}, nil
}

func (in taskMoveJSON) args(c *httpRequest) (api.TransitionArgs, error) {
	return api.TransitionArgs{Task: c.task(), State: events.TaskState(in.State)}, nil
}

func (in stopTaskJSON) args(c *httpRequest) (api.RequestCancelTaskArgs, error) {
	return api.RequestCancelTaskArgs{Task: c.task(), Reason: in.Reason}, nil
}

func (in cancelTasksJSON) args(*httpRequest) ([]events.TaskID, error) { return in.Keep, nil }

func cancelledTasks(list []events.TaskID) cancelledTasksJSON {
	return cancelledTasksJSON{Cancelled: orNone(list)}
}

func (in transferTasksJSON) args(*httpRequest) (api.TransferArgs, error) {
	return api.TransferArgs{To: in.To, Tasks: in.Tasks}, nil
}

func taskPath(c *httpRequest, t projector.Task) string {
	return sessionPath(c, c.session) + "/tasks/" + string(t.ID)
}
