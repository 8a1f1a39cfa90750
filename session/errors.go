package session

import (
	"github.com/lash-go/lash/session/task"
)

// Errors of tasks.
var (
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
)
