package projector

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Limits of monitor data in the state. Dropped updates show as gaps in the sequences.
const (
	KeptUpdates     = 128       // number of updates that no host has taken
	KeptUpdateBytes = 512 << 10 // their messages together
	keptEventBytes  = 1 << 10   // length of Monitor.LastEvent
)

// Monitor is one of the session's monitors. Clones share the list of monitors: the fold replaces it and never changes
// it.
type Monitor struct {
	Spec      events.MonitorSpec  `msgpack:"s"`
	Armed     bool                `msgpack:"a,omitempty"` // must run, or runs
	State     events.MonitorState `msgpack:"t,omitempty"`
	Worker    events.WorkerID     `msgpack:"w,omitempty"` // current or last worker
	LastEvent string              `msgpack:"v,omitempty"` // beginning of the last line on standard output
	LastError string              `msgpack:"e,omitempty"`
	Exited    bool                `msgpack:"x,omitempty"` // Exit is set
	Exit      int64               `msgpack:"c,omitempty"` // exit status of the last run; -1 after a signal
	Events    int64               `msgpack:"n,omitempty"` // total number of lines on standard output
	Wake      events.InputID      `msgpack:"i,omitempty"` // pending input of a line; until it is settled, other lines make no input
}

// MonitorFeed has the updates of all monitors that no host has taken.
type MonitorFeed struct {
	Revision int64           `msgpack:"r,omitempty"` // number of changes, without takes
	Sequence int64           `msgpack:"q,omitempty"` // sequence of the newest update
	Updates  []MonitorUpdate `msgpack:"u,omitempty"` // with rising sequences
}

// IsZero reports whether the session never had a monitor.
func (f MonitorFeed) IsZero() bool { return f.Revision == 0 }

// MonitorUpdate is a line of a monitor, or a change of its state. It never changes.
type MonitorUpdate struct {
	Sequence int64            `msgpack:"q"`
	Monitor  events.MonitorID `msgpack:"m"`
	Message  string           `msgpack:"x"`
	Stderr   bool             `msgpack:"e,omitempty"`
	Wake     events.InputID   `msgpack:"w,omitempty"` // the input that the line made
}

// Monitor finds a monitor by id. The caller must not change it.
func (s *State) Monitor(id events.MonitorID) (*Monitor, bool) {
	i, ok := s.monitorAt(id)
	if !ok {
		return nil, false
	}
	return &s.Monitors[i], true
}

func (s *State) monitorAt(id events.MonitorID) (int, bool) {
	return slices.BinarySearchFunc(s.Monitors, id, func(m Monitor, id events.MonitorID) int { return strings.Compare(string(m.Spec.ID), string(id)) })
}

// changeMonitor changes a monitor in a new list and counts the change. It returns false for an unknown monitor.
func (s *State) changeMonitor(id events.MonitorID, change func(*Monitor)) bool {
	i, ok := s.monitorAt(id)
	if !ok {
		return false
	}
	s.Monitors = slices.Clone(s.Monitors)
	change(&s.Monitors[i])
	s.Feed.Revision++
	return true
}

func (s *State) applyMonitorRegistered(p *events.MonitorRegistered) {
	begins := p.Spec.ArmOn == events.ArmSessionStart
	i, ok := s.monitorAt(p.Spec.ID)
	if !ok {
		s.Monitors = slices.Insert(slices.Clone(s.Monitors), i, Monitor{Spec: p.Spec, Armed: begins})
		s.Feed.Revision++
		return
	}
	s.changeMonitor(p.Spec.ID, func(m *Monitor) {
		m.Spec = p.Spec
		untouched := m.State == events.MonitorIdle && m.Worker == ""
		m.Armed = m.Armed || begins && untouched // a monitor that ran or was stopped is not armed again
	})
}

func (s *State) applyMonitorArmed(p *events.MonitorArmed) {
	s.changeMonitor(p.Monitor, func(m *Monitor) {
		m.Armed, m.State, m.LastError, m.Exited, m.Exit = true, events.MonitorIdle, "", false, 0
	})
}

func (s *State) applyMonitorStarted(p *events.MonitorStarted) {
	s.changeMonitor(p.Monitor, func(m *Monitor) {
		if m.Armed {
			m.State, m.Worker, m.LastError, m.Exited, m.Exit = events.MonitorRunning, p.Worker, "", false, 0
		}
	})
}

