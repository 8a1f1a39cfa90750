package turn

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// end ends the turn, or moves it to the point of its last hooks.
func (m *machine) end(c events.TurnCompleted) {
	if !m.t.HasHooks(events.PointAfterTurn) {
		m.complete(c)
		return
	}
	m.out.Linger = true // the hooks' decisions may join
	m.emit(&events.TurnCheckpointed{At: events.AtEnd, Ending: c})
}

// complete emits the last event of a turn, and the follow-on turn in the same commit.
func (m *machine) complete(c events.TurnCompleted) {
	m.mustFlush = true
	if m.t != nil && m.t.Cancelled && c.End != events.EndFailed {
		c = events.TurnCompleted{End: events.EndCancelled} // the cancel is earlier in the log
	}
	if c.End == events.EndSwitched {
		if issue := m.switchIssue(c.Switch); !issue.IsZero() {
			c = events.TurnCompleted{End: events.EndRuntimeError, Issue: issue}
		}
	}
	if c.End != events.EndSwitched {
		m.emit(&c)
		return
	}
	nodes := c.Switch.Nodes
	c.Switch.Nodes = nil // the opened frame has them
	m.emit(&c)
	m.emit(&events.FrameOpened{Frame: c.Switch.Frame, Reason: "continue_as", Nodes: m.renamed(nodes)})
	root, n := m.root(), m.t.Switches+1
	m.emitFor(m.followOn(root, n), &events.TurnRequested{
		Root: root, Switches: n, Callers: m.t.Callers, Trace: m.t.Trace,
		Input: events.TurnInput{
			Parts:   []events.Part{{Kind: events.PartText, Text: c.Switch.Task}},
			Options: m.t.Input.Options, Extension: m.t.Input.Extension, Generation: m.t.Input.Generation, Output: m.t.Input.Output, Layers: m.t.Input.Layers, // from the host's request
		},
	})
}

// switchIssue is the reason why the turn cannot continue in a frame.
func (m *machine) switchIssue(s events.FrameSwitch) events.Issue {
	if m.t.Switches >= events.MaxSwitches {
		return events.Issue{Kind: "runtime", Code: "agent_frame_switch_limit", Message: fmt.Sprintf("the turn has switched frames %d times", m.t.Switches)}
	}
	for _, f := range m.s.Frames {
		if f.ID == s.Frame {
			return events.Issue{Kind: "runtime", Code: "agent_frame_exists", Message: fmt.Sprintf("frame %q was opened before", s.Frame)}
		}
	}
	return events.Issue{}
}

func (m *machine) root() events.TurnID {
	if m.t.Root != "" {
		return m.t.Root
	}
	return m.id
}

// followOn is the id of the turn after the nth switch: "<root>-frame-<n>", shortened to a token's length.
func (m *machine) followOn(root events.TurnID, n int64) events.TurnID {
	for suffix := "-frame-" + strconv.FormatInt(n, 10); ; suffix += "x" {
		id := string(root) + suffix
		if len(id) > events.MaxTokenBytes {
			id = events.DerivedID("", string(root)) + suffix
		}
		place, err := m.s.FindTurn(events.TurnID(id))
		m.errs = errors.Join(m.errs, err)
		if !place.Known() {
			return events.TurnID(id)
		}
	}
}

// renamed gives nodes unused ids.
func (m *machine) renamed(nodes []events.NewNode) []events.NewNode {
	list := make([]events.NewNode, len(nodes))
	for i, n := range nodes {
		n.ID = m.unique(n.ID)
		list[i] = n
	}
	return list
}

// frameSwitch ends the turn in place of a model call.
func (m *machine) frameSwitch(in Switch) (Output, error) {
	if m.t.Replied || in.Iteration != m.t.Iteration || m.t.Cancelled {
		return Output{}, fmt.Errorf("%w: frame switch of iteration %d", ErrStale, in.Iteration)
	}
	m.end(events.TurnCompleted{End: events.EndSwitched, Switch: in.FrameSwitch})
	return m.done()
}

// broken ends a turn whose pipeline failed. Before the first reply, its nodes leave the path. After it, calls without
// a result are closed.
func (m *machine) broken(in Broken) (Output, error) {
	if in.Iteration != m.t.Iteration {
		return Output{}, fmt.Errorf("%w: failure of iteration %d", ErrStale, in.Iteration)
	}
	if m.t.Replied {
		m.closeCalls(m.t.Iteration, m.t.Calls)
	}
	m.fail(in.Issue)
	return m.done()
}

func (m *machine) fail(issue events.Issue) {
	if m.t.Iteration == 0 && !m.t.Replied {
		m.emit(&events.GraphBranched{Leaf: m.t.Base})
	}
	m.complete(events.TurnCompleted{End: events.EndFailed, Issue: issue})
}

func (m *machine) maxTurns() {
	notice := projector.NoticeMessage(m.id)
	m.end(events.TurnCompleted{End: events.EndMaxTurns, Notice: cmp.Or(m.free(notice), notice)})
}

func (m *machine) limitReached(next int64) bool {
	limit := m.s.Config.MaxIterations
	return limit > 0 && next >= limit
}

func (m *machine) stop() (Output, error) {
	if !m.t.Cancelled || m.t.Checkpoint == events.AtEnd {
		return Output{}, fmt.Errorf("%w: no cancel was requested", ErrStale)
	}
	if m.t.Replied {
		m.closeCalls(m.t.Iteration, m.t.Calls)
	}
	m.end(events.TurnCompleted{End: events.EndCancelled})
	return m.done()
}
