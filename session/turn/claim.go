package turn

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

func (m *machine) claim(c Claim) (Output, error) {
	if m.t != nil {
		m.id = m.t.ID
		return m.takeOver(c)
	}
	input, err := m.next()
	if err != nil {
		return Output{}, err
	}
	if len(m.s.Queue) > 0 && m.s.Queue[0].Cancelled {
		m.emit(&events.TurnCompleted{End: events.EndCancelled})
		return m.done()
	}
	if !c.Refused.IsZero() {
		if len(m.s.Queue) == 0 { // the input that starts the turn must not start another one
			m.accept(events.AtStart)
		}
		m.emit(&events.TurnCompleted{End: events.EndFailed, Issue: c.Refused})
		return m.done()
	}
	m.repairLeaf()
	if fact := OfferEvent(&m.s.Catalog, c.Tools); fact != nil {
		m.emitAll(fact.Parts())
	}
	if len(m.s.Queue) == 0 || m.s.Queue[0].Switches == 0 { // a follow-on turn precedes all waiting inputs
		m.accept(events.AtStart)
	}
	start := m.startEvent(c, 1)
	if !input.Continue {
		start.Message = m.free(projector.UserMessage(m.id))
	}
	m.emit(start)
	m.emitAll(c.Extra)
	if !c.Problem.IsZero() {
		m.emit(&events.TurnCompleted{End: events.EndInvalidInput, Issue: c.Problem})
	}
	return m.done()
}

func (m *machine) startEvent(c Claim, attempt int64) *events.TurnStarted {
	return &events.TurnStarted{Attempt: attempt, Worker: c.Worker, Points: c.Points}
}

// next picks the turn to start: the first of the queue, otherwise a turn for a monitor's input.
func (m *machine) next() (events.TurnInput, error) {
	if m.s.Status != projector.StatusOpen {
		return events.TurnInput{}, fmt.Errorf("%w: session is %q", ErrStale, m.s.Status)
	}
	if len(m.s.Queue) > 0 {
		if m.s.Queue[0].Busy == events.BusyBranch {
			return events.TurnInput{}, fmt.Errorf("%w: turn %s goes on in another session", ErrStale, m.s.Queue[0].ID)
		}
		m.id = m.s.Queue[0].ID
		return m.s.Queue[0].Input, nil
	}
	wake := wakeInput(m.s)
	if wake == "" {
		return events.TurnInput{}, fmt.Errorf("%w: nothing is queued", ErrStale)
	}
	m.id = m.wakeTurn(wake)
	input := events.TurnInput{Continue: true}
	m.emit(&events.TurnRequested{Input: input, Callers: m.s.InputCallers(wake)})
	return input, nil
}

// Upcoming is the turn that a claim of a state without a running turn starts, and the sequence of the commit that asked for
// it: 0 for the turn of a monitor's input, and where there is none.
func Upcoming(s *projector.State) (events.TurnID, events.Seq) {
	switch wake := wakeInput(s); {
	case s.Turn() != nil:
		return "", 0
	case len(s.Queue) > 0:
		return s.Queue[0].ID, s.Queue[0].Seq
	case wake != "":
		return (&machine{s: s}).wakeTurn(wake), 0
	}
	return "", 0
}

// wakeTurn is the turn of a monitor's input.
func (m *machine) wakeTurn(input events.InputID) events.TurnID {
	return m.freeTurn("wake-", string(input))
}

// freeTurn derives an unused turn id from a name.
func (m *machine) freeTurn(prefix, name string) events.TurnID {
	id := events.TurnID(prefix + name)
	if events.CheckToken("turn", id) != nil {
		id = events.TurnID(events.DerivedID(prefix, name))
	}
	for n := 2; ; n++ {
		place, err := m.s.FindTurn(id)
		m.errs = errors.Join(m.errs, err)
		if !place.Known() {
			return id
		}
		id = events.TurnID(events.DerivedID(prefix, name, strconv.Itoa(n)))
	}
}

