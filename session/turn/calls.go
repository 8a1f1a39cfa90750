package turn

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// startCalls records the start of calls that are not repeatable. skip are calls that do not start now.
func (m *machine) startCalls(iteration int64, calls []projector.Call, skip map[int64]bool) {
	var started []int64
	for i := range calls {
		if calls[i].Done || calls[i].Called || calls[i].Pended || skip[int64(i)] {
			continue
		}
		if tool, ok := m.tool(calls[i].Tool); ok && !tool.Effects.Repeatable() {
			started = append(started, int64(i))
		}
	}
	if len(started) > 0 {
		m.mustFlush = true
		m.emit(&events.ToolCalled{Iteration: iteration, Calls: started})
	}
}

// tool finds a callable tool of the catalogue.
func (m *machine) tool(name string) (*events.ToolEntry, bool) {
	tool, ok := m.s.Catalog.Tool(name)
	return tool, ok && tool.Callable()
}

// MaxCalls limits the tool calls of one reply: the results that end all of them must fit into one event.
const MaxCalls = 1024

// MaxCallsBytes limits the ids and tool names of these calls, plus 116 bytes for each. One message has the results of
// all of them. With bodies in blobs it must fit into one event, for sessions that start with it.
const MaxCallsBytes = events.MaxEventBytes - 8<<10

// Calls returns the number of tool calls in parts, and their bytes for [MaxCallsBytes].
func Calls(parts []events.Part) (n, bytes int) {
	for i := range parts {
		if p := &parts[i]; p.Kind == events.PartToolCall {
			n, bytes = n+1, bytes+resultBytes+len(p.Call)+len(p.Tool)
		}
	}
	return n, bytes
}

// resultBytes is the size of a result in its message without call id and tool name: its kind, its outcome, a
// reference.
const resultBytes = 116

// cancelledText is the model's text for the result of a cancelled call.
const cancelledText = cancelledPrefix + "."

// cancelledPrefix begins the texts of the machine for cancelled calls, in all versions.
const cancelledPrefix = "[cancelled] The call was cancelled"

// CancelledTaskText is the text for a cancelled call that a task ran. It differs from those of the machine.
const CancelledTaskText = "[cancelled] the call was cancelled"

// UnansweredText is the text for a recorded call that the recording has no result of.
const UnansweredText = "[cancelled] The call was never answered."

// IsCancelledText reports whether a text is the machine's, for a cancelled call without a result.
func IsCancelledText(text string) bool { return strings.HasPrefix(text, cancelledPrefix) }

// IsNoResultText reports whether a text stands in place of a result: the call was cancelled, and its tool returned none. The text
// of a tool that returned after the cancel is another.
func IsNoResultText(text string) bool {
	return IsCancelledText(text) || text == CancelledTaskText || text == UnansweredText
}

// cancelledStartedText is the text for a call that is not repeatable and had started: its outcome is unknown.
const cancelledStartedText = cancelledPrefix + " after it had begun. It may or may not have taken effect."

// closeCalls records a cancelled result for every call without a result.
func (m *machine) closeCalls(iteration int64, calls []projector.Call) {
	if results := cancelled(calls, nil); len(results) > 0 {
		m.emit(&events.ToolReturned{Iteration: iteration, Results: results, Message: m.freeResults()})
	}
}

// cancelled are the results for calls that have none, neither recorded nor in have.
func cancelled(calls []projector.Call, have []events.ToolResult) []events.ToolResult {
	results := make([]events.ToolResult, 0, len(calls))
	for i := range calls {
		if calls[i].Done || slices.ContainsFunc(have, func(r events.ToolResult) bool { return r.Call == int64(i) }) {
			continue
		}
		text := cancelledText
		if calls[i].Called {
			text = cancelledStartedText
		}
		results = append(results, events.ToolResult{Call: int64(i), Outcome: events.OutcomeCancelled, Text: text})
	}
	return results
}

func (m *machine) freeResults() events.MessageID {
	return m.free(projector.ResultMessage(m.id, m.t.Iteration))
}

func (m *machine) results(in Results) (Output, error) {
	if !m.t.Replied || in.Iteration != m.t.Iteration {
		return Output{}, fmt.Errorf("%w: results of iteration %d", ErrStale, in.Iteration)
	}
	m.out.Linger = true
	fresh := m.newResults(in.Results)
	if len(fresh) == 0 && len(in.Pending) == 0 {
		return Output{}, fmt.Errorf("%w: no call waits for a result", ErrStale)
	}
	if len(in.Pending) > 0 {
		m.mustFlush = true
		m.emit(&events.ToolPended{Iteration: in.Iteration, Calls: in.Pending})
	}
	m.emitAll(in.Extra)
	if in.Stopped != nil && !m.t.Cancelled {
		m.stopped(fresh, *in.Stopped)
		return m.done()
	}
	m.returned(fresh)
	return m.done()
}

