package watch

import (
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/convert"
	"github.com/lash-go/lash/session/turn"
)

// eventStream computes the session events of one turn from observations. It is pure: the same observations give the
// same events.
//
// The text_delta events of a reply, from the last model_attempt_reset on, add up to its text when its llm_response
// comes, also where deltas were lost. A model_attempt_reset retracts the text of a reply that is never recorded.
// error comes before turn_outcome, which comes once, directly before done. At a checkpoint the inputs of hosts come
// first, then the plugins' events, then their messages.
type eventStream struct {
	turn          events.TurnID
	s             *projector.State   // as of the last commit
	seq           events.Seq         // of the last commit, or of the commit in progress
	out           []api.SessionEvent // of this observation
	pending       []api.Delta        // of a reply whose model call is not yet in the commits
	requested     modelCall          // the newest llm_request
	at            int64              // iteration of the newest model call
	shown         shownReply
	cause         convert.TurnError
	text          string            // of the last reply
	outputs       map[int64]string  // outputs of its calls, by position
	told          []api.PluginEvent // shown before the reply was recorded, and not yet found in its record
	early         bool              // the events of the accepted inputs later in this commit were emitted
	injectedTurns int               // likewise: the number of diverted turns whose message this turn consumed
	done          bool
}

// modelCall identifies a model call.
type modelCall struct {
	known              bool
	attempt, iteration int64 // of the turn
}

// shownReply is the part of the reply in progress that events have shown.
type shownReply struct {
	try             try
	next            int64 // N of the next delta
	cut             bool  // a delta was lost: the rest comes with the commit
	text, reasoning string
	plugins         []api.PluginEvent // the first ones of the record that follows the reply
}

// newEventStream starts before the turn: s is the state before the first observed commit. The stream owns s.
func newEventStream(turn events.TurnID, s *projector.State) *eventStream {
	return &eventStream{turn: turn, s: s, seq: s.Seq, outputs: make(map[int64]string)}
}

// Done reports whether the turn has ended and no event follows.
func (e *eventStream) Done() bool { return e.done }

// Next returns the events of one observation, in order; often none. Errors: [projector.ErrOutOfOrder], and
// [projector.ErrPartial] where the first state is.
func (e *eventStream) Next(o api.Observed) ([]api.SessionEvent, error) {
	e.out = nil
	switch {
	case e.done:
	case o.Commit != nil:
		if err := e.commit(o); err != nil {
			return nil, err
		}
	case o.Delta != nil && o.Delta.Turn == e.turn:
		e.delta(o.Delta)
	}
	return e.out, nil
}

func (e *eventStream) commit(o api.Observed) error {
	if o.Seq != e.s.Seq+1 {
		return fmt.Errorf("commit %d after %d: %w", o.Seq, e.s.Seq, projector.ErrOutOfOrder)
	}
	e.seq = o.Seq
	for i := range o.Commit.Events {
		ev := &o.Commit.Events[i]
		switch p := ev.Payload.(type) {
		case *events.HookRan:
			if ev.Turn == e.turn && !e.done {
				e.hooks(p, o.Commit.Events[i+1:])
			}
		case *events.UsageCharged:
			e.charged(p)
		case *events.TurnDiverted:
			e.diverted(ev.Turn, p)
		default:
			if ev.Turn == e.turn && !e.done {
				if err := e.event(p); err != nil {
					return err
				}
			}
		}
		e.s.ApplyUncommitted(ev, o.Commit.At)
	}
	e.s.CommittedUnproven()
	if e.done {
		return nil
	}
	ahead := e.pending
	e.pending = nil
	err := e.request()
	for i := range ahead {
		e.delta(&ahead[i])
	}
	return err
}

// running is the running turn before the current event; nil where it does not run.
func (e *eventStream) running() *projector.Turn {
	if t := e.s.Turn(); t != nil && t.ID == e.turn {
		return t
	}
	return nil
}

func (e *eventStream) emit(ev api.SessionEvent) *api.SessionEvent {
	ev.Turn, ev.Seq, ev.Iteration = e.turn, e.seq, e.at
	e.out = append(e.out, ev)
	return &e.out[len(e.out)-1]
}

