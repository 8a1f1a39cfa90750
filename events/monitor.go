package events

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Bounds of what a monitor carries.
const (
	MaxMonitorID        = 32        // bytes of a [MonitorID]
	MaxMonitorSpecBytes = 32 << 10  // of command, directory and environment together
	MaxMonitorLine      = 64 << 10  // bytes of a line, a mark that it was cut included
	MaxMonitorBatch     = 192 << 10 // bytes of the lines of one event
)

// ArmOn says when a monitor is first armed.
type ArmOn string

// The occasions. The zero value is by hand.
const (
	ArmManual       ArmOn = ""
	ArmSessionStart ArmOn = "session_start"
)

// WakePolicy says what a line on standard output does to the session.
type WakePolicy string

// The policies. The zero value queues a turn.
const (
	WakeQueueTurn WakePolicy = ""
	WakeNotify    WakePolicy = "notify"
)

// MonitorSpec is what a monitor runs (host specification 8.1).
type MonitorSpec struct {
	ID               MonitorID         `msgpack:"i"`
	Command          string            `msgpack:"c"` // for bash -lc
	Cwd              string            `msgpack:"d,omitempty"`
	Env              map[string]string `msgpack:"e,omitempty"` // added to the node's
	Persistent       bool              `msgpack:"p,omitempty"` // no time limit
	TimeoutMillis    int64             `msgpack:"t,omitempty"` // wall clock; 0 means 300 000
	ArmOn            ArmOn             `msgpack:"a,omitempty"`
	Wake             WakePolicy        `msgpack:"w,omitempty"`
	RestartOnRestore bool              `msgpack:"r,omitempty"` // another worker runs it again when its own dies
}

// Equal reports whether both say the same.
func (s MonitorSpec) Equal(o MonitorSpec) bool {
	return s.ID == o.ID && s.Command == o.Command && s.Cwd == o.Cwd && maps.Equal(s.Env, o.Env) &&
		s.Persistent == o.Persistent && s.TimeoutMillis == o.TimeoutMillis && s.ArmOn == o.ArmOn &&
		s.Wake == o.Wake && s.RestartOnRestore == o.RestartOnRestore
}

// Validate checks the specification.
func (s MonitorSpec) Validate() error {
	if err := checkMonitor(s.ID); err != nil {
		return err
	}
	if strings.TrimSpace(s.Command) == "" {
		return invalid("command", "is blank")
	}
	if s.TimeoutMillis < 0 {
		return invalid("timeout", "is negative")
	}
	if s.ArmOn != ArmManual && s.ArmOn != ArmSessionStart {
		return invalid("arm_on", fmt.Sprintf("unknown %q", s.ArmOn))
	}
	if s.Wake != WakeQueueTurn && s.Wake != WakeNotify {
		return invalid("wake", fmt.Sprintf("unknown %q", s.Wake))
	}
	size := len(s.Command) + len(s.Cwd)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(s.Env[name], "\x00") {
			return invalid("env", fmt.Sprintf("%q is no variable", name))
		}
		size += len(name) + len(s.Env[name])
	}
	if strings.Contains(s.Command+s.Cwd, "\x00") {
		return invalid("command", "command and directory must not hold a zero byte")
	}
	if size > MaxMonitorSpecBytes {
		return aboveLimit("monitor", size, MaxMonitorSpecBytes)
	}
	return nil
}

// TaskOf is the id of the task that runs a monitor.
func TaskOf(id MonitorID) TaskID { return TaskID("monitor-" + string(id)) }

// MonitorOf is the inverse of [TaskOf].
func MonitorOf(id TaskID) (MonitorID, bool) {
	m, ok := strings.CutPrefix(string(id), "monitor-")
	return MonitorID(m), ok
}

// WakeInput is the id of the input that a monitor's line of that sequence becomes.
func WakeInput(id MonitorID, sequence int64) InputID {
	return InputID("monitor-" + string(id) + "-" + strconv.FormatInt(sequence, 10))
}

// MonitorState is where a monitor is.
type MonitorState string

// The states. The zero value is idle.
const (
	MonitorIdle    MonitorState = ""
	MonitorRunning MonitorState = "running"
	MonitorStopped MonitorState = "stopped"
	MonitorExited  MonitorState = "exited" // with status 0
	MonitorFailed  MonitorState = "failed"
)