func (s *State) applyMonitorReported(p *events.MonitorReported) {
	for i := range p.Lines {
		l := &p.Lines[i]
		if l.Sequence <= s.Feed.Sequence {
			continue
		}
		known := s.changeMonitor(p.Monitor, func(m *Monitor) {
			if !l.Stderr {
				m.Events++
				m.LastEvent = beginning(l.Text, keptEventBytes)
			}
			if l.Wake != "" && s.pendingInput(l.Wake) {
				m.Wake = l.Wake
			}
		})
		if !known {
			return
		}
		s.Feed.Sequence = l.Sequence
		s.addUpdate(MonitorUpdate{Sequence: l.Sequence, Monitor: p.Monitor, Message: l.Text, Stderr: l.Stderr, Wake: l.Wake})
	}
}

func (s *State) applyMonitorEnded(p *events.MonitorEnded) {
	known := s.changeMonitor(p.Monitor, func(m *Monitor) {
		m.Armed, m.State, m.LastError = false, p.State, p.Error
		m.Exited = p.State == events.MonitorExited || p.State == events.MonitorFailed && p.Error == ""
		m.Exit = p.Exit
	})
	if known {
		s.Feed.Sequence++
		s.addUpdate(MonitorUpdate{Sequence: s.Feed.Sequence, Monitor: p.Monitor, Message: endMessage(p)})
	}
}

// endMessage is the update's text for a monitor's end.
func endMessage(p *events.MonitorEnded) string {
	switch {
	case p.State == events.MonitorIdle:
		return "disarmed: " + p.Error
	case p.Error != "":
		return string(p.State) + ": " + p.Error
	case p.State == events.MonitorFailed:
		return fmt.Sprintf("failed with exit status %d", p.Exit)
	}
	return string(p.State)
}

// addUpdate appends in place, after the elements that clones see, and drops the oldest updates beyond the limits.
func (s *State) addUpdate(u MonitorUpdate) {
	list := append(s.Feed.Updates, u)
	size := 0
	for i := range list {
		size += len(list[i].Message)
	}
	drop := 0
	for len(list)-drop > KeptUpdates || size > KeptUpdateBytes {
		size -= len(list[drop].Message)
		drop++
	}
	s.Feed.Updates = list[drop:]
}

func (s *State) applyUpdatesTaken(p *events.MonitorUpdatesTaken) {
	i := 0
	for i < len(s.Feed.Updates) && s.Feed.Updates[i].Sequence <= p.Upto {
		i++
	}
	s.Feed.Updates = s.Feed.Updates[i:]
	if len(s.Feed.Updates) == 0 {
		s.Feed.Updates = nil
	}
}

// wakeSettled clears a wake whose input was accepted or cancelled.
func (s *State) wakeSettled(id events.InputID) {
	for i := range s.Monitors {
		if s.Monitors[i].Wake == id {
			s.changeMonitor(s.Monitors[i].Spec.ID, func(m *Monitor) { m.Wake = "" })
			return
		}
	}
}

func (s *State) pendingInput(id events.InputID) bool {
	return slices.ContainsFunc(s.Inputs, func(in Input) bool { return in.ID == id })
}

// beginning returns at most n bytes of text, cut at a character.
func beginning(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "")
}

// checkMonitors checks that monitors are sorted and unique, wakes are pending inputs, and update sequences rise.
func (s *State) checkMonitors() []error {
	var errs []error
	for i := range s.Monitors {
		m := &s.Monitors[i]
		if i > 0 && s.Monitors[i-1].Spec.ID >= m.Spec.ID {
			errs = append(errs, fmt.Errorf("monitor %s is out of order or occurs twice", m.Spec.ID))
		}
		if m.Wake != "" && !s.pendingInput(m.Wake) {
			errs = append(errs, fmt.Errorf("monitor %s waits for input %s, which is not pending", m.Spec.ID, m.Wake))
		}
	}
	for i := range s.Feed.Updates {
		if q := s.Feed.Updates[i].Sequence; q > s.Feed.Sequence || i > 0 && s.Feed.Updates[i-1].Sequence >= q {
			errs = append(errs, fmt.Errorf("monitor update %d is out of order", q))
		}
	}
	if len(s.Feed.Updates) > KeptUpdates {
		errs = append(errs, fmt.Errorf("%d monitor updates are kept, want at most %d", len(s.Feed.Updates), KeptUpdates))
	}
	return errs
}
