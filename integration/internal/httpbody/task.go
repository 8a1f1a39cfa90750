package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// Tasks are a session's background tasks.
type Tasks struct {
	Tasks []Task `json:"tasks"`
}

// Task is a background task.
type Task struct {
	ID          events.TaskID    `json:"id"`
	Kind        TaskKind         `json:"kind"`
	State       TaskState        `json:"state"`
	Producer    string           `json:"producer,omitempty"`
	Child       events.SessionID `json:"child,omitempty"`
	Parent      events.TaskID    `json:"parent,omitempty"`
	Runner      string           `json:"runner,omitempty"`
	Args        json.RawMessage  `json:"args,omitempty"`
	Attempt     int64            `json:"attempt"`
	MovedTo     events.SessionID `json:"moved_to,omitempty"`
	Message     string           `json:"message,omitempty"`
	Reason      string           `json:"reason,omitempty"`
	Summary     string           `json:"summary,omitempty"`
	CreatedAt   events.Millis    `json:"created_at_ms"`
	UpdatedAt   events.Millis    `json:"updated_at_ms"`
	CompletedAt events.Millis    `json:"completed_at_ms,omitempty"`
}

// Monitors are the states of a session's monitors.
type Monitors struct {
	Revision int64     `json:"revision"`
	Monitors []Monitor `json:"monitors"`
}

// MonitorSpec is the command of a monitor and its settings.
type MonitorSpec struct {
	Command          string            `json:"command"`
	Environment      string            `json:"environment,omitempty"`
	Cwd              string            `json:"cwd,omitempty"`
	Env              map[string]string `json:"env,omitempty"`
	Persistent       bool              `json:"persistent,omitempty"`
	TimeoutMillis    int64             `json:"timeout_ms,omitempty"`
	Wake             events.WakePolicy `json:"wake,omitempty"`
	RestartOnRestore bool              `json:"restart_on_restore,omitempty"`
}

// Monitor is a monitored command and its state.
type Monitor struct {
	ID        events.MonitorID `json:"id"`
	Command   string           `json:"command"`
	State     MonitorState     `json:"state"`
	Armed     bool             `json:"armed"`
	Lines     int64            `json:"lines"`
	LastLine  string           `json:"last_line,omitempty"`
	LastError string           `json:"last_error,omitempty"`
	Exit      *int64           `json:"exit,omitempty"`
}

// MonitorUpdates are drained updates: no other client gets them.
type MonitorUpdates struct {
	Revision int64           `json:"revision"`
	Active   int             `json:"active"`
	Updates  []MonitorUpdate `json:"updates"`
}

// MonitorUpdate is a line of a monitor, or a change of its state.
type MonitorUpdate struct {
	Sequence int64            `json:"sequence"`
	Monitor  events.MonitorID `json:"monitor"`
	Message  string           `json:"message"`
	Stderr   bool             `json:"stderr,omitempty"`
	Input    events.InputID   `json:"input,omitempty"`
}
