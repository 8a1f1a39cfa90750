package task_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

func spec(id events.MonitorID) events.MonitorSpec {
	return events.MonitorSpec{ID: id, Command: "true"}
}

func (h *history) monitor(id events.MonitorID) projector.Monitor {
	h.t.Helper()
	m, ok := h.Monitor(id)
	if !ok {
		h.t.Fatalf("monitor %s: got none", id)
	}
	return *m
}

// started has a monitor that worker w1 runs.
func started(t *testing.T, s events.MonitorSpec) (*history, task.Claim) {
	t.Helper()
	h := begin(t, "s1")
	h.add(task.StartMonitor(h.State, s))
	k, _ := h.Task(events.TaskOf(s.ID))
	h.add(task.ClaimFor(h.State, task.ClaimOf(k), "w1"))
	k, _ = h.Task(events.TaskOf(s.ID))
	return h, task.ClaimOf(k)
}

// report returns the input that the lines make, if any.
func (h *history) report(c task.Claim, lines ...task.Line) events.InputID {
	h.t.Helper()
	list, err := task.Report(h.State, c, lines)
	h.add(list, err)
	for i := range list {
		if p, ok := list[i].Payload.(*events.InputInjected); ok {
			return p.Input
		}
	}
	return ""
}

// TestMonitorRegister lists the effects of a registration on armed monitors.
func TestMonitorRegister(t *testing.T) {
	t.Parallel()
	h := begin(t, "s1")
	s := spec("m")
	s.ArmOn = events.ArmSessionStart
	h.add(task.RegisterMonitor(h.State, s))
	revision := h.Feed.Revision
	if list, err := task.RegisterMonitor(h.State, s); err != nil || len(list) != 0 {
		t.Errorf("unchanged: got %v, %v, want nothing", list, err)
	}
	if !h.monitor("m").Armed || h.Feed.Revision != revision {
		t.Errorf("monitor: got %+v, want armed", h.monitor("m"))
	}
	h.add(task.StopMonitor(h.State, "m"))
	s.Command = "false"
	h.add(task.RegisterMonitor(h.State, s))
	if m := h.monitor("m"); m.Armed || m.State != events.MonitorStopped || m.Spec.Command != "false" {
		t.Errorf("changed after a stop: got %+v, want stopped with the new command", m)
	}
	if list, err := task.StartArmed(h.State); err != nil || len(list) != 0 {
		t.Errorf("poll after a stop: got %v, %v, want nothing", list, err)
	}
	for name, bad := range map[string]events.MonitorSpec{
		"blank": {ID: "x", Command: " \n"}, "id": {Command: "true"}, "dot": {ID: "a.b", Command: "true"}, "long": {ID: events.MonitorID(strings.Repeat("x", 33)), Command: "true"},
	} {
		if _, err := task.RegisterMonitor(h.State, bad); !errors.Is(err, events.ErrInvalid) && !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

// TestMonitorWake: a monitor makes one input until that input is settled.
func TestMonitorWake(t *testing.T) {
	t.Parallel()
	h, c := started(t, spec("m"))
	runtest.Equal(t, "wake", h.report(c, task.Line{Text: "oops", Stderr: true}, task.Line{Text: "a"}, task.Line{Text: "b"}), "monitor-m-2")
	runtest.Equal(t, "wake while one is pending", h.report(c, task.Line{Text: "c"}), "")
	revision := h.Feed.Revision
	h.add(task.AckWakes(h.State, []events.MonitorID{"m"}), nil)
	if h.monitor("m").Wake != "" || h.Feed.Revision != revision+1 {
		t.Errorf("after the ack: got %+v, revision %d, want none pending, one more than %d", h.monitor("m"), h.Feed.Revision, revision)
	}
	runtest.Equal(t, "wake after the ack", h.report(c, task.Line{Text: "d"}), "monitor-m-5")
	if got := h.monitor("m"); got.Events != 4 || got.LastEvent != "d" {
		t.Errorf("monitor: got %+v, want 4 events", got)
	}
}

// TestMonitorWakeOfFork avoids ids of a fork's nodes.
func TestMonitorWakeOfFork(t *testing.T) {
	t.Parallel()
	h, c := started(t, spec("m"))
	h.add([]events.Event{events.Of("", &events.GraphAppended{Nodes: []events.NewNode{
		{ID: projector.InputNode("monitor-m-1"), Kind: events.NodePlugin, Type: "x"},
	}})}, nil)
	runtest.Equal(t, "wake", h.report(c, task.Line{Text: "a"}), "monitor-m-1-2")
}

// TestMonitorEnds: how a monitor and its task end, and which claim may end them.
func TestMonitorEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		end    events.MonitorEnded
		state  events.TaskState
		update string
	}{
		{"exited", events.MonitorEnded{State: events.MonitorExited}, events.TaskCompleted, "exited"},
		{"status", events.MonitorEnded{State: events.MonitorFailed, Exit: 3}, events.TaskFailed, "failed with exit status 3"},
		{"timeout", events.MonitorEnded{State: events.MonitorFailed, Exit: -1, Error: "timed out"}, events.TaskFailed, "failed: timed out"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h, c := started(t, spec("m"))
			h.add(task.EndMonitor(h.State, c, tt.end))
			m := h.monitor("m")
			if m.State != tt.end.State || m.Armed || m.Exit != tt.end.Exit || h.state("monitor-m") != tt.state {
				t.Errorf("got %+v, task %s", m, h.state("monitor-m"))
			}
			runtest.Equal(t, "update", h.Feed.Updates[0].Message, tt.update)
			_, err := task.Report(h.State, c, []task.Line{{Text: "late"}})
			runtest.WantError(t, "line after the end", err, api.ErrTaskTaken)
			if list, _ := task.StartArmed(h.State); len(list) != 0 {
				t.Errorf("poll after the end: got %v, want no restart", list)
			}
		})
	}
}

