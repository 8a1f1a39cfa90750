package turn

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

func (m *machine) claim(c Claim) (Output, error) {
	if m.t != nil {
		m.id = m.t.ID
		return m.takeOver(c)
	}
	input, err := m.next(c)
	if err != nil {
		return Output{}, err
	}
	if len(m.s.Queue) > 0 && m.s.Queue[0].Cancelled {
		m.emit(&events.TurnCompleted{End: events.EndCancelled})
		return m.done()
	}
	m.heal()
	m.offer(c.Tools)
	m.accept(events.AtStart)
	start := m.started(c, 1)
	if !input.Continue {
		start.Message = m.free(projector.UserMessage(m.id))
	}
	m.emit(start)
	if !c.Problem.IsZero() {
		m.emit(&events.TurnCompleted{End: events.EndInvalidInput, Issue: c.Problem})
	}
	return m.done()
}

func (m *machine) started(c Claim, attempt int64) *events.TurnStarted {
	start := &events.TurnStarted{Attempt: attempt, Worker: c.Worker}
	if c.Job != m.id {
		start.Job = c.Job
	}
	return start
}

// next picks the turn to start: the first of the queue, else the command's own.
func (m *machine) next(c Claim) (events.TurnInput, error) {
	if m.s.Status != projector.StatusOpen {
		return events.TurnInput{}, fmt.Errorf("%w: session is %q", ErrStale, m.s.Status)
	}
	if len(m.s.Queue) > 0 {
		m.id = m.s.Queue[0].ID
		return m.s.Queue[0].Input, nil
	}
	if c.Turn == "" {
		return events.TurnInput{}, fmt.Errorf("%w: nothing is queued", ErrStale)
	}
	m.id = c.Turn
	m.emit(&events.TurnRequested{Input: c.Input})
	return c.Input, nil
}

// takeOver goes on where a worker that went quiet left off.
func (m *machine) takeOver(c Claim) (Output, error) {
	m.emit(m.started(c, m.t.Attempt+1))
	var lost []int64
	for i := range m.t.Calls {
		if m.t.Calls[i].Begun && !m.t.Calls[i].Done {
			lost = append(lost, int64(i))
		}
	}
	if len(lost) > 0 {
		m.emit(&events.ToolLost{Iteration: m.t.Iteration, Calls: lost, Message: m.freeResults()})
		if pending(m.t)-len(lost) == 0 {
			m.afterWork()
		}
	}
	m.begin(m.t.Iteration, m.t.Calls)
	return m.done()
}

// heal moves a leaf that names no node to the newest message (host specification 1.3).
func (m *machine) heal() {
	leaf, orphaned, err := m.s.Orphaned()
	m.errs = errors.Join(m.errs, err)
	if orphaned {
		m.emit(&events.GraphBranched{Leaf: leaf})
	}
}

// offer records the worker's tools where they differ from the catalogue. Availability set by hosts stays.
func (m *machine) offer(tools []events.ToolEntry) {
	have := &m.s.Catalog
	if sameTools(have.Tools, tools) {
		return
	}
	entries := make([]events.ToolEntry, len(tools))
	for i, t := range tools {
		if old, ok := have.Tool(t.Name); ok {
			t.Availability = old.Availability
		}
		entries[i] = t
	}
	m.emit(&events.ToolStateApplied{Generation: have.Generation + 1, Tools: entries})
}

func sameTools(a, b []events.ToolEntry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Name != y.Name || x.Description != y.Description || string(x.Schema) != string(y.Schema) ||
			x.Effects != y.Effects || x.Source != y.Source {
			return false
		}
	}
	return true
}

// accept admits pending inputs at a checkpoint and reports how many.
func (m *machine) accept(at events.CheckpointKind) int {
	var ids []events.InputID
	for _, in := range m.s.Inputs {
		if len(ids) == MaxAccepted {
			break
		}
		if at != events.AtAfterWork || in.Boundary == events.BoundaryAfterWork {
			ids = append(ids, in.ID)
		}
	}
	if len(ids) > 0 {
		m.emit(&events.InputAccepted{Inputs: ids, At: at})
	}
	return len(ids)
}