// takeOver continues the turn of a worker that went silent.
func (m *machine) takeOver(c Claim) (Output, error) {
	m.emit(m.startEvent(c, m.t.Attempt+1))
	m.emitAll(c.Extra)
	var lost []int64
	for i := range m.t.Calls {
		if call := &m.t.Calls[i]; call.Called && call.Holder == "" && !call.Done && !call.Pended && !m.isResolved(int64(i)) {
			lost = append(lost, int64(i))
		}
	}
	if len(lost) > 0 {
		m.emit(&events.ToolLost{Iteration: m.t.Iteration, Calls: lost, Message: m.freeResults()})
		if unfinished(m.t)-len(lost) == 0 {
			m.afterWork()
		}
	}
	if m.t.Gated || !slices.Contains(c.Points, events.PointBeforeTool) {
		m.startCalls(m.t.Iteration, m.t.Calls, m.blocked())
	}
	return m.done()
}

// isResolved reports whether the history has a call's result from outside. If the worker died, the result may precede
// the call's pending event.
func (m *machine) isResolved(call int64) bool {
	return m.t.Resolution(ToolEffect(m.id, m.t.Iteration, call)) != nil
}

// blocked are the calls that do not start: they wait for an approval, or it was refused.
func (m *machine) blocked() map[int64]bool {
	list := make(map[int64]bool)
	for i := range m.t.Calls {
		effect := ToolEffect(m.id, m.t.Iteration, int64(i))
		a := m.t.Approval(effect)
		list[int64(i)] = m.t.WaitsForApproval(effect) || a != nil && !a.Answer.Granted
	}
	return list
}

// repairLeaf moves a leaf that names no node to the newest message.
func (m *machine) repairLeaf() {
	leaf, orphaned, err := m.s.Orphaned()
	m.errs = errors.Join(m.errs, err)
	if orphaned {
		m.emit(&events.GraphBranched{Leaf: leaf})
	}
}

// OfferEvent is the catalogue of a worker's tools, or nil if it equals have. It keeps the overrides that hosts set, also
// those of tools that are not offered now. Where there are none the event has the list tools itself, which must not
// change afterwards.
func OfferEvent(have *projector.Catalog, tools []events.ToolEntry) *events.ToolStateApplied {
	if isSame(have.Tools, tools) {
		return nil
	}
	if hasOverride(have.Tools) || hasOverride(tools) {
		tools = mergeOverrides(have.Tools, tools)
	}
	if slices.EqualFunc(have.Tools, tools, events.SameOffer) {
		return nil
	}
	return &events.ToolStateApplied{Generation: have.Generation + 1, Tools: tools}
}

// isSame reports whether two lists are one in memory.
func isSame(a, b []events.ToolEntry) bool { return len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] }

func hasOverride(list []events.ToolEntry) bool {
	for i := range list {
		if list[i].Override != "" {
			return true
		}
	}
	return false
}

// mergeOverrides are the tools with the overrides of an older list, and the entries of it that are not offered now and
// have one.
func mergeOverrides(old, tools []events.ToolEntry) []events.ToolEntry {
	entries := make([]events.ToolEntry, 0, len(tools))
	for i := 0; i < len(tools) || len(old) > 0; {
		switch {
		case i == len(tools) || len(old) > 0 && old[0].Name < tools[i].Name:
			if gone := old[0]; gone.Override != "" {
				gone.Orphan = true
				entries = append(entries, gone)
			}
			old = old[1:]
		default:
			t := tools[i]
			if len(old) > 0 && old[0].Name == t.Name {
				t.Override, old = old[0].Override, old[1:]
			}
			entries = append(entries, t)
			i++
		}
	}
	return entries
}

// accept takes pending inputs at a checkpoint, and the messages of turns with the policy inject. It returns their
// number. The start of a turn takes no messages of other turns.
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
	n := len(ids)
	for i := range m.s.Queue {
		q := &m.s.Queue[i]
		if q.Busy == events.BusyInject && !q.Cancelled && at != events.AtStart && n < MaxAccepted {
			m.emitFor(q.ID, &events.TurnDiverted{End: events.EndInjected, By: m.id, At: at, Message: m.free(projector.UserMessage(q.ID))})
			n++
		}
	}
	return n
}
