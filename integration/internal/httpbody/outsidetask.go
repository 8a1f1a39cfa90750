package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// NewTask registers a task that the caller's own program runs. The server does not call the program: it watches the
// session for task.cancel_requested, or reads the state in the responses to its progress.
type NewTask struct {
	Kind     OwnKind         `json:"kind,omitempty"`
	Producer string          `json:"producer,omitempty"`
	Parent   events.TaskID   `json:"parent,omitempty"`
	Cancel   CancelPolicy    `json:"cancel,omitempty"`
	Close    ClosePolicy     `json:"close,omitempty"`
	Args     json.RawMessage `json:"args,omitempty"`
}

// TaskProgress is a progress message of a task's program.
type TaskProgress struct {
	Message string `json:"message"`
}

// TaskEnd is how a task ended.
type TaskEnd struct {
	State   EndState `json:"state"`
	Summary string   `json:"summary,omitempty"`
}

// TaskMove is the state that a live task moves to.
type TaskMove struct {
	State LiveState `json:"state"`
}

// StopTask requests that a task stops by itself.
type StopTask struct {
	Reason string `json:"reason,omitempty"`
}

// CancelTasks cancels all live tasks at once.
type CancelTasks struct {
	Keep []events.TaskID `json:"keep,omitempty"`
}

// CancelledTasks are the tasks that a request cancelled.
type CancelledTasks struct {
	Cancelled []events.TaskID `json:"cancelled"`
}

// TransferTasks moves tasks to another session, all or none.
type TransferTasks struct {
	To    events.SessionID `json:"to"`
	Tasks []events.TaskID  `json:"tasks"`
}
