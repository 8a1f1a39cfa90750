package turn

import (
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// MaxAccepted is how many injected inputs one checkpoint takes (host specification 3.11).
const MaxAccepted = 64

// ErrStale is an input that does not answer anything that the state owes.
// Whoever brought it refolds; a superseded worker finds out here.
var ErrStale = errors.New("input does not fit the state")

// Input is what happened outside: one of [Claim], [Reply], [Failure], [Results], [Stop].
type Input interface{ input() }

// Claim takes the next turn, or takes over the running one.
type Claim struct {
	Worker  events.WorkerID
	Job     events.TurnID      // the command that the worker holds
	Turn    events.TurnID      // the turn of the command, when it is not in the state yet
	Input   events.TurnInput   // of that turn
	Tools   []events.ToolEntry // what the worker offers, sorted by name
	Problem events.Issue       // why the input cannot be run; zero when it can
}

// Reply is a model's answer to the call owed.
type Reply struct{ events.ModelReplied }

// Failure is a model call that failed for good.
type Failure struct{ events.ModelFailed }

// Results are the calls that finished, ascending.
type Results struct {
	Iteration int64
	Results   []events.ToolResult
}

// Stop ends a turn whose cancel was requested, once its effects have been stopped.
type Stop struct{}

func (Claim) input()   {}
func (Reply) input()   {}
func (Failure) input() {}
func (Results) input() {}
func (Stop) input()    {}

// Output is what follows from an input.
type Output struct {
	Events []events.Event // of one commit
	Linger bool           // the commit may wait a moment for the next one, see the package comment
}

// Step decides. It changes nothing. Errors: [ErrStale], [projector.ErrPartial].
func Step(s *projector.State, in Input) (Output, error) {
	m := &machine{s: s, t: s.Turn()}
	if claim, ok := in.(Claim); ok {
		return m.claim(claim)
	}
	if m.t == nil {
		return Output{}, fmt.Errorf("%w: no turn runs", ErrStale)
	}
	m.id = m.t.ID
	switch in := in.(type) {
	case Reply:
		return m.reply(&in.ModelReplied)
	case Failure:
		return m.failure(&in.ModelFailed)
	case Results:
		return m.results(in)
	case Stop:
		return m.stop()
	}
	return Output{}, fmt.Errorf("%w: unknown input %T", ErrStale, in)
}

type machine struct {
	s    *projector.State
	t    *projector.Turn
	id   events.TurnID
	out  Output
	errs error
}

func (m *machine) emit(p events.Payload) { m.out.Events = append(m.out.Events, events.Of(m.id, p)) }

func (m *machine) done() (Output, error) { return m.out, m.errs }

// free is the override that makes a message id unique; empty when the default is free.
func (m *machine) free(wish events.MessageID) events.MessageID {
	id, err := m.s.FreeID(events.NodeID(wish), nil)
	m.errs = errors.Join(m.errs, err)
	if events.MessageID(id) == wish {
		return ""
	}
	return events.MessageID(id)
}

func (m *machine) reply(r *events.ModelReplied) (Output, error) {
	if m.t.Replied || r.Iteration != m.t.Iteration {
		return Output{}, fmt.Errorf("%w: reply of iteration %d", ErrStale, r.Iteration)
	}
	if len(r.Parts) > 0 {
		r.Message = m.free(projector.ReplyMessage(m.id, r.Iteration))
	}
	m.emit(r)
	calls := callsOf(r.Parts)
	end, issue := m.classify(r, calls)
	switch {
	case m.t.Cancelled: // the cancel came first in the log
		m.closeCalls(r.Iteration, calls)
		m.emit(&events.TurnCompleted{End: events.EndCancelled})
	case end != "" && end != events.EndFinished:
		m.closeCalls(r.Iteration, calls)
		m.emit(&events.TurnCompleted{End: end, Issue: issue})
	case len(calls) > 0:
		m.begin(r.Iteration, calls)
	case m.limitReached(r.Iteration + 1):
		m.emit(&events.TurnCompleted{End: events.EndFinished})
	case m.accept(events.AtBeforeCompletion) == 0:
		m.emit(&events.TurnCompleted{End: events.EndFinished})
	}
	return m.done()
}

func callsOf(parts []events.Part) []projector.Call {
	var calls []projector.Call
	for i := range parts {
		if parts[i].Kind == events.PartToolCall {
			calls = append(calls, projector.Call{ID: parts[i].Call, Tool: parts[i].Tool})
		}
	}
	return calls
}

// classify tells how a reply ends the turn: empty when it does not by itself (host specification 3.4).
func (m *machine) classify(r *events.ModelReplied, calls []projector.Call) (events.TurnEnd, events.Issue) {
	provider := func(code string) (events.TurnEnd, events.Issue) {
		return events.EndProviderError, events.Issue{Kind: "provider", Code: code, Message: r.Detail}
	}
	switch r.Stop {
	case events.StopOutputLimit:
		window := m.s.Config.ContextWindow
		if prompt := r.Usage.Input + r.Usage.CacheRead + r.Usage.CacheWrite; r.Usage.Output == 0 && window > 0 && prompt*100 >= window*95 {
			return provider(string(events.StopContextOverflow))
		}
		return events.EndIncomplete, events.Issue{Kind: "provider", Code: string(r.Stop)}
	case events.StopContextOverflow, events.StopContentFilter, events.StopProviderError:
		return provider(string(r.Stop))
	case events.StopCancelled:
		return events.EndCancelled, events.Issue{}
	case events.StopEnd, events.StopToolUse, events.StopUnknown:
	}
	if len(calls) > 0 {
		return "", events.Issue{}
	}
	if !hasText(r.Parts) && !m.t.AnyResult {
		return provider("empty_response")
	}
	return events.EndFinished, events.Issue{}
}

func hasText(parts []events.Part) bool {
	for i := range parts {
		if parts[i].Kind == events.PartText && (parts[i].Text != "" || !parts[i].Blob.IsZero()) {
			return true
		}
	}
	return false
}

// begin records, before they start, the calls that must not run twice.
func (m *machine) begin(iteration int64, calls []projector.Call) {
	var begun []int64
	for i := range calls {
		if calls[i].Done || calls[i].Begun {
			continue
		}
		if tool, ok := m.tool(calls[i].Tool); ok && !tool.Effects.Repeatable() {
			begun = append(begun, int64(i))
		}
	}
	if len(begun) > 0 {
		m.emit(&events.ToolCalled{Iteration: iteration, Calls: begun})
	}
}

// tool finds a callable tool of the catalogue.
func (m *machine) tool(name string) (*events.ToolEntry, bool) {
	tool, ok := m.s.Catalog.Tool(name)
	return tool, ok && tool.Callable()
}

// CancelledText is what the model reads in place of the result of a cancelled call.
const CancelledText = "[cancelled] The call was cancelled."

// CancelledBegunText is the same for a call that may not run twice and was begun: its fate is unknown.
const CancelledBegunText = "[cancelled] The call was cancelled after it had begun. It may or may not have taken effect."

// closeCalls gives every call without a result a cancelled one.
func (m *machine) closeCalls(iteration int64, calls []projector.Call) {
	results := make([]events.ToolResult, 0, len(calls))
	for i := range calls {
		if calls[i].Done {
			continue
		}
		text := CancelledText
		if calls[i].Begun {
			text = CancelledBegunText
		}
		results = append(results, events.ToolResult{Call: int64(i), Outcome: events.OutcomeCancelled, Text: text})
	}
	if len(results) > 0 {
		m.emit(&events.ToolReturned{Iteration: iteration, Results: results, Message: m.freeResults()})
	}
}

func (m *machine) freeResults() events.MessageID {
	return m.free(projector.ResultMessage(m.id, m.t.Iteration))
}

func (m *machine) failure(f *events.ModelFailed) (Output, error) {
	if m.t.Replied || f.Iteration != m.t.Iteration {
		return Output{}, fmt.Errorf("%w: failure of iteration %d", ErrStale, f.Iteration)
	}
	m.emit(f)
	if m.t.Cancelled { // the cancel came first in the log
		m.emit(&events.TurnCompleted{End: events.EndCancelled})
		return m.done()
	}
	m.emit(&events.TurnCompleted{
		End:   events.EndProviderError,
		Issue: events.Issue{Kind: "provider", Code: either(f.Code, f.Error), Message: f.Message},
	})
	return m.done()
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (m *machine) results(in Results) (Output, error) {
	if !m.t.Replied || in.Iteration != m.t.Iteration {
		return Output{}, fmt.Errorf("%w: results of iteration %d", ErrStale, in.Iteration)
	}
	m.out.Linger = true
	fresh := in.Results[:0:0]
	for _, r := range in.Results {
		if r.Call >= int64(len(m.t.Calls)) || m.t.Calls[r.Call].Done {
			continue
		}
		fresh = append(fresh, r)
		m.out.Linger = m.out.Linger && !m.t.Calls[r.Call].Begun
	}
	if len(fresh) == 0 {
		return Output{}, fmt.Errorf("%w: no result is owed", ErrStale)
	}
	m.emit(&events.ToolReturned{Iteration: in.Iteration, Results: fresh, Message: m.freeResults()})
	if pending(m.t) == len(fresh) && !m.controlled(fresh) {
		m.afterWork()
	}
	return m.done()
}

func pending(t *projector.Turn) int {
	n := 0
	for i := range t.Calls {
		if !t.Calls[i].Done {
			n++
		}
	}
	return n
}

// controlled ends the turn if a successful result asks for it: of all the
// reply's results, now complete, the first that does (host specification 3.4).
func (m *machine) controlled(fresh []events.ToolResult) bool {
	if m.t.Cancelled {
		return false // the cancel came first in the log
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
		end := events.EndToolValue
		if r.Control == events.ControlFail {
			end = events.EndToolError
		}
		m.out.Linger = false
		m.emit(&events.TurnCompleted{End: end, Tool: m.t.Calls[i].Tool, Call: int64(i)})
		return true
	}
	return false
}

// afterWork is the checkpoint between the results and the next model call.
func (m *machine) afterWork() {
	if m.t.Cancelled {
		return // a stop follows
	}
	if m.limitReached(m.t.Iteration + 1) {
		m.out.Linger = false
		notice := projector.NoticeMessage(m.id)
		m.emit(&events.TurnCompleted{End: events.EndMaxTurns, Notice: events.MessageID(either(string(m.free(notice)), string(notice)))})
		return
	}
	m.accept(events.AtAfterWork)
}

func (m *machine) limitReached(next int64) bool {
	limit := m.s.Config.MaxIterations
	return limit > 0 && next >= limit
}

func (m *machine) stop() (Output, error) {
	if !m.t.Cancelled {
		return Output{}, fmt.Errorf("%w: no cancel was requested", ErrStale)
	}
	if m.t.Replied {
		m.closeCalls(m.t.Iteration, m.t.Calls)
	}
	m.emit(&events.TurnCompleted{End: events.EndCancelled})
	return m.done()
}
