package task

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// MaxMonitors limits the monitors of a session.
const MaxMonitors = 256

// ToolRunner is the runner of tasks that run a turn's tool calls on another node.
const ToolRunner = "tool"

// MonitorRunner is the runner of the tasks that run monitors.
const MonitorRunner = "monitor"

func monitorOf(t *projector.Task) (events.MonitorID, bool) {
	if t.Of != events.TaskMonitor || t.Runner != MonitorRunner {
		return "", false
	}
	return events.MonitorOf(t.ID)
}

// RegisterMonitor adds a monitor or replaces its specification. Without a change there are no events.
func RegisterMonitor(s *projector.State, spec events.MonitorSpec) ([]events.Event, error) {
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	m, ok := s.Monitor(spec.ID)
	switch {
	case ok && m.Spec.Equal(spec):
		return nil, nil
	case !ok && len(s.Monitors) >= MaxMonitors:
		return nil, &events.FieldError{Field: "monitors", Reason: fmt.Sprintf("limit is %d", MaxMonitors), Err: events.ErrTooLarge}
	}
	return eventOf(&events.MonitorRegistered{Spec: spec}), nil
}

// StartMonitor registers and arms a monitor and its task. An armed monitor with a task continues; a new specification
// applies from its next start.
func StartMonitor(s *projector.State, spec events.MonitorSpec) ([]events.Event, error) {
	list, err := RegisterMonitor(s, spec)
	if err != nil {
		return nil, err
	}
	if t, ok := here(s, events.TaskOf(spec.ID)); ok && t.Live() {
		if _, ours := monitorOf(t); !ours {
			return nil, fmt.Errorf("task %s: %w", t.ID, api.ErrTaskRunning)
		}
		return list, nil
	}
	list = append(list, events.Of("", &events.MonitorArmed{Monitor: spec.ID}))
	run, err := Register(s, monitorTask(spec))
	return append(list, run...), err
}

func monitorTask(spec events.MonitorSpec) events.TaskRegistered {
	reg := events.TaskRegistered{Task: events.TaskOf(spec.ID), Of: events.TaskMonitor, Runner: MonitorRunner, Cancel: events.CancelAbortLocal, Close: events.CloseCancel}
	if spec.RestartOnRestore {
		reg.Restart = events.RestartAlways
	}
	return reg
}

// startArmed registers tasks for armed monitors without a task: those that start with the session.
func startArmed(s *projector.State) ([]events.Event, error) {
	var list []events.Event
	for i := range s.Monitors {
		m := &s.Monitors[i]
		if t, ok := here(s, events.TaskOf(m.Spec.ID)); !m.Armed || ok && t.Live() {
			continue
		}
		run, err := Register(s, monitorTask(m.Spec))
		if err != nil {
			return nil, err
		}
		list = append(list, run...)
	}
	return list, nil
}

// Declare registers changed declarations of monitors, and starts the armed ones.
func Declare(s *projector.State, specs []events.MonitorSpec) ([]events.Event, error) {
	var list []events.Event
	for i := range specs {
		registered, err := RegisterMonitor(s, specs[i])
		if err != nil {
			return nil, fmt.Errorf("monitor %s: %w", specs[i].ID, err)
		}
		list = append(list, registered...)
	}
	if len(list) > 0 {
		s = s.Clone()
		for i := range list {
			s.ApplyUncommitted(&list[i], s.UpdatedAt)
		}
	}
	run, err := startArmed(s)
	return append(list, run...), err
}

// StopMonitor stops and disarms a monitor in any state, until it is started again. It cancels a pending wake.
func StopMonitor(s *projector.State, id events.MonitorID) ([]events.Event, error) {
	m, ok := s.Monitor(id)
	if !ok {
		return nil, fmt.Errorf("monitor %q: %w", id, api.ErrUnknownMonitor)
	}
	if list := Cancel(s, events.TaskOf(id), "monitor stopped"); len(list) > 0 {
		return list, nil
	}
	if m.State == events.MonitorStopped && !m.Armed {
		return nil, nil
	}
	return endMonitor(s, id, &events.MonitorEnded{Monitor: id, State: events.MonitorStopped}), nil
}