// event emits the session events of the turn's next event, before the fold of that event.
func (e *eventStream) event(p events.Payload) error {
	e.cause.Add(p)
	switch p := p.(type) {
	case *events.TurnStarted:
		e.retract() // the new worker repeats the call
		e.shown = shownReply{}
	case *events.InputAccepted:
		if !e.early {
			e.accepted(p)
		}
		e.early = false
	case *events.ModelFailed:
		if err := e.request(); err != nil || p.Fallback.IsZero() {
			return err
		}
		e.retract() // the next call goes to another model
		e.shown, e.requested = shownReply{try: e.shown.try.last()}, modelCall{}
	case *events.ModelReplied:
		if err := e.request(); err != nil { // the call may follow from events of the same commit
			return err
		}
		e.replied(p)
	case *events.ToolApprovalAsked:
		e.approvalAsked(p)
	case *events.ToolApprovalGiven:
		e.approvalGiven(p)
	case *events.ToolReturned:
		for i := range p.Results {
			e.result(p.Iteration, p.Results[i])
		}
	case *events.ToolLost:
		for _, c := range p.Calls {
			e.result(p.Iteration, events.ToolResult{Call: c, Outcome: events.OutcomeLost, Text: projector.LostText})
		}
	case *events.TurnCompleted:
		e.completed(p)
	}
	return nil
}

func (e *eventStream) accepted(p *events.InputAccepted) {
	e.emit(api.SessionEvent{Type: api.EventInputAccepted, Inputs: e.inputs(p.Inputs), Checkpoint: p.At})
}

// hooks emits the events of hooks and, at a checkpoint, of the inputs and messages that the turn consumes there. rest
// are the later events of the same commit.
func (e *eventStream) hooks(p *events.HookRan, rest []events.Event) {
	if p.Point != events.PointCheckpoint {
		e.plugins(p)
		return
	}
	var added []api.InputMessage
	for i := range rest {
		if p, ok := rest[i].Payload.(*events.TurnDiverted); ok && p.By == e.turn {
			e.tookIn(rest[i].Turn, p)
			e.injectedTurns++
		}
		if rest[i].Turn != e.turn {
			continue
		}
		switch q := rest[i].Payload.(type) {
		case *events.GraphAppended:
			for j := range q.Nodes {
				m := &q.Nodes[j].Message
				added = append(added, convert.InputMessage(m.Role, m.Parts))
			}
			continue
		case *events.InputAccepted:
			e.accepted(q)
			e.early = true
		case *events.PluginStateSaved, *events.ToolStateApplied:
			continue
		}
		break
	}
	e.plugins(p)
	if len(added) > 0 {
		e.emit(api.SessionEvent{Type: api.EventMessagesAdded, Messages: added, Checkpoint: p.At})
	}
}

func (e *eventStream) plugins(p *events.HookRan) {
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Kind == events.DirectiveEmitEvents {
			for _, shown := range convert.Emitted(d) {
				if p.Point == events.PointReply && len(e.told) > 0 && len(shown) <= api.MaxEventBytes { // the record begins with them, and larger ones
					e.told = e.told[1:]
					continue
				}
				e.emit(api.SessionEvent{Type: api.EventPlugin, Plugin: d.Plugin, Event: shown})
			}
		}
	}
}

// charged emits the usage of a child session since its last charge, while the turn runs.
func (e *eventStream) charged(p *events.UsageCharged) {
	if e.running() == nil {
		return
	}
	var old projector.ChildUsage
	for _, c := range e.s.Children {
		if c.Session == p.Child {
			old = c
		}
	}
	used, err := projector.UsageSince(convert.Ledger(old), convert.Ledger(convert.Child(p)))
	if err != nil || old.At >= p.At {
		return // the fold ignores it too: a ledger never decreases
	}
	for i := range used {
		usage, sum := convert.Usage(used[i].Usage), api.TokenUsage{}
		for _, all := range p.Entries {
			if all.Model == used[i].Model {
				sum = convert.Usage(all.Usage)
			}
		}
		e.emit(api.SessionEvent{Type: api.EventChildTokenUsage, Session: p.Child, Source: p.Source, Model: used[i].Model, Usage: &usage, Cumulative: &sum})
	}
}

func (e *eventStream) inputs(ids []events.InputID) []api.AcceptedInput {
	var list []api.AcceptedInput
	for _, id := range ids {
		for _, in := range e.s.Inputs {
			if in.ID != id {
				continue
			}
			list = append(list, api.AcceptedInput{ID: id, Message: convert.InputMessage(in.Role, in.Parts)})
		}
	}
	return list
}

