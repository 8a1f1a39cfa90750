package events

import (
	"errors"
	"fmt"
)

// Limits of a task.
const (
	MaxTaskID        = 48       // bytes of a [TaskID]
	MaxTaskArgsBytes = 16 << 10 // arguments of a runner; larger ones are stored as a blob
	MaxTaskText      = 4000     // bytes of a summary or a progress message
)

// TaskKind is the type of a task.
type TaskKind string

// Kinds of tasks. The zero value is other.
const (
	TaskOther    TaskKind = ""
	TaskMonitor  TaskKind = "monitor"
	TaskSubagent TaskKind = "subagent"
	TaskObserver TaskKind = "observer"
	TaskTool     TaskKind = "tool"
)

// TaskState is the state of a task.
type TaskState string

// States of a task. The zero value is pending.
const (
	TaskPending    TaskState = ""
	TaskRunning    TaskState = "running"
	TaskWaiting    TaskState = "waiting"
	TaskCancelling TaskState = "cancel_requested"
	TaskCompleted  TaskState = "completed"
	TaskFailed     TaskState = "failed"
	TaskCancelled  TaskState = "cancelled"
)

// Terminal reports whether the state is final.
func (s TaskState) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// CancelPolicy is how a task stops.
type CancelPolicy string

// Policies. The zero value is cooperative.
const (
	// CancelCooperative lets a task that is requested to stop report its own end. A cancel ends it at once.
	CancelCooperative CancelPolicy = ""
	// CancelAbortLocal ends a task at once after a cancel or a stop request.
	CancelAbortLocal CancelPolicy = "abort_local"
	// CancelExternal is for a task that a program outside runs: a cancel only requests that it stops.
	CancelExternal CancelPolicy = "external"
)

// ClosePolicy decides about a live task of a session that closes. Monitors and calls of turns always end with their
// session.
type ClosePolicy string

// Policies. The zero value is keep.
const (
	CloseKeep     ClosePolicy = ""         // it continues to its end
	CloseCancel   ClosePolicy = "cancel"   // it is cancelled
	CloseTransfer ClosePolicy = "transfer" // it moves to the parent session; cancelled if no parent accepts it
)

// RestartPolicy decides about a task whose worker died.
type RestartPolicy string

// Policies. The zero value ends the task as failed, with the evidence.
const (
	RestartNever  RestartPolicy = ""
	RestartAlways RestartPolicy = "restart" // another worker runs it again
)

// TaskRegistered adds a task to the session's registry. It replaces an ended task of the same id, and an existing
// copy of a task in transfer.
type TaskRegistered struct {
	Task     TaskID        `msgpack:"t"`
	Of       TaskKind      `msgpack:"k,omitempty"`
	Producer string        `msgpack:"p,omitempty"` // name that the program which registered it gives itself, a tool's name, or a plugin's
	Child    SessionID     `msgpack:"c,omitempty"` // of subagents: session that does the work
	Parent   TaskID        `msgpack:"a,omitempty"`
	Cancel   CancelPolicy  `msgpack:"x,omitempty"`
	Close    ClosePolicy   `msgpack:"l,omitempty"`
	Restart  RestartPolicy `msgpack:"r,omitempty"`
	Runner   string        `msgpack:"n,omitempty"` // name of the runner for any worker; empty for a function of Worker, or for a program outside
	Args     []byte        `msgpack:"j,omitempty"` // JSON for the runner
	Worker   WorkerID      `msgpack:"w,omitempty"` // worker that runs it from the start
	State    TaskState     `msgpack:"s,omitempty"` // initial state
	From     SessionID     `msgpack:"f,omitempty"` // session of origin, if transferred
	Attempt  int64         `msgpack:"e,omitempty"` // if transferred
	Created  Millis        `msgpack:"d,omitempty"` // if transferred: time of the first registration
	Summary  string        `msgpack:"y,omitempty"` // if transferred after its end

	Callers []string `msgpack:"cl,omitempty"` // authenticated callers on whose behalf it runs; empty for none

	Trace TraceParent `msgpack:"tp,omitempty"` // client's span of the registration
}

