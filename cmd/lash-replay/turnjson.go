package main

import (
	"context"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/turn"
)

// turnJSON is the output of turn with --json.
type turnJSON struct {
	Session events.SessionID  `json:"session"`
	Turn    events.TurnID     `json:"turn"`
	By      string            `json:"requested_by"`
	Record  *eventjson.Value  `json:"record,omitempty"` // of a turn that has ended
	Calls   []promptJSON      `json:"model_calls"`
	Tools   []toolJSON        `json:"tool_calls"`
	Hooks   []eventjson.Event `json:"hooks"`
	Events  []eventjson.Event `json:"events"` // all of the turn, in order
	Cost    micros            `json:"cost_micro_usd,omitzero"`
}

// promptJSON is a model call, with its prompt.
type promptJSON struct {
	Seq       events.Seq      `json:"seq"`
	Pos       int             `json:"pos"`
	Time      string          `json:"time"`
	Kind      events.Kind     `json:"kind"` // model.replied, model.failed or model.interrupted
	Iteration int64           `json:"iteration"`
	Millis    int64           `json:"millis,omitempty"`
	Cost      micros          `json:"cost_micro_usd,omitzero"`
	Digest    string          `json:"prompt_digest"`
	Match     bool            `json:"prompt_matches"` // the rebuilt prompt has the recorded digest
	Problem   string          `json:"problem,omitempty"`
	Config    eventjson.Value `json:"config"`
	System    string          `json:"system"`
	Messages  eventjson.Value `json:"messages"`
	Tools     eventjson.Value `json:"tools"`

	Contracts map[string]json.RawMessage `json:"contracts,omitempty"` // of the tools, by name: schema, output_schema and examples
}

// toolJSON is a tool call.
type toolJSON struct {
	Effect  events.EffectID `json:"effect"`
	Call    events.CallID   `json:"call,omitempty"`
	Tool    string          `json:"tool"`
	Effects string          `json:"effects"` // none, idempotent or non_idempotent
	Outcome string          `json:"outcome"` // "unanswered" without a result
	Millis  int64           `json:"millis"`
	Args    eventjson.Value `json:"args"`
	Result  eventjson.Value `json:"result"`
}

func (t *oneTurn) json(ctx context.Context, src source) (*turnJSON, error) {
	out := &turnJSON{Session: t.state.Session, Turn: t.id, By: t.by[t.id], Calls: []promptJSON{}, Tools: []toolJSON{}, Hooks: []eventjson.Event{}, Events: []eventjson.Event{}}
	if record, err := t.state.Record(t.id); err != nil {
		return nil, err
	} else if record != nil {
		out.Record = &eventjson.Value{V: record}
	}
	bodies, sum := blob.Bounded(src), micros{Known: t.prices.known()}
	for i := range t.events {
		ev := &t.events[i]
		out.Events = append(out.Events, eventjson.Of(ev.entry, ev.pos))
		switch p := ev.event().Payload.(type) {
		case *events.HookRan:
			out.Hooks = append(out.Hooks, eventjson.Of(ev.entry, ev.pos))
		case *events.ModelReplied:
			out.Tools = append(out.Tools, t.toolCalls(p)...)
		}
		call, ok := t.calls[place{ev.entry.Seq, ev.pos}]
		if !ok {
			continue
		}
		one, err := t.callJSON(ctx, bodies, ev, call)
		if err != nil {
			return nil, err
		}
		sum.N, sum.Known = sum.N+one.Cost.N, sum.Known && (one.Cost.Known || one.Kind == events.KindModelFailed)
		out.Calls = append(out.Calls, one)
	}
	out.Cost = sum
	return out, nil
}

func (t *oneTurn) callJSON(ctx context.Context, bodies blob.Reader, ev *turnEvent, call *modelCall) (out promptJSON, err error) {
	out = promptJSON{
		Seq: ev.entry.Seq, Pos: ev.pos, Time: clock(ev.entry.Commit.At), Kind: ev.event().Kind, Match: call.match,
		Digest: call.prompt.Ref.Digest, Config: eventjson.Value{V: call.prompt.Config}, System: call.prompt.System, Tools: eventjson.Value{V: call.prompt.Tools},
	}
	for i := range call.prompt.Tools {
		if tool := &call.prompt.Tools[i]; len(tool.Look().Text()) > 0 {
			if out.Contracts == nil {
				out.Contracts = make(map[string]json.RawMessage)
			}
			out.Contracts[tool.Name] = tool.Look().Text()
		}
	}
	if call.err != nil {
		out.Problem = call.err.Error()
	}
	switch p := ev.event().Payload.(type) {
	case *events.ModelReplied:
		out.Iteration, out.Millis, out.Cost = p.Iteration, p.Millis, t.prices.of(p.Provider, p.Model, p.Cost())
	case *events.ModelInterrupted:
		out.Iteration, out.Millis, out.Cost = p.Iteration, p.Millis, t.prices.of(p.Provider, p.Model, p.Usage)
	case *events.ModelFailed:
		out.Iteration = p.Iteration
	}
	messages, err := blob.Fill(ctx, bodies, call.prompt.Messages)
	out.Messages = eventjson.Value{V: messages}
	return out, err
}

// toolCalls are the calls of a reply.
func (t *oneTurn) toolCalls(p *events.ModelReplied) (list []toolJSON) {
	for index, c := range turn.ToolCalls(p.Parts) {
		effect := turn.ToolEffect(t.id, p.Iteration, index)
		one := toolJSON{Effect: effect, Call: c.Call, Tool: c.Tool, Effects: t.effectsOf(effect), Outcome: "unanswered", Args: eventjson.Value{V: c.Args}}
		if r := t.ended[effect]; r != nil {
			one.Outcome, one.Millis, one.Result = outcomeName(r.Outcome), r.Millis, eventjson.Value{V: r}
		} else if t.lost(p.Iteration, index) {
			one.Outcome = string(events.OutcomeLost)
		}
		list = append(list, one)
	}
	return list
}

// lost reports whether a call is recorded as lost.
func (t *oneTurn) lost(iteration, index int64) bool {
	for i := range t.events {
		p, ok := t.events[i].event().Payload.(*events.ToolLost)
		if !ok || p.Iteration != iteration {
			continue
		}
		for _, at := range p.Calls {
			if at == index {
				return true
			}
		}
	}
	return false
}

// effectsOf are the declared effects of a call, in words.
func (t *oneTurn) effectsOf(effect events.EffectID) string {
	declared, known := t.effects[effect]
	switch {
	case !known:
		return "unknown"
	case declared == events.EffectsNonIdempotent:
		return "non_idempotent"
	}
	return string(declared)
}
