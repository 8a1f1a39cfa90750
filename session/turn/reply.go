package turn

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

func (m *machine) reply(in Reply) (Output, error) {
	r := &in.ModelReplied
	if m.t.Replied || r.Iteration != m.t.Iteration {
		return Output{}, fmt.Errorf("%w: reply of iteration %d", ErrStale, r.Iteration)
	}
	if len(r.Parts) > 0 {
		r.Message = m.free(projector.ReplyMessage(m.id, r.Iteration))
	}
	m.emit(r)
	m.emitAll(in.Extra)
	calls := callsOf(r.Parts)
	end, issue := m.classify(r, calls)
	switch {
	case m.t.Cancelled: // the cancel is earlier in the log
		m.closeCalls(r.Iteration, calls)
		m.end(events.TurnCompleted{End: events.EndCancelled})
	case end != "" && end != events.EndFinished:
		m.closeCalls(r.Iteration, calls)
		m.end(events.TurnCompleted{End: end, Issue: issue})
	case len(calls) > 0 && m.t.HasHooks(events.PointBeforeTool):
		m.out.Linger = true // the decisions may join
	case len(calls) > 0:
		m.startCalls(r.Iteration, calls, nil)
	case r.Fault != "" && m.t.Faults > 0:
		m.end(events.TurnCompleted{End: events.EndProviderError, Issue: events.Issue{Kind: "output", Code: "invalid_output", Message: fmt.Sprintf(stillMisformed, r.Fault)}})
	case r.Fault != "":
		m.correct(fmt.Sprintf(misformed, r.Fault), r.Iteration)
	case in.Correct != "":
		m.correct(in.Correct, r.Iteration)
	default:
		m.beforeCompletion(r.Iteration + 1)
	}
	return m.done()
}

// misformed is the text for the model after an answer without the required form.
const misformed = "Your reply is not what was asked for: it %s. Reply again, with nothing but JSON that matches the schema."

// stillMisformed is the reason of a turn whose model did not repair its answer.
const stillMisformed = "the model's reply %s, also after it was asked to repair it"

// completeReply ends a turn with the model's answer.
func (m *machine) completeReply() {
	end := events.EndFinished
	if !m.t.Input.Output.IsZero() {
		end = events.EndSubmitted
	}
	m.end(events.TurnCompleted{End: end})
}

// correct lets the model try again, with a message about its reply.
func (m *machine) correct(text string, iteration int64) {
	if m.limitReached(iteration + 1) {
		m.maxTurns()
		return
	}
	id := m.unique(events.NodeID(fmt.Sprintf("c-%s-%d", m.id, iteration)))
	m.emit(&events.GraphAppended{Nodes: []events.NewNode{{ID: id, Kind: events.NodeMessage, Message: events.Message{
		ID: events.MessageID(id), Role: events.RoleUser, Origin: "protocol",
		Parts: []events.Part{{Kind: events.PartText, Text: text}},
	}}}})
}

// beforeCompletion is the checkpoint between the model's answer and the end of the turn.
func (m *machine) beforeCompletion(next int64) {
	switch {
	case m.t.HasHooks(events.PointCheckpoint):
		m.out.Linger = true
		m.emit(&events.TurnCheckpointed{At: events.AtBeforeCompletion})
	case m.limitReached(next) || m.accept(events.AtBeforeCompletion) == 0:
		m.completeReply()
	}
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

// classify returns how a reply ends the turn; empty if the turn continues.
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
		return events.EndIncomplete, events.Issue{Kind: "provider", Code: string(r.Stop), Message: limitText(m.s.Config.MaxOutputTokens)}
	case events.StopContextOverflow, events.StopContentFilter, events.StopProviderError:
		return provider(string(r.Stop))
	case events.StopCancelled:
		return events.EndCancelled, events.Issue{}
	case events.StopUnknown:
		return provider("unknown_end")
	case events.StopEnd, events.StopToolUse:
	}
	if len(calls) > 0 {
		return "", events.Issue{}
	}
	if !hasText(r.Parts) {
		return provider("empty_response")
	}
	return events.EndFinished, events.Issue{}
}

// limitText is the reason of a turn whose reply its limit cut off.
func limitText(limit int64) string {
	if limit == 0 {
		return "the reply was cut off at the model's or the provider's limit of output tokens: max_output_tokens of the session sets one"
	}
	return fmt.Sprintf("the reply was cut off at %d tokens: max_output_tokens of the session sets the limit", limit)
}

func hasText(parts []events.Part) bool {
	for i := range parts {
		if parts[i].Kind == events.PartText && (strings.TrimSpace(parts[i].Text) != "" || !parts[i].Blob.IsZero()) {
			return true
		}
	}
	return false
}

// interrupted ends a cancelled turn with the partial reply.
func (m *machine) interrupted(p *events.ModelInterrupted) (Output, error) {
	if m.t.Replied || p.Iteration != m.t.Iteration || !m.t.Cancelled || m.t.Checkpoint == events.AtEnd {
		return Output{}, fmt.Errorf("%w: interrupted reply of iteration %d", ErrStale, p.Iteration)
	}
	m.emit(p)
	m.end(events.TurnCompleted{End: events.EndCancelled})
	return m.done()
}

func (m *machine) failure(in *Failure) (Output, error) {
	f := &in.ModelFailed
	if m.t.Replied || f.Iteration != m.t.Iteration {
		return Output{}, fmt.Errorf("%w: failure of iteration %d", ErrStale, f.Iteration)
	}
	if f.Fallback = m.fallback(in); !f.Fallback.IsZero() {
		if in.Cut != nil { // The partial reply comes first: it refers to the prompt that the fallback changes.
			m.emit(in.Cut)
		}
		m.emit(f)
		return m.done()
	}
	m.emit(f)
	if in.Cut != nil {
		m.emit(in.Cut)
	}
	if m.t.Cancelled { // the cancel is earlier in the log
		m.end(events.TurnCompleted{End: events.EndCancelled})
		return m.done()
	}
	m.end(events.TurnCompleted{
		End:   events.EndProviderError,
		Issue: events.Issue{Kind: "provider", Code: cmp.Or(f.Code, f.Error), Message: f.Message},
	})
	return m.done()
}

// fallback is the next model after a failed call. There is none if the request caused the failure, or if the turn is
// cancelled.
func (m *machine) fallback(in *Failure) events.FallbackTo {
	if m.t.Cancelled || !in.Retryable && !in.Unavailable {
		return events.FallbackTo{}
	}
	return m.s.Config.FallbackAfter(m.t.Fallback.Place)
}