func (e *eventStream) replied(p *events.ModelReplied) {
	t := e.running()
	if t == nil || t.Replied || p.Iteration != t.Iteration {
		return // the fold ignores it too
	}
	e.at, e.text = p.Iteration, convert.Text(p.Parts, events.PartText)
	e.outputs = make(map[int64]string)
	e.complete(convert.Text(p.Parts, events.PartReasoning))
	e.emit(api.SessionEvent{Type: api.EventLLMResponse, Content: e.text, DurationMillis: p.Millis})
	if cost := p.Cost(); !cost.IsZero() {
		usage, sum := convert.Usage(cost), convert.Usage(t.Usage.Add(cost))
		e.emit(api.SessionEvent{Type: api.EventTokenUsage, Usage: &usage, Cumulative: &sum})
	}
	for index, c := range turn.ToolCalls(p.Parts) {
		call := turn.ToolEffect(e.turn, p.Iteration, index)
		e.emit(api.SessionEvent{Type: api.EventToolCallStart, Call: call, CallID: c.Call, Name: c.Tool, Args: convert.Args(c.Args)})
	}
}

// complete emits the part of the reply that the deltas did not show.
func (e *eventStream) complete(reasoning string) {
	if !strings.HasPrefix(e.text, e.shown.text) {
		e.retract()
	}
	if rest, ok := strings.CutPrefix(reasoning, e.shown.reasoning); ok && rest != "" {
		e.emit(api.SessionEvent{Type: api.EventReasoningDelta, Content: rest})
	}
	if rest := e.text[len(e.shown.text):]; rest != "" {
		e.emit(api.SessionEvent{Type: api.EventTextDelta, Content: rest})
	}
	e.told, e.shown = e.shown.plugins, shownReply{}
}

func (e *eventStream) result(iteration int64, r events.ToolResult) {
	t := e.running()
	if t == nil || !t.Replied || iteration != t.Iteration || r.Call >= int64(len(t.Calls)) || t.Calls[r.Call].Done {
		return // the fold ignores it too
	}
	c := &t.Calls[r.Call]
	output := blob.Output(&r)
	e.outputs[r.Call] = output
	e.emit(api.SessionEvent{
		Type: api.EventToolCall, Call: turn.ToolEffect(e.turn, iteration, r.Call), CallID: c.ID, Name: c.Tool, Args: convert.Args(c.Args),
		Output: output, Outcome: r.Outcome, DurationMillis: r.Millis,
	})
}

func (e *eventStream) completed(p *events.TurnCompleted) {
	e.retract()
	if !p.Issue.IsZero() {
		envelope := e.cause.Envelope(p.Issue)
		e.emit(api.SessionEvent{Type: api.EventError, Message: envelope.UserMessage, Envelope: &envelope})
	}
	outcome := convert.Outcome(p, e.text, e.outputs[p.Call])
	e.emit(api.SessionEvent{Type: api.EventTurnOutcome, TurnOutcome: &outcome})
	e.emit(api.SessionEvent{Type: api.EventDone})
	e.done = true
}

// diverted ends the turn itself, or emits the message of a turn that was injected into this one.
func (e *eventStream) diverted(id events.TurnID, p *events.TurnDiverted) {
	switch {
	case e.done:
	case id == e.turn:
		outcome := convert.Diverted(p)
		e.emit(api.SessionEvent{Type: api.EventTurnOutcome, TurnOutcome: &outcome})
		e.emit(api.SessionEvent{Type: api.EventDone})
		e.done = true
	case e.injectedTurns > 0:
		e.injectedTurns--
	case p.By == e.turn:
		e.tookIn(id, p)
	}
}

// tookIn emits the message of another turn as an injected input with that turn's id.
func (e *eventStream) tookIn(id events.TurnID, p *events.TurnDiverted) {
	for i := range e.s.Queue {
		if q := &e.s.Queue[i]; p.End == events.EndInjected && q.ID == id {
			in := api.AcceptedInput{ID: events.InputID(id), Message: convert.InputMessage(events.RoleUser, q.Input.Parts)}
			e.emit(api.SessionEvent{Type: api.EventInputAccepted, Inputs: []api.AcceptedInput{in}, Checkpoint: p.At})
		}
	}
}