// stopped ends a turn that cannot continue, with the results of its calls.
func (m *machine) stopped(fresh []events.ToolResult, issue events.Issue) {
	m.mustFlush = true
	list := append(cancelled(m.t.Calls, fresh), fresh...)
	slices.SortFunc(list, func(a, b events.ToolResult) int { return int(a.Call - b.Call) })
	m.emit(&events.ToolReturned{Iteration: m.t.Iteration, Results: list, Message: m.freeResults()})
	m.end(events.TurnCompleted{End: events.EndRuntimeError, Issue: issue})
}

// newResults are the results for calls that have none.
func (m *machine) newResults(list []events.ToolResult) []events.ToolResult {
	fresh := list[:0:0]
	for _, r := range list {
		if r.Call >= int64(len(m.t.Calls)) || m.t.Calls[r.Call].Done {
			continue
		}
		fresh = append(fresh, r)
		m.mustFlush = m.mustFlush || m.t.Calls[r.Call].Called
	}
	return fresh
}

// returned records results. After the last of them the turn continues or ends.
func (m *machine) returned(fresh []events.ToolResult) {
	if len(fresh) == 0 {
		return
	}
	m.emit(&events.ToolReturned{Iteration: m.t.Iteration, Results: fresh, Message: m.freeResults()})
	if unfinished(m.t) == len(fresh) && !m.endByControl(fresh) {
		m.afterWork()
	}
}

// unfinished is the number of calls without a result.
func unfinished(t *projector.Turn) int {
	n := 0
	for i := range t.Calls {
		if !t.Calls[i].Done {
			n++
		}
	}
	return n
}

// endByControl ends the turn if one of the reply's results has a control: the first successful one with a control, in
// call order.
func (m *machine) endByControl(fresh []events.ToolResult) bool {
	if m.t.Cancelled {
		return false // the cancel is earlier in the log
	}
	results := make([]events.ToolResult, len(m.t.Calls))
	for i := range m.t.Calls {
		results[i] = m.t.Calls[i].Result
	}
	for _, r := range fresh {
		results[r.Call] = r
	}
	for i, r := range results {
		if r.Outcome != events.OutcomeSuccess || r.Control == events.ControlNone {
			continue
		}
		m.end(events.TurnCompleted{End: endOf(r.Control), Tool: m.t.Calls[i].Tool, Call: int64(i), Switch: r.Switch})
		return true
	}
	return false
}

func endOf(c events.Control) events.TurnEnd {
	switch c {
	case events.ControlFail:
		return events.EndToolError
	case events.ControlSubmit:
		return events.EndSubmitted
	case events.ControlSwitch:
		return events.EndSwitched
	case events.ControlNone, events.ControlFinish:
	}
	return events.EndToolValue
}

// afterWork is the checkpoint between the results and the next model call.
func (m *machine) afterWork() {
	switch {
	case m.t.Cancelled: // a stop follows
	case m.limitReached(m.t.Iteration + 1):
		m.maxTurns()
	case m.t.HasHooks(events.PointCheckpoint):
		m.emit(&events.TurnCheckpointed{At: events.AtAfterWork})
	default:
		m.accept(events.AtAfterWork)
	}
}

// applyAnswer records the answer to an approval request. A granted call then runs; a refused one gets a result that says
// so.
func (m *machine) applyAnswer(in Answer) (Output, error) {
	a := m.t.Approval(in.Effect)
	if a == nil || a.Answered || m.t.Cancelled { // the cancel is earlier in the log
		return Output{}, fmt.Errorf("%w: no approval of %s was requested", ErrStale, in.Effect)
	}
	m.emit(&in.ToolApprovalGiven)
	return m.done()
}

// startCallsNow records the start of the calls that are not repeatable and can run now.
func (m *machine) startCallsNow() (Output, error) {
	if len(Next(m.s).Calls) == 0 {
		return Output{}, fmt.Errorf("%w: no call starts", ErrStale)
	}
	m.startCalls(m.t.Iteration, m.t.Calls, m.blocked())
	return m.done()
}

// NeedsStartCalls reports whether the state needs a call that is not repeatable and has no recorded start: [StartCalls]
// must precede it.
func NeedsStartCalls(s *projector.State) bool {
	out, err := Step(s, StartCalls{})
	return err == nil && len(out.Events) > 0
}

func (m *machine) resolved(in Resolved) (Output, error) {
	if m.t.Resolution(in.Effect) != nil || m.t.Cancelled {
		return Output{}, fmt.Errorf("%w: %s was resolved before, or its turn cancelled", ErrStale, in.Effect)
	}
	m.emit(&in.ToolResolved)
	return m.done()
}

// ToolCalls yields the tool calls of a reply with their index among the calls, which is part of their effect ids.
func ToolCalls(parts []events.Part) iter.Seq2[int64, *events.Part] {
	return func(yield func(int64, *events.Part) bool) {
		index := int64(0)
		for i := range parts {
			if parts[i].Kind != events.PartToolCall {
				continue
			}
			if !yield(index, &parts[i]) {
				return
			}
			index++
		}
	}
}
