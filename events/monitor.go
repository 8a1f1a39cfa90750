package events

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Limits of a monitor.
const (
	MaxMonitorID        = 32        // bytes of a [MonitorID]
	MaxMonitorSpecBytes = 32 << 10  // command, directory and environment together
	MaxMonitorLine      = 64 << 10  // bytes of a line, including the mark of a cut
	MaxMonitorBatch     = 192 << 10 // bytes of all lines of one event
)

// ArmOn is the time at which a monitor is first armed.
type ArmOn string

// Values of ArmOn. The zero value is by hand.
const (
	ArmManual       ArmOn = ""
	ArmSessionStart ArmOn = "session_start"
)

// WakePolicy is the effect of a line on standard output.
type WakePolicy string

// Policies. The zero value queues a turn.
const (
	WakeQueueTurn WakePolicy = ""
	WakeNotify    WakePolicy = "notify"
)

// MonitorSpec describes a command that a monitor runs.
type MonitorSpec struct {
	ID               MonitorID         `msgpack:"i"`
	Command          string            `msgpack:"c"`           // for bash -lc
	Environment      string            `msgpack:"v,omitempty"` // where it runs, by name; empty: the session's
	Cwd              string            `msgpack:"d,omitempty"` // directory below that of the environment, or an absolute one. Empty: that of the environment
	Place            string            `msgpack:"l,omitempty"` // directory below Cwd, or an absolute one; the command runs in it, unless a link leads there. Empty: Cwd
	Env              map[string]string `msgpack:"e,omitempty"` // added to the environment's variables
	Persistent       bool              `msgpack:"p,omitempty"` // no time limit
	TimeoutMillis    int64             `msgpack:"t,omitempty"` // wall clock limit; 0 means 300 000
	ArmOn            ArmOn             `msgpack:"a,omitempty"`
	Wake             WakePolicy        `msgpack:"w,omitempty"`
	RestartOnRestore bool              `msgpack:"r,omitempty"` // after its worker dies, another worker runs it again
}

// Equal reports whether both are equal.
func (s MonitorSpec) Equal(o MonitorSpec) bool {
	return s.ID == o.ID && s.Command == o.Command && s.Environment == o.Environment && s.Cwd == o.Cwd && s.Place == o.Place && maps.Equal(s.Env, o.Env) &&
		s.Persistent == o.Persistent && s.TimeoutMillis == o.TimeoutMillis && s.ArmOn == o.ArmOn &&
		s.Wake == o.Wake && s.RestartOnRestore == o.RestartOnRestore
}

// Validate checks the specification.
func (s MonitorSpec) Validate() error {
	if err := checkMonitor(s.ID); err != nil {
		return err
	}
	if s.Environment != "" {
		if err := CheckToken("environment", s.Environment); err != nil {
			return err
		}
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
	size := len(s.Command) + len(s.Cwd) + len(s.Place)
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(s.Env[name], "\x00") {
			return invalid("env", fmt.Sprintf("%q is no variable", name))
		}
		size += len(name) + len(s.Env[name])
	}
	if strings.Contains(s.Command+s.Cwd+s.Place, "\x00") {
		return invalid("command", "command and directory must not hold a zero byte")
	}
	if size > MaxMonitorSpecBytes {
		return tooLarge("monitor", size, MaxMonitorSpecBytes)
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

// WakeInput is the id of the input that a monitor's line with this sequence makes.
func WakeInput(id MonitorID, sequence int64) InputID {
	return InputID("monitor-" + string(id) + "-" + strconv.FormatInt(sequence, 10))
}

// MonitorState is the state of a monitor.
type MonitorState string

// States of a monitor. The zero value is idle.
const (
	MonitorIdle    MonitorState = ""
	MonitorRunning MonitorState = "running"
	MonitorStopped MonitorState = "stopped"
	MonitorExited  MonitorState = "exited" // with status 0
	MonitorFailed  MonitorState = "failed"
)

// MonitorRegistered adds a monitor, or replaces its specification.
type MonitorRegistered struct {
	Spec MonitorSpec `msgpack:"s"`
}

// Validate implements [Payload].
func (p *MonitorRegistered) Validate() error { return p.Spec.Validate() }

// MonitorArmed records that a monitor must run. The same commit registers its task.
type MonitorArmed struct {
	Monitor MonitorID `msgpack:"m"`
}

// Validate implements [Payload].
func (p *MonitorArmed) Validate() error { return checkMonitor(p.Monitor) }

// MonitorStarted records that a worker runs the monitor's command. It is in the commit that starts the task.
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
	Sequence int64   `msgpack:"q"` // over all monitors of the session, from 1
	Text     string  `msgpack:"x"`
	Stderr   bool    `msgpack:"e,omitempty"`
	Wake     InputID `msgpack:"w,omitempty"` // the input that this line made, in the same commit
}

// MonitorReported has lines of output that were read together.
type MonitorReported struct {
	Monitor MonitorID     `msgpack:"m"`
	Lines   []MonitorLine `msgpack:"l"` // at least one, with rising sequences
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
			return tooLarge("lines.text", len(l.Text), MaxMonitorLine)
		}
		size += len(l.Text)
		if l.Wake != "" {
			if err := CheckToken("lines.wake", l.Wake); err != nil {
				return err
			}
		}
	}
	if size > MaxMonitorBatch {
		return tooLarge("lines", size, MaxMonitorBatch)
	}
	return nil
}

// MonitorEnded records that the monitor no longer runs and is disarmed. It is an update with the next sequence.
type MonitorEnded struct {
	Monitor MonitorID    `msgpack:"m"`
	State   MonitorState `msgpack:"s,omitempty"` // any state but running; idle means that its worker died
	Exit    int64        `msgpack:"x,omitempty"` // exit status; -1 after a signal
	Error   string       `msgpack:"e,omitempty"` // the reason, if the exit status does not show it
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

// MonitorUpdatesTaken removes the session's monitor updates up to a sequence.
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