// endMonitor records a stop and cancels the pending wake.
func endMonitor(s *projector.State, id events.MonitorID, end *events.MonitorEnded) []events.Event {
	list := eventOf(end)
	if m, ok := s.Monitor(id); ok && m.Wake != "" {
		list = append(list, events.Of("", &events.InputCancelled{Inputs: []events.InputID{m.Wake}}))
	}
	return list
}

// Line is one line of a monitor's output.
type Line struct {
	Text   string
	Stderr bool
}

// Report records lines that were read together. The first line on standard output makes an input, if the policy
// queues a turn and no input of the monitor is pending.
func Report(s *projector.State, c Claim, lines []Line) ([]events.Event, error) {
	t, err := checkClaim(s, c)
	if err != nil {
		return nil, err
	}
	id, ok := monitorOf(t)
	m, known := s.Monitor(id)
	if !ok || !known {
		return nil, fmt.Errorf("task %s: %w", c.Task, api.ErrUnknownMonitor)
	}
	p := &events.MonitorReported{Monitor: id}
	var list []events.Event
	var wake events.InputID
	for i, l := range lines {
		line := events.MonitorLine{Sequence: s.Feed.Sequence + int64(i) + 1, Text: l.Text, Stderr: l.Stderr}
		if !l.Stderr && m.Spec.Wake == events.WakeQueueTurn && m.Wake == "" && wake == "" {
			if wake, err = freeWake(s, id, line.Sequence); err != nil {
				return nil, err
			}
			line.Wake = wake
			list = eventOf(&events.InputInjected{
				Input: wake, Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: WakeText(id, l.Text)}},
			})
		}
		p.Lines = append(p.Lines, line)
	}
	return append(list, events.Of("", p)), nil
}

// freeWake is an unused id for the input that a line makes. A fork has nodes of its parent's inputs, and hosts may
// use any id.
func freeWake(s *projector.State, id events.MonitorID, sequence int64) (events.InputID, error) {
	first := events.WakeInput(id, sequence)
	wish := first
	for n := 2; ; n++ {
		node, err := s.Node(projector.InputNode(wish))
		if err != nil {
			return "", err
		}
		settled, err := s.Settled(wish)
		if err != nil {
			return "", err
		}
		if node == nil && settled == nil && !slices.ContainsFunc(s.Inputs, func(in projector.Input) bool { return in.ID == wish }) {
			return wish, nil
		}
		wish = first + events.InputID("-"+strconv.Itoa(n))
	}
}

// WakeText is the model's text of a line.
func WakeText(id events.MonitorID, line string) string {
	return fmt.Sprintf("Monitor event %q: %s", string(id), line)
}

// EndMonitor records the end of a monitor's command, and ends its task. A pending wake stays, so that its line is
// read.
func EndMonitor(s *projector.State, c Claim, end events.MonitorEnded) ([]events.Event, error) {
	t, err := checkClaim(s, c)
	if err != nil {
		return nil, err
	}
	id, ok := monitorOf(t)
	if !ok {
		return nil, fmt.Errorf("task %s: %w", c.Task, api.ErrUnknownMonitor)
	}
	end.Monitor = id
	done := &events.TaskEnded{Task: t.ID, State: events.TaskCompleted}
	if end.State == events.MonitorFailed {
		done.State, done.Summary = events.TaskFailed, end.Error
		if done.Summary == "" {
			done.Summary = fmt.Sprintf("exit status %d", end.Exit)
		}
	}
	return []events.Event{events.Of("", &end), events.Of("", done)}, nil
}

// TakeUpdates returns the updates up to a sequence, and the event that removes them.
func TakeUpdates(s *projector.State, upto int64) ([]projector.MonitorUpdate, []events.Event) {
	n := 0
	for n < len(s.Feed.Updates) && s.Feed.Updates[n].Sequence <= upto {
		n++
	}
	if n == 0 {
		return nil, nil
	}
	return s.Feed.Updates[:n], eventOf(&events.MonitorUpdatesTaken{Upto: s.Feed.Updates[n-1].Sequence})
}

// AckWakes cancels the pending inputs of monitors, which acknowledges them.
func AckWakes(s *projector.State, ids []events.MonitorID) []events.Event {
	var list []events.Event
	for _, id := range ids {
		if m, ok := s.Monitor(id); ok && m.Wake != "" {
			list = append(list, events.Of("", &events.InputCancelled{Inputs: []events.InputID{m.Wake}}))
		}
	}
	return list
}
