package main

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
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
		return "", fmt.Errorf("session %s has no turn: lash-replay events lists what it has", session)
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
				t.rebuild(ctx, src, s, place{entry.Seq, pos}, ref)
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
	for index, c := range turn.ToolCalls(p.Parts) {
		if tool, ok := s.Catalog.Tool(c.Tool); ok {
			t.effects[turn.ToolEffect(t.id, p.Iteration, index)] = tool.Effects
		}
	}
}

func (t *oneTurn) rebuild(ctx context.Context, src source, s *projector.State, at place, ref *events.PromptRef) {
	call := &modelCall{}
	call.prompt, call.err = t.prompts.Of(s, ref)
	if tools, err := blob.Contracts(ctx, src, call.prompt.Tools, nil); err == nil { // else without
		call.prompt.Tools = tools
	}
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
