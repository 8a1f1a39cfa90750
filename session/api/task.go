package api

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TaskRequest registers a background task. One with a Runner is run by any
// worker that has the runner; one with a Worker is a closure of that worker;
// any other is run by somebody outside, who says how it goes.
type TaskRequest struct {
	ID       events.TaskID
	Of       events.TaskKind
	Producer string
	Child    events.SessionID
	Parent   events.TaskID
	Cancel   events.CancelPolicy
	Close    events.ClosePolicy
	Restart  events.RestartPolicy
	Runner   string
	Args     []byte // JSON for the runner, at most 16 KiB
	Worker   events.WorkerID
	// OnCancel is called once, when the task is cancelled or asked to stop by
	// anybody, while this process lives. Only tasks that are run outside have one.
	OnCancel func()
}

// MonitorSnapshot is how a session's monitors stand.
type MonitorSnapshot struct {
	Revision int64               `msgpack:"r,omitempty"` // counts changes; a number seen before means nothing is new
	Active   int                 `msgpack:"a,omitempty"` // how many run
	Monitors []projector.Monitor `msgpack:"m,omitempty"`
}

// MonitorEvent is an update that was taken.
type MonitorEvent struct {
	Sequence int64            `msgpack:"q"` // a gap means that some were dropped before they were taken
	Monitor  events.MonitorID `msgpack:"m"`
	Message  string           `msgpack:"x,omitempty"`
	Stderr   bool             `msgpack:"e,omitempty"`
	Input    events.InputID   `msgpack:"i,omitempty"` // the input that the line became; empty where it is only news
	Text     string           `msgpack:"t,omitempty"` // of that input
}

// MonitorUpdates is what a host took.
type MonitorUpdates struct {
	Revision int64          `msgpack:"r,omitempty"`
	Active   int            `msgpack:"a,omitempty"`
	Events   []MonitorEvent `msgpack:"e,omitempty"`
}
