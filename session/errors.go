package session

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/task"
)

// Errors of the host; those of histories are in package events.
var (
	// ErrExists is a session id that is taken.
	ErrExists = errors.New("session already exists")
	// ErrClosed is a session that takes no more.
	ErrClosed = errors.New("session is closed")
	// ErrOpening is a session whose creator is still appending its first nodes, or died over it.
	ErrOpening = errors.New("session is still opening")
	// ErrTurnRunning is an operation that waits for the running turn to end.
	ErrTurnRunning = errors.New("a turn is running")
	// ErrUnknownTurn is a turn that the session never heard of.
	ErrUnknownTurn = errors.New("no such turn")
	// ErrUnknownNode is a node id that the session's graph does not have.
	ErrUnknownNode = errors.New("no such node")
	// ErrUnknownTask is a background task that the session does not have, or not as a live one.
	ErrUnknownTask = task.ErrUnknown
	// ErrTaskRunning is the id of a background task that has not ended.
	ErrTaskRunning = task.ErrRunning
	// ErrTaskTaken is a worker's word about a task that it does not run, or not any more.
	ErrTaskTaken = task.ErrTaken
	// ErrUnknownMonitor is a monitor that the session does not have.
	ErrUnknownMonitor = task.ErrUnknownMonitor
	// ErrMonitorTask is the task of a monitor where only others are possible.
	ErrMonitorTask = task.ErrMonitorTask
	// ErrDifferent is an id used a second time with other content.
	ErrDifferent = errors.New("id was used with other content")
)

// StaleBranchError is an append whose required ancestor is not on the active path. Nothing was written.
type StaleBranchError struct {
	Required events.NodeID
	Leaf     events.NodeID // the current one; empty for an empty graph
}

func (e *StaleBranchError) Error() string {
	return fmt.Sprintf("stale branch: %s is not on the active path, the leaf is %q", e.Required, e.Leaf)
}
