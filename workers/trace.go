package workers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
)

// tracer tells what a commit says. Turns and tool calls are traced from what
// has landed, so that each is told once, however often nodes die over it and
// whatever runs again. What lands and is not told, as its node died between the
// two, stays in the history alone.
type tracer struct {
	w     *Worker
	at    events.Millis
	where api.TraceContext
	turns int64
	turn  span         // that runs
	calls []tracedCall // of the reply whose calls run
	begun map[events.EffectID]bool
}

// span is how long a turn runs, and under how many claims.
type span struct {
	since    events.Millis
	attempts int64
}

// tracedCall is a call that was told to have started.
type tracedCall struct {
	id   events.CallID
	tool string
	done bool
}

// traceCommit tells of a commit that has landed on the state before.
func (w *Worker) traceCommit(before *projector.State, c *events.Commit) {
	if !w.host.Traces() {
		return
	}
	t := &tracer{w: w, at: c.At, turns: before.Turns, where: api.TraceContext{Session: c.Session}, begun: make(map[events.EffectID]bool)}
	if now := before.Turn(); now != nil {
		t.where.TurnIndex, t.turn = now.Index, span{now.StartedAt, now.Attempt}
		for i := range now.Calls {
			t.calls = append(t.calls, tracedCall{now.Calls[i].ID, now.Calls[i].Tool, now.Calls[i].Done})
		}
		for i := range now.Nested {
			t.begun[now.Nested[i].Effect] = true
		}
	}
	for i := range c.Events {
		t.where.Turn = c.Events[i].Turn
		t.event(c.Events[i].Payload)
	}
}

func (t *tracer) event(p events.Payload) {
	switch p := p.(type) {
	case *events.TurnStarted:
		t.started(p)
	case *events.TurnCompleted:
		t.completed(p)
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
		t.tell(t.nestedAt(p.Effect), resultEvent(p.Tool, "", &p.Result))
	}
}

func (t *tracer) tell(where api.TraceContext, what api.TraceEvent) { t.w.host.Trace(t.at, where, what) }

func (t *tracer) started(p *events.TurnStarted) {
	t.turn.attempts = p.Attempt
	if p.Attempt > 1 {
		return // taken over
	}
	t.turn.since = t.at
	t.turns++
	t.where.TurnIndex, t.calls = t.turns, nil
	if t.turns == 1 {
		t.tell(api.TraceContext{Session: t.where.Session}, api.TraceEvent{Type: api.TraceSessionStarted})
	}
	t.tell(t.where, api.TraceEvent{Type: api.TraceTurnStarted})
}

func (t *tracer) completed(p *events.TurnCompleted) {
	for i := range t.calls { // a pipeline that failed leaves calls without results
		if c := &t.calls[i]; !c.done {
			t.tell(t.where, resultEvent(c.tool, c.id, &events.ToolResult{Outcome: events.OutcomeCancelled}))
		}
	}
	e := api.TraceEvent{
		Type: api.TraceTurnCompleted, Status: "finished", Reason: p.End, Frame: p.Switch.Frame, Kind: p.Issue.Kind, Code: p.Issue.Code,
		Attempts: t.turn.attempts,
	}
	if t.turn.since > 0 { // one that was refused never started
		e.Millis = int64(t.at - t.turn.since)
	}
	switch {
	case p.End == events.EndFailed:
		e.Status = "failed"
	case p.End.Stopped():
		e.Status = "stopped"
	}
	t.tell(t.where, e)
	t.where.TurnIndex, t.calls, t.turn = 0, nil, span{}
}

func (t *tracer) replied(p *events.ModelReplied) {
	t.calls = nil
	for i := range p.Parts {
		c := &p.Parts[i]
		if c.Kind != events.PartToolCall {
			continue
		}
		where := t.callAt(p.Iteration, int64(len(t.calls)))
		t.calls = append(t.calls, tracedCall{id: c.Call, tool: c.Tool})
		if c.Tool != plugin.ToolCode {
			t.tell(where, api.TraceEvent{Type: api.TraceToolCallStarted, Tool: c.Tool, CallID: c.Call})
		}
	}
}

func (t *tracer) returned(iteration int64, r *events.ToolResult) {
	if r.Call >= int64(len(t.calls)) {
		return
	}
	c := &t.calls[r.Call]
	c.done = true
	t.tell(t.callAt(iteration, r.Call), resultEvent(c.tool, c.id, r))
}

// resultEvent tells what a call came to.
func resultEvent(tool string, id events.CallID, r *events.ToolResult) api.TraceEvent {
	e := api.TraceEvent{
		Type: api.TraceToolCallCompleted, Tool: tool, CallID: id, Outcome: r.Outcome, Class: r.Class, Code: r.Code,
		Attempts: max(r.Attempts, 1), Millis: r.Millis,
	}
	if tool == plugin.ToolCode {
		e.Type, e.Tool = api.TraceProtocolStep, ""
	}
	return e
}

func (t *tracer) nestedStarted(effect events.EffectID, tool string) {
	if !t.begun[effect] {
		t.begun[effect] = true
		t.tell(t.nestedAt(effect), api.TraceEvent{Type: api.TraceToolCallStarted, Tool: tool})
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

// traceCall tells of a model call: when it starts, and what it came to.
func (w *Worker) traceCall(where api.TraceContext, about api.TraceEvent, call func() (llm.Response, int, error)) (llm.Response, int, error) {
	if !w.host.Traces() {
		return call()
	}
	about.Type = api.TraceModelStarted
	w.host.Trace(0, where, about)
	began := time.Now()
	resp, attempts, err := call()
	about.Attempts, about.Millis = int64(attempts), time.Since(began).Milliseconds()
	if err != nil {
		about.Type = api.TraceModelFailed
		about.Kind, about.Code = kindOf(err)
		w.host.Trace(0, where, about)
		return resp, attempts, err
	}
	about.Type, about.Model, about.Stop = api.TraceModelCompleted, orDefault(resp.Model, about.Model), resp.Stop
	w.host.Trace(0, where, about)
	used := api.TokenUsage{
		Input: resp.Usage.Input, Output: resp.Usage.Output, CacheRead: resp.Usage.CacheRead, CacheWrite: resp.Usage.CacheWrite, Reasoning: resp.Usage.Reasoning,
	}
	w.host.Trace(0, where, api.TraceEvent{Type: api.TraceTokenUsage, Model: about.Model, Source: about.Source, Usage: &used})
	return resp, attempts, nil
}

// kindOf names a failure of a model call without its words, which are the provider's.
func kindOf(err error) (kind, code string) {
	var failure *llm.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled", ""
	case errors.As(err, &failure):
		return string(failure.Kind), failure.Code
	}
	return "runtime", ""
}

// where is the place of a turn's model call.
func (m *modelCall) where() api.TraceContext {
	c := api.TraceContext{Session: m.session, Turn: m.owes.Turn, Iteration: &m.owes.Iteration, Effect: m.effect}
	if t := m.seen.state.Turn(); t != nil {
		c.TurnIndex = t.Index
		c.ModelCall = fmt.Sprintf("%s:%s:%d:%d", c.Session, c.Turn, *c.Iteration, t.Attempt)
	}
	return c
}

// tracePrompt tells of the prompt that the model is about to be asked with.
func (m *modelCall) tracePrompt() {
	if m.w.host.Traces() {
		m.w.host.Trace(0, m.where(), api.TraceEvent{
			Type: api.TracePromptBuilt, Prompt: m.prompt.Ref.Digest, Messages: len(m.prompt.Messages), Tools: len(m.prompt.Tools),
		})
	}
}
