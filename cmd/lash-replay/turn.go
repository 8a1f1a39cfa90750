package main

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/turn"
)

type turnCmd struct {
	Session string `arg:"" optional:"" help:"Session, or an archive file when no source is given. With --file the turn."`
	Turn    string `arg:"" optional:"" help:"Turn. Defaults to the last one."`
	Full    bool   `help:"Shorten nothing, and show each prompt from its first message on."`
	pricesFlag
	JSON bool `name:"json" help:"Print one JSON object, with whole prompts."`
}

// Help is shown by --help.
func (*turnCmd) Help() string {
	return `Shows everything that happened in a turn, in order: every model call with its prompt as it was sent and its reply, the hooks, and
every tool call with its arguments, effects, approval, result and duration.

A prompt is rebuilt from the history and compared with the digest that was recorded when it was sent. It begins
with the first message that the call before did not have; --full shows it whole.`
}

// oneTurn is a turn as its events tell it.
type oneTurn struct {
	*reading
	id      events.TurnID
	prices  pricing
	prompts *projector.Prompts
	events  []turnEvent
	calls   map[place]*modelCall
	effects map[events.EffectID]events.Effects // of the calls
	before  map[events.MessageID]bool          // messages of the conversation before the turn
}

// place is an event's place in a history.
type place struct {
	seq events.Seq
	pos int
}

// turnEvent is an event of the turn.
type turnEvent struct {
	entry events.Entry
	pos   int
}

func (e *turnEvent) event() *events.Event { return &e.entry.Commit.Events[e.pos] }

// modelCall is a model call with its rebuilt prompt.
type modelCall struct {
	prompt projector.Prompt
	match  bool  // it has the recorded digest
	err    error // it cannot be rebuilt
}

// Run folds the history and shows a turn.
func (c *turnCmd) Run(ctx context.Context, e *env) error {
	prices, err := c.load()
	if err != nil {
		return err
	}
	target, id := c.Session, events.TurnID(c.Turn)
	if e.source.File != "" && id == "" {
		target, id = "", events.TurnID(c.Session)
	}
	src, session, err := e.openTarget(ctx, target)
	if err != nil {
		return err
	}
	defer src.Close()
	if id == "" {
		if id, err = lastTurn(ctx, src, session); err != nil {
			return err
		}
	}
	t, err := readTurn(ctx, src, session, id)
	if err != nil {
		return err
	}
	t.prices = prices
	if len(t.events) == 0 {
		return fmt.Errorf("turn %s: session %s has no such turn at sequence %d; lash-replay show lists its turns", quoted(string(id)), session, t.state.Seq)
	}
	if c.JSON {
		out, err := t.json(ctx, src)
		if err != nil {
			return err
		}
		return e.writeJSON(out)
	}
	return e.paged(func() error { return c.render(ctx, e, src, t) })
}

// lastTurn is the last turn that events name.
func lastTurn(ctx context.Context, src source, session events.SessionID) (last events.TurnID, err error) {
	for entry, err := range src.Log().Read(ctx, session, 1) {
		if err != nil {
			return "", err
		}
		for i := range entry.Commit.Events {
			if id := entry.Commit.Events[i].Turn; id != "" {
				last = id
			}
		}
	}
	if last == "" {
		return "", fmt.Errorf("session %s has no turn", session)
	}
	return last, nil
}

// readTurn collects the events of a turn, and rebuilds its prompts.
func readTurn(ctx context.Context, src source, session events.SessionID, id events.TurnID) (*oneTurn, error) {
	t := &oneTurn{
		id: id, calls: make(map[place]*modelCall), effects: make(map[events.EffectID]events.Effects), before: make(map[events.MessageID]bool),
		prompts: projector.NewPrompts(projector.New(session)),
	}
	r, err := read(ctx, src, session, func(s *projector.State, entry events.Entry) error {
		t.prompts.Record(s)
		if !t.take(s, entry) {
			return nil
		}
		if err := follow.Complete(ctx, src, s); err != nil { // of a copy: its prompts need the nodes that it began with
			return err
		}
		t.prompts.Each(s, entry, func(s *projector.State, pos int, ref *events.PromptRef) {
			if entry.Commit.Events[pos].Turn == id {
				t.rebuild(s, place{entry.Seq, pos}, ref)
			}
		})
		return nil
	})
	t.reading = r
	return t, err
}

// take collects the events of the turn in a commit, and reports whether one refers to a prompt.
func (t *oneTurn) take(s *projector.State, entry events.Entry) (called bool) {
	for i := range entry.Commit.Events {
		ev := &entry.Commit.Events[i]
		if ev.Turn != t.id {
			continue
		}
		t.events = append(t.events, turnEvent{entry, i})
		switch p := ev.Payload.(type) {
		case *events.ModelReplied:
			called = true
			t.declared(s, p)
		case *events.ModelFailed, *events.ModelInterrupted:
			called = true
		}
	}
	return called
}

// declared records the effects of a reply's calls, as the tools declared them then.
func (t *oneTurn) declared(s *projector.State, p *events.ModelReplied) {
	index := int64(0)
	for i := range p.Parts {
		if p.Parts[i].Kind != events.PartToolCall {
			continue
		}
		if tool, ok := s.Catalog.Tool(p.Parts[i].Tool); ok {
			t.effects[turn.ToolEffect(t.id, p.Iteration, index)] = tool.Effects
		}
		index++
	}
}

func (t *oneTurn) rebuild(s *projector.State, at place, ref *events.PromptRef) {
	call := &modelCall{}
	call.prompt, call.err = t.prompts.Of(s, ref)
	call.match = call.err == nil && call.prompt.Ref.Digest == ref.Digest
	if len(t.calls) == 0 {
		if path, err := s.PathTo(ref.Leaf); err == nil {
			for _, n := range path {
				if n.Turn != t.id {
					t.before[n.Message.ID] = true
				}
			}
		}
	}
	t.calls[at] = call
}

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
	index := int64(0)
	for i := range p.Parts {
		c := &p.Parts[i]
		if c.Kind != events.PartToolCall {
			continue
		}
		effect := turn.ToolEffect(t.id, p.Iteration, index)
		one := toolJSON{Effect: effect, Call: c.Call, Tool: c.Tool, Effects: t.effectsOf(effect), Outcome: "unanswered", Args: eventjson.Value{V: c.Args}}
		if r := t.ended[effect]; r != nil {
			one.Outcome, one.Millis, one.Result = outcomeName(r.Outcome), r.Millis, eventjson.Value{V: r}
		} else if t.lost(p.Iteration, index) {
			one.Outcome = string(events.OutcomeLost)
		}
		list = append(list, one)
		index++
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
