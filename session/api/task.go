package api

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TaskRequest registers a background task. One with a Runner is run by any
// worker that has the runner; one with a Worker is a closure of that worker;
// any other is run by a program outside, which says how it goes.
type TaskRequest struct {
	ID       events.TaskID        `msgpack:"i"`
	Of       events.TaskKind      `msgpack:"k,omitempty"`
	Producer string               `msgpack:"p,omitempty"`
	Child    events.SessionID     `msgpack:"-"`
	Parent   events.TaskID        `msgpack:"a,omitempty"`
	Cancel   events.CancelPolicy  `msgpack:"x,omitempty"`
	Close    events.ClosePolicy   `msgpack:"l,omitempty"`
	Restart  events.RestartPolicy `msgpack:"-"`
	Runner   string               `msgpack:"-"`
	Args     []byte               `msgpack:"j,omitempty"` // JSON for the runner, at most 16 KiB
	Worker   events.WorkerID      `msgpack:"-"`
	// OnCancel is called once, when the task is cancelled or asked to stop by
	// anybody, while this process lives. Only tasks that are run outside have one.
	OnCancel func() `msgpack:"-"`
}

// Outside refuses what a program that is no node must not register: a task that
// nodes run, or one of a kind or with an id that nodes give to their own.
// The error is an [*events.FieldError].
func (r *TaskRequest) Outside() error {
	field, reason := "", "is for tasks that nodes run: the program that registers this one runs it"
	switch {
	case r.Runner != "":
		field = "runner"
	case r.Worker != "":
		field = "worker"
	case r.Restart != events.RestartNever:
		field = "restart"
	case r.OnCancel != nil:
		field, reason = "on_cancel", "is a function, which does not travel: watch the session"
	case r.Child != "":
		field, reason = "child", "is for tasks of subagents, whose plugin works on that session for whoever has the task"
	case r.Of == events.TaskMonitor || r.Of == events.TaskTool || r.Of == events.TaskSubagent:
		field, reason = "kind", fmt.Sprintf("%q is of tasks that nodes register", r.Of)
	case strings.HasPrefix(string(r.ID), "monitor-") || strings.HasPrefix(string(r.ID), "call-"):
		field, reason = "task", "begins with monitor- or call-, as what nodes register"
	case len(r.Args) > events.MaxTaskArgsBytes:
		return &events.FieldError{Field: "args", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(r.Args), events.MaxTaskArgsBytes), Err: events.ErrTooLarge}
	case len(r.Args) > 0 && !json.Valid(r.Args):
		field, reason = "args", "is no JSON"
	default:
		return events.CheckJSON("args", r.Args)
	}
	return &events.FieldError{Field: field, Reason: reason, Err: events.ErrInvalid}
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