// MonitorRegistered adds a monitor, or replaces what one runs.
type MonitorRegistered struct {
	Spec MonitorSpec `msgpack:"s"`
}

// Validate implements [Payload].
func (p *MonitorRegistered) Validate() error { return p.Spec.Validate() }

// MonitorArmed says that a monitor is to run. Its task is registered in the same commit.
type MonitorArmed struct {
	Monitor MonitorID `msgpack:"m"`
}

// Validate implements [Payload].
func (p *MonitorArmed) Validate() error { return checkMonitor(p.Monitor) }

// MonitorStarted says that a worker runs the monitor's command. It lands with the task's own start.
type MonitorStarted struct {
	Monitor MonitorID `msgpack:"m"`
	Worker  WorkerID  `msgpack:"w"`
	Attempt int64     `msgpack:"a"` // of the task
}

// Validate implements [Payload].
func (p *MonitorStarted) Validate() error {
	if err := checkMonitor(p.Monitor); err != nil {
		return err
	}
	if p.Attempt < 1 {
		return invalid("attempt", "must be at least 1")
	}
	return CheckToken("worker", p.Worker)
}

// MonitorLine is one line of a monitor's output.
type MonitorLine struct {
	Sequence int64   `msgpack:"q"` // in the session, over all monitors, from 1
	Text     string  `msgpack:"x"`
	Stderr   bool    `msgpack:"e,omitempty"`
	Wake     InputID `msgpack:"w,omitempty"` // the input that it became, injected by the same commit
}

// MonitorReported holds the lines that came together.
type MonitorReported struct {
	Monitor MonitorID     `msgpack:"m"`
	Lines   []MonitorLine `msgpack:"l"` // at least one, by rising sequence
}

// Validate implements [Payload].
func (p *MonitorReported) Validate() error {
	if err := checkMonitor(p.Monitor); err != nil {
		return err
	}
	if len(p.Lines) == 0 {
		return invalid("lines", "is empty")
	}
	size := 0
	for i := range p.Lines {
		l := &p.Lines[i]
		if l.Sequence < 1 || (i > 0 && p.Lines[i-1].Sequence >= l.Sequence) {
			return invalid("lines.sequence", "must rise from 1")
		}
		if len(l.Text) > MaxMonitorLine {
			return aboveLimit("lines.text", len(l.Text), MaxMonitorLine)
		}
		size += len(l.Text)
		if l.Wake != "" {
			if err := CheckToken("lines.wake", l.Wake); err != nil {
				return err
			}
		}
	}
	if size > MaxMonitorBatch {
		return aboveLimit("lines", size, MaxMonitorBatch)
	}
	return nil
}

// MonitorEnded says that the monitor does not run any more and is disarmed. It tells as an update, with the next sequence.
type MonitorEnded struct {
	Monitor MonitorID    `msgpack:"m"`
	State   MonitorState `msgpack:"s,omitempty"` // anything but running; idle: its worker is gone
	Exit    int64        `msgpack:"x,omitempty"` // status of the command; -1 where a signal ended it
	Error   string       `msgpack:"e,omitempty"` // why, where the command's status does not tell
}

// Validate implements [Payload].
func (p *MonitorEnded) Validate() error {
	switch p.State {
	case MonitorIdle, MonitorStopped, MonitorExited, MonitorFailed:
	default:
		return invalid("state", fmt.Sprintf("%q does not end a monitor", p.State))
	}
	if err := checkText("error", p.Error); err != nil {
		return err
	}
	return checkMonitor(p.Monitor)
}

// MonitorUpdatesTaken drains the session's monitor updates.
type MonitorUpdatesTaken struct {
	Upto int64 `msgpack:"u"` // the last sequence taken
}

// Validate implements [Payload].
func (p *MonitorUpdatesTaken) Validate() error {
	if p.Upto < 1 {
		return invalid("upto", "must be at least 1")
	}
	return nil
}

func checkMonitor(id MonitorID) error {
	if len(id) > MaxMonitorID {
		return &FieldError{Field: "monitor", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(id), MaxMonitorID), Err: ErrInvalidID}
	}
	return CheckToken("monitor", id)
}
