package trace

import (
	"cmp"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// tracer writes the trace records of one commit.
type tracer struct {
	host         session.Worker
	at           events.Millis
	where        api.TraceContext
	turns        int64
	turn         span                     // of the running turn
	calls        []tracedCall             // of the last reply
	started      map[events.EffectID]bool // nested calls whose start is traced
	before       *projector.State
	traceParents map[events.TurnID]events.TraceParent // of turns that the commit requests
}

// span is the time and the attempts of a turn.
type span struct {
	since    events.Millis
	attempts int64
	provider string // of the last reply, or as the session is configured
	used     events.Usage
}

// tracedCall is a call whose start is traced.
type tracedCall struct {
	id   events.CallID
	tool string
	done bool
}

// Commit traces a commit that is in the log. before is the state to which it was appended.
func Commit(to session.Worker, before *projector.State, c *events.Commit) {
	if !to.Traces() {
		return
	}
	t := &tracer{
		host: to, at: c.At, turns: before.Turns, where: api.TraceContextOf(before), started: make(map[events.EffectID]bool),
		before: before, traceParents: make(map[events.TurnID]events.TraceParent), turn: span{provider: before.Config.Provider},
	}
	t.where.Session = c.Session
	if now := before.Turn(); now != nil {
		t.turn = span{now.StartedAt, now.Attempt, before.Config.Provider, now.Usage}
		for i := range now.Calls {
			t.calls = append(t.calls, tracedCall{now.Calls[i].ID, now.Calls[i].Tool, now.Calls[i].Done})
		}
		for i := range now.Nested {
			t.started[now.Nested[i].Effect] = true
		}
	}
	for i := range c.Events {
		t.where.Turn, t.where.Client = c.Events[i].Turn, t.client(c.Events[i].Turn)
		t.event(c.Events[i].Payload)
	}
}

// client is the trace context with which a client requested the turn.
func (t *tracer) client(id events.TurnID) events.TraceParent {
	if now := t.before.Turn(); now != nil && now.ID == id {
		return now.Trace
	}
	for i := range t.before.Queue {
		if q := &t.before.Queue[i]; q.ID == id {
			return q.Trace
		}
	}
	for i := range t.before.Scheduled {
		if q := &t.before.Scheduled[i]; q.ID == id {
			return q.Trace
		}
	}
	return t.traceParents[id]
}

func (t *tracer) event(p events.Payload) {
	switch p := p.(type) {
	case *events.TurnRequested:
		t.traceParents[t.where.Turn] = p.Trace
	case *events.TurnScheduled:
		t.traceParents[t.where.Turn] = p.Trace
	case *events.TurnStarted:
		t.turnStarted(p)
	case *events.TurnCompleted:
		t.turnCompleted(p)
	case *events.ModelReplied:
		t.replied(p)
	case *events.ToolReturned:
		for i := range p.Results {
			t.returned(p.Iteration, &p.Results[i])
		}
	case *events.ToolLost:
		for _, call := range p.Calls {
			t.returned(p.Iteration, &events.ToolResult{Call: call, Outcome: events.OutcomeLost})
		}
	case *events.ToolNestedCalled:
		t.nestedStarted(p.Effect, p.Tool)
	case *events.ToolNestedReturned:
		t.nestedStarted(p.Effect, p.Tool)
		t.emit(t.nestedAt(p.Effect), t.resultEvent(p.Tool, "", &p.Result))
	}
}

func (t *tracer) emit(where api.TraceContext, what api.TraceEvent) { t.host.Trace(t.at, where, what) }

func (t *tracer) turnStarted(p *events.TurnStarted) {
	t.turn.attempts = p.Attempt
	if p.Attempt > 1 {
		return // a takeover
	}
	t.turn.since = t.at
	t.turns++
	t.where.TurnIndex, t.calls = t.turns, nil
	if t.turns == 1 {
		t.emit(api.TraceContext{Session: t.where.Session}, api.TraceEvent{Type: api.TraceSessionStarted})
	}
	t.emit(t.where, api.TraceEvent{Type: api.TraceTurnStarted})
}

func (t *tracer) turnCompleted(p *events.TurnCompleted) {
	for i := range t.calls { // a turn that failed leaves calls without results
		if c := &t.calls[i]; !c.done {
			t.emit(t.where, t.resultEvent(c.tool, c.id, &events.ToolResult{Outcome: events.OutcomeCancelled}))
		}
	}
	e := api.TraceEvent{
		Provider: t.turn.provider, Model: t.before.Config.Model, Usage: api.UsageOf(t.turn.used),
		Type: api.TraceTurnCompleted, Status: "finished", Reason: p.End, Frame: p.Switch.Frame, Kind: p.Issue.Kind, Code: p.Issue.Code,
		Attempts: t.turn.attempts,
	}
	if t.turn.since > 0 { // a turn that was refused never started
		e.Millis = max(int64(t.at-t.turn.since), 0)
	}
	switch {
	case p.End == events.EndFailed:
		e.Status = "failed"
	case p.End.Stopped():
		e.Status = "stopped"
	}
	t.emit(t.where, e)
	t.where.TurnIndex, t.calls, t.turn = 0, nil, span{provider: t.before.Config.Provider}
}

func (t *tracer) replied(p *events.ModelReplied) {
	t.calls = nil
	t.turn.provider, t.turn.used = cmp.Or(p.Provider, t.turn.provider), t.turn.used.Add(p.Usage)
	for i := range p.Parts {
		c := &p.Parts[i]
		if c.Kind != events.PartToolCall {
			continue
		}
		where := t.callAt(p.Iteration, int64(len(t.calls)))
		t.calls = append(t.calls, tracedCall{id: c.Call, tool: c.Tool})
		if c.Tool != plugin.ToolCode {
			t.emit(where, api.TraceEvent{Type: api.TraceToolCallStarted, Tool: c.Tool, CallID: c.Call})
		}
	}
}

func (t *tracer) returned(iteration int64, r *events.ToolResult) {
	if r.Call >= int64(len(t.calls)) {
		return
	}
	c := &t.calls[r.Call]
	c.done = true
	t.emit(t.callAt(iteration, r.Call), t.resultEvent(c.tool, c.id, r))
}

// resultEvent is the record of the end of a call.
func (t *tracer) resultEvent(tool string, id events.CallID, r *events.ToolResult) api.TraceEvent {
	e := api.TraceEvent{
		Type: api.TraceToolCallCompleted, Tool: tool, CallID: id, Outcome: r.Outcome, Class: r.Class, Code: r.Code,
		Attempts: max(r.Attempts, 1), Millis: r.Millis,
	}
	if entry, ok := t.before.Catalog.Tool(tool); ok {
		e.About = entry.Description
	}
	if tool == plugin.ToolCode {
		e.Type, e.Tool = api.TraceProtocolStep, ""
	}
	return e
}

func (t *tracer) nestedStarted(effect events.EffectID, tool string) {
	if !t.started[effect] {
		t.started[effect] = true
		t.emit(t.nestedAt(effect), api.TraceEvent{Type: api.TraceToolCallStarted, Tool: tool})
	}
}

func (t *tracer) nestedAt(effect events.EffectID) api.TraceContext {
	where := t.where
	where.Effect = effect
	if cut := strings.LastIndexByte(string(effect), '/'); cut >= 0 {
		where.Origin = effect[:cut]
	}
	return where
}

func (t *tracer) callAt(iteration, call int64) api.TraceContext {
	where := t.where
	where.Iteration, where.Effect = &iteration, turn.ToolEffect(where.Turn, iteration, call)
	return where
}