// TestMonitorStop cancels the pending wake, in every state of a monitor.
func TestMonitorStop(t *testing.T) {
	t.Parallel()
	h, c := started(t, spec("m"))
	h.report(c, task.Line{Text: "a"})
	h.add(task.StopMonitor(h.State, "m"))
	if m := h.monitor("m"); m.State != events.MonitorStopped || m.Wake != "" || len(h.Inputs) != 0 || h.state("monitor-m") != events.TaskCancelled {
		t.Errorf("got %+v, %d inputs, task %s", m, len(h.Inputs), h.state("monitor-m"))
	}
	if list, err := task.StopMonitor(h.State, "m"); err != nil || len(list) != 0 {
		t.Errorf("second stop: got %v, %v, want nothing", list, err)
	}
	_, err := task.StopMonitor(h.State, "nobody")
	runtest.WantError(t, "unknown", err, api.ErrUnknownMonitor)
	h.add(task.StartMonitor(h.State, spec("m")))
	if !h.monitor("m").Armed {
		t.Error("after a start: got disarmed, want armed")
	}
}

// TestMonitorAbandon disarms with the evidence.
func TestMonitorAbandon(t *testing.T) {
	t.Parallel()
	h, c := started(t, spec("m"))
	h.add(task.Abandon(h.State, c, "abandoned: worker w1 is gone"))
	if m := h.monitor("m"); m.State != events.MonitorIdle || m.Armed || m.LastError == "" || h.state("monitor-m") != events.TaskFailed {
		t.Errorf("got %+v, task %s", m, h.state("monitor-m"))
	}
	_, err := task.Abandon(h.State, c, "again")
	runtest.WantError(t, "second", err, api.ErrTaskTaken)
}

// TestUpdatesBounded keeps the newest updates by number and size, and the gap is visible.
func TestUpdatesBounded(t *testing.T) {
	t.Parallel()
	h, c := started(t, spec("m"))
	still := h.cloneOf(h.Clone())
	for range 200 {
		h.report(c, task.Line{Text: "x"})
	}
	if got := h.Feed.Updates; len(got) != projector.KeptUpdates || got[0].Sequence != 73 || h.Feed.Sequence != 200 {
		t.Errorf("updates: got %d from %d to %d", len(got), got[0].Sequence, h.Feed.Sequence)
	}
	large := strings.Repeat("y", events.MaxMonitorLine)
	for range 20 {
		h.report(c, task.Line{Text: large})
	}
	if got := len(h.Feed.Updates); got != projector.KeptUpdateBytes/events.MaxMonitorLine {
		t.Errorf("large updates: got %d", got)
	}
	_, taken := task.TakeUpdates(h.State, math.MaxInt64)
	h.add(taken, nil)
	if _, again := task.TakeUpdates(h.State, math.MaxInt64); len(h.Feed.Updates) != 0 || len(again) != 0 {
		t.Errorf("after taking: got %d", len(h.Feed.Updates))
	}
	if len(still.Feed.Updates) != 0 || still.monitor("m").Events != 0 {
		t.Error("the clone moved")
	}
}

func (h *history) cloneOf(s *projector.State) *history { return &history{h.t, s} }
