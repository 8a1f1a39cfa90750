package httpapi

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// newTaskJSON registers a task that the caller's own program runs. The server does not call the program: it watches the
// session for task.cancel_requested, or reads the state in the responses to its progress.
type newTaskJSON struct {
	ID       events.TaskID    `json:"-" path:"task"`
	Of       ownKindJSON      `json:"kind,omitempty" jsonschema:"defaults to other"`
	Producer string           `json:"producer,omitempty"`
	Parent   events.TaskID    `json:"parent,omitempty"`
	Cancel   cancelPolicyJSON `json:"cancel,omitempty" jsonschema:"defaults to cooperative"`
	Close    closePolicyJSON  `json:"close,omitempty" jsonschema:"defaults to keep"`
	Args     json.RawMessage  `json:"args,omitempty" jsonschema:"JSON, stored with the task, at most 16 KiB"`
}

// taskEndJSON is how a task ended.
type taskEndJSON struct {
	Task    events.TaskID `json:"-" path:"task"`
	State   endStateJSON  `json:"state"`
	Summary string        `json:"summary,omitempty" jsonschema:"at most 4000 bytes"`
}

// taskMoveJSON is the state that a live task moves to.
type taskMoveJSON struct {
	Task  events.TaskID `json:"-" path:"task"`
	State liveStateJSON `json:"state"`
}

// cancelTasksJSON cancels all live tasks at once.
type cancelTasksJSON struct {
	Keep []events.TaskID `json:"keep,omitempty" jsonschema:"ids of tasks that are not cancelled"`
}

// cancelledTasksJSON are the tasks that a request cancelled.
type cancelledTasksJSON struct {
	Cancelled []events.TaskID `json:"cancelled" jsonschema:"ids in order of creation"`
}

// taskPath names the task of a request without a body.
type taskPath struct {
	Task events.TaskID `path:"task"`
}
