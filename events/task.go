package events

import "fmt"

// Bounds of what a task carries.
const (
	MaxTaskID        = 48       // bytes of a [TaskID]
	MaxTaskArgsBytes = 16 << 10 // of a runner's arguments; larger ones belong in a blob
	MaxTaskText      = 4000     // bytes of a summary, a reason or a progress message
)

// TaskKind says what sort of work a task is (host specification 7.3).
type TaskKind string

// The kinds of tasks. The zero value is other.
const (
	TaskOther    TaskKind = ""
	TaskMonitor  TaskKind = "monitor"
	TaskSubagent TaskKind = "subagent"
	TaskObserver TaskKind = "observer"
	TaskTool     TaskKind = "tool"
)

// TaskState is where a task is in its life.
type TaskState string

// The states. The zero value is pending.
const (
	TaskPending    TaskState = ""
	TaskRunning    TaskState = "running"
	TaskWaiting    TaskState = "waiting"
	TaskCancelling TaskState = "cancel_requested"
	TaskCompleted  TaskState = "completed"
	TaskFailed     TaskState = "failed"
	TaskCancelled  TaskState = "cancelled"
)

// Terminal reports whether nothing changes the state any more.
func (s TaskState) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// CancelPolicy says how a task is stopped.
type CancelPolicy string

// The policies. The zero value is cooperative.
const (
	// CancelCooperative lets a task that is asked to stop say how it ended. A cancel ends it at once.
	CancelCooperative CancelPolicy = ""
	// CancelAbortLocal ends a task at once that is cancelled or asked to stop.
	CancelAbortLocal CancelPolicy = "abort_local"
	// CancelExternal leaves the end of a task that no node runs to the program that runs it: a cancel asks it to stop.
	CancelExternal CancelPolicy = "external"
)

// ClosePolicy says what becomes of a task when its session closes. Monitors and the
// calls of turns end with their session, whatever theirs is.
type ClosePolicy string

// The policies. The zero value is keep.
const (
	CloseKeep     ClosePolicy = ""         // it goes on to its end
	CloseCancel   ClosePolicy = "cancel"   // it is cancelled
	CloseTransfer ClosePolicy = "transfer" // it becomes the parent session's; cancelled, where there is none that takes it
)

// RestartPolicy says what becomes of a task whose worker died.
type RestartPolicy string

// The policies. The zero value ends the task as failed, with the evidence.
const (
	RestartNever  RestartPolicy = ""
	RestartAlways RestartPolicy = "restart" // another worker runs it again
)

// TaskRegistered puts a task in the session's registry. It replaces an ended
// one of the same id, and the copy of one that is being transferred.
type TaskRegistered struct {
	Task     TaskID        `msgpack:"t"`
	Of       TaskKind      `msgpack:"k,omitempty"`
	Producer string        `msgpack:"p,omitempty"` // who asked for it
	Child    SessionID     `msgpack:"c,omitempty"` // session that does the work, of subagents
	Parent   TaskID        `msgpack:"a,omitempty"`
	Cancel   CancelPolicy  `msgpack:"x,omitempty"`
	Close    ClosePolicy   `msgpack:"l,omitempty"`
	Restart  RestartPolicy `msgpack:"r,omitempty"`
	Runner   string        `msgpack:"n,omitempty"` // what any worker runs it with; empty: a closure of Worker, or somebody outside
	Args     []byte        `msgpack:"j,omitempty"` // JSON for the runner
	Worker   WorkerID      `msgpack:"w,omitempty"` // who runs it from the start
	State    TaskState     `msgpack:"s,omitempty"` // it begins in
	From     SessionID     `msgpack:"f,omitempty"` // where it was transferred from
	Attempt  int64         `msgpack:"e,omitempty"` // of a transferred one
	Created  Millis        `msgpack:"d,omitempty"` // of a transferred one: when it was first registered
	Summary  string        `msgpack:"y,omitempty"` // of a transferred one that has ended

	Trace TraceParent `msgpack:"tp,omitempty"` // the span that it was registered under
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
	if err := p.Trace.Validate(); err != nil {
		return err
	}
	if err := checkID("producer", p.Producer, false); err != nil {
		return err
	}
	if err := checkID("runner", p.Runner, false); err != nil {
		return err
	}
	if len(p.Args) > MaxTaskArgsBytes {
		return aboveLimit("args", len(p.Args), MaxTaskArgsBytes)
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

// TaskStarted is a worker's claim of the task's run. There is no other lease.
type TaskStarted struct {
	Task    TaskID   `msgpack:"t"`
	Worker  WorkerID `msgpack:"w"`
	Attempt int64    `msgpack:"a"` // from 1, one more at each takeover
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

// TaskProgressed is what a live task has to say.
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

// TaskCancelRequested asks a live task to stop. The first one wins.
type TaskCancelRequested struct {
	Task   TaskID `msgpack:"t"`
	Reason string `msgpack:"r,omitempty"`
}

// Validate implements [Payload].
func (p *TaskCancelRequested) Validate() error {
	if err := checkTask(p.Task); err != nil {
		return err
	}
	return checkText("reason", p.Reason)
}

// TaskHidden says, in the commit that registers a task, that it is never listed and cannot be cancelled.
// The session's registry forgets it once it has completed.
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

// TaskPassedOn says that the cancel of a task has reached the session that does its work.
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

// TaskRemoved takes a task out of the registry. It goes on, unheard.
type TaskRemoved struct {
	Task TaskID `msgpack:"t"`
}

// Validate implements [Payload].
func (p *TaskRemoved) Validate() error { return checkTask(p.Task) }

// TaskTransferred says that tasks go on in another session, which has registered them before.
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

// TaskLeaving says, in the commit that closes a session, that tasks are to become another session's. A live one that is
// neither transferred nor stayed owes that.
type TaskLeaving struct {
	Tasks []TaskID  `msgpack:"t"`
	To    SessionID `msgpack:"o"`
}

// Validate implements [Payload].
func (p *TaskLeaving) Validate() error { return checkMoved(p.Tasks, p.To) }

// TaskStayed says that a task which was to become another session's stays where it is, as that does not take it.
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
		return aboveLimit(field, len(text), MaxTaskText)
	}
	return nil
}

func aboveLimit(field string, n, limit int) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, limit is %d", n, limit), Err: ErrTooLarge}
}