// Validate implements [Payload].
func (p *TaskRegistered) Validate() error {
	if err := checkTask(p.Task); err != nil {
		return err
	}
	for _, id := range []struct{ field, id string }{{"child", string(p.Child)}, {"parent", string(p.Parent)}, {"worker", string(p.Worker)}, {"from", string(p.From)}} {
		if id.id != "" {
			if err := CheckToken(id.field, id.id); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(p.Trace.Validate(), validateCallers(p.Callers)); err != nil {
		return err
	}
	if err := checkID("producer", p.Producer, false); err != nil {
		return err
	}
	if err := checkID("runner", p.Runner, false); err != nil {
		return err
	}
	if len(p.Args) > MaxTaskArgsBytes {
		return tooLarge("args", len(p.Args), MaxTaskArgsBytes)
	}
	if p.Attempt < 0 {
		return invalid("attempt", "is negative")
	}
	return p.validateWords()
}

func (p *TaskRegistered) validateWords() error {
	switch p.Of {
	case TaskOther, TaskMonitor, TaskSubagent, TaskObserver, TaskTool:
	default:
		return invalid("kind", fmt.Sprintf("unknown %q", p.Of))
	}
	switch p.Cancel {
	case CancelCooperative, CancelAbortLocal, CancelExternal:
	default:
		return invalid("cancel", fmt.Sprintf("unknown %q", p.Cancel))
	}
	switch p.Close {
	case CloseKeep, CloseCancel, CloseTransfer:
	default:
		return invalid("close", fmt.Sprintf("unknown %q", p.Close))
	}
	if p.Restart != RestartNever && p.Restart != RestartAlways {
		return invalid("restart", fmt.Sprintf("unknown %q", p.Restart))
	}
	if !p.State.known() {
		return invalid("state", fmt.Sprintf("unknown %q", p.State))
	}
	return checkText("summary", p.Summary)
}

func (s TaskState) known() bool {
	switch s {
	case TaskPending, TaskRunning, TaskWaiting, TaskCancelling, TaskCompleted, TaskFailed, TaskCancelled:
		return true
	}
	return false
}

// TaskStarted is a worker's claim of a task's run. There is no other lease.
type TaskStarted struct {
	Task    TaskID   `msgpack:"t"`
	Worker  WorkerID `msgpack:"w"`
	Attempt int64    `msgpack:"a"` // from 1, increases with each takeover
}

// Validate implements [Payload].
func (p *TaskStarted) Validate() error {
	if err := checkTask(p.Task); err != nil {
		return err
	}
	if p.Attempt < 1 {
		return invalid("attempt", "must be at least 1")
	}
	return CheckToken("worker", p.Worker)
}

// TaskStateChanged moves a live task between running and waiting.
type TaskStateChanged struct {
	Task  TaskID    `msgpack:"t"`
	State TaskState `msgpack:"s"` // running or waiting
}

// Validate implements [Payload].
func (p *TaskStateChanged) Validate() error {
	if p.State != TaskRunning && p.State != TaskWaiting {
		return invalid("state", fmt.Sprintf("%q, want running or waiting", p.State))
	}
	return checkTask(p.Task)
}

// TaskProgressed is a progress message of a live task.
type TaskProgressed struct {
	Task    TaskID `msgpack:"t"`
	Message string `msgpack:"m"`
}

// Validate implements [Payload].
func (p *TaskProgressed) Validate() error {
	if err := checkTask(p.Task); err != nil {
		return err
	}
	return checkText("message", p.Message)
}

// TaskCancelRequested requests that a live task stops. The first request wins.
type TaskCancelRequested struct {
	Task   TaskID `msgpack:"t"`
	Reason string `msgpack:"r,omitempty"` // UTF-8, at most [MaxReasonBytes]
}

// Validate implements [Payload].
func (p *TaskCancelRequested) Validate() error {
	if err := checkTask(p.Task); err != nil {
		return err
	}
	return CheckReason("reason", p.Reason)
}

// TaskHidden marks the task that the same commit registers: lists do not show it, and it cannot be cancelled.
// The registry removes it when it completes.
type TaskHidden struct {
	Task  TaskID `msgpack:"t"`
	Label string `msgpack:"l,omitempty"` // for people
}

// Validate implements [Payload].
func (p *TaskHidden) Validate() error {
	if err := checkTask(p.Task); err != nil {
		return err
	}
	return checkText("label", p.Label)
}

// TaskPassedOn records that the cancel of a task reached the session that does its work.
type TaskPassedOn struct {
	Task TaskID `msgpack:"t"`
}

// Validate implements [Payload].
func (p *TaskPassedOn) Validate() error { return checkTask(p.Task) }

// TaskEnded ends a live task.
type TaskEnded struct {
	Task    TaskID    `msgpack:"t"`
	State   TaskState `msgpack:"s"` // completed, failed or cancelled
	Summary string    `msgpack:"y,omitempty"`
}

// Validate implements [Payload].
func (p *TaskEnded) Validate() error {
	if !p.State.Terminal() {
		return invalid("state", fmt.Sprintf("%q does not end a task", p.State))
	}
	if err := checkTask(p.Task); err != nil {
		return err
	}
	return checkText("summary", p.Summary)
}

// TaskRemoved removes a task from the registry. Its work continues, and its later events are ignored.
type TaskRemoved struct {
	Task TaskID `msgpack:"t"`
}

// Validate implements [Payload].
func (p *TaskRemoved) Validate() error { return checkTask(p.Task) }

// TaskTransferred records that tasks moved to another session, which has registered them.
type TaskTransferred struct {
	Tasks []TaskID  `msgpack:"t"`
	To    SessionID `msgpack:"o"`
}

// Validate implements [Payload].
func (p *TaskTransferred) Validate() error { return checkMoved(p.Tasks, p.To) }

func checkMoved(tasks []TaskID, to SessionID) error {
	if len(tasks) == 0 {
		return invalid("tasks", "is empty")
	}
	for _, id := range tasks {
		if err := checkTask(id); err != nil {
			return err
		}
	}
	return CheckToken("to", to)
}

// TaskLeaving records, in the commit that closes a session, that tasks must move to another session. Each live one
// must become transferred or stayed.
type TaskLeaving struct {
	Tasks []TaskID  `msgpack:"t"`
	To    SessionID `msgpack:"o"`
}

// Validate implements [Payload].
func (p *TaskLeaving) Validate() error { return checkMoved(p.Tasks, p.To) }

// TaskStayed records that a task which had to move to another session stays, because that session does not accept it.
type TaskStayed struct {
	Task TaskID `msgpack:"t"`
}

// Validate implements [Payload].
func (p *TaskStayed) Validate() error { return checkTask(p.Task) }

func checkTask(id TaskID) error {
	if len(id) > MaxTaskID {
		return &FieldError{Field: "task", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(id), MaxTaskID), Err: ErrInvalidID}
	}
	return CheckToken("task", id)
}

func checkText(field, text string) error {
	if len(text) > MaxTaskText {
		return tooLarge(field, len(text), MaxTaskText)
	}
	return nil
}
