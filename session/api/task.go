package api

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TaskRequest registers a background task. A task with a Runner runs on any worker that has the runner. A task with a
// Worker is a closure of that worker. Any other task runs in an outside program, which reports its progress and end.
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
	// OnCancel is called once, when the task is cancelled or a cancel is requested, while this process runs. Only
	// tasks of outside programs have one.
	OnCancel func() `msgpack:"-"`
}

// CheckOwn refuses a registration that a program must not make for a task that it runs itself: a task that nodes run, or a kind or an id
// that nodes use for their own tasks. The error is an [*events.FieldError].
func (r *TaskRequest) CheckOwn() error {
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
		field, reason = "child", "is for tasks of subagents, whose plugin works on that session"
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

// MonitorSnapshot is the state of a session's monitors.
type MonitorSnapshot struct {
	Revision int64               `msgpack:"r,omitempty"` // counts changes; an unchanged number means no news
	Active   int                 `msgpack:"a,omitempty"` // number of running monitors
	Monitors []projector.Monitor `msgpack:"m,omitempty"`
}

// MonitorEvent is a drained update.
type MonitorEvent struct {
	Sequence int64            `msgpack:"q" json:"sequence" jsonschema:"number of the update, over all monitors of the session; a gap means that updates were dropped"`
	Monitor  events.MonitorID `msgpack:"m" json:"monitor"`
	Message  string           `msgpack:"x,omitempty" json:"message"`
	Stderr   bool             `msgpack:"e,omitempty" json:"stderr,omitempty"`
	Input    events.InputID   `msgpack:"i,omitempty" json:"input,omitempty" jsonschema:"id of the injected message with this line"` // empty: the line became no input
	Text     string           `msgpack:"t,omitempty" json:"-"`                                                                      // of that input
}

// MonitorUpdates are the drained updates: no other client gets them.
type MonitorUpdates struct {
	Revision int64          `msgpack:"r,omitempty" json:"revision"`
	Active   int            `msgpack:"a,omitempty" json:"active" jsonschema:"number of running monitors"`
	Events   []MonitorEvent `msgpack:"e,omitempty" json:"updates"`
}
