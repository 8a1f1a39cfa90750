package main

import (
	"cmp"
	"context"
	"math"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/turn"
)

// reading is what one pass over a history collects: the state, and what no node of the conversation shows.
type reading struct {
	state *projector.State
	acts  map[events.TurnID][]act
	by    map[events.TurnID]string            // the actors that requested the turns
	names map[events.EffectID]events.CallID   // call ids that the models chose
	tools map[events.EffectID]string          // of the calls
	model map[messageKey]*events.ModelReplied // replies by their message
	calls map[messageKey]replyKey             // the iteration of a message of results
	ended map[events.EffectID]*events.ToolResult

	locked   uint32     // key of the first payload that cannot be read; 0: none
	redacted events.Seq // of the first commit with a redacted payload; 0: none
}

// messageKey is a message of a turn.
type messageKey struct {
	turn events.TurnID
	id   events.MessageID
}

// read folds a history and collects the rest in the same pass. before, unless it is nil, gets the state before each commit.
func read(ctx context.Context, src source, id events.SessionID, before func(*projector.State, events.Entry) error) (*reading, error) {
	r := &reading{
		state: projector.NewUnproven(id), acts: make(map[events.TurnID][]act), by: make(map[events.TurnID]string),
		names: make(map[events.EffectID]events.CallID), tools: make(map[events.EffectID]string),
		model: make(map[messageKey]*events.ModelReplied), calls: make(map[messageKey]replyKey), ended: make(map[events.EffectID]*events.ToolResult),
	}
	err := follow.Walk(ctx, src.Log(), src, r.state, math.MaxUint64, func(s *projector.State, entry events.Entry) error {
		r.commit(entry)
		if before == nil {
			return nil
		}
		return before(s, entry)
	})
	if err == nil {
		err = follow.Complete(ctx, src, r.state)
	}
	return r, err
}

// opened reads a session. The caller closes the source.
func (e *env) opened(ctx context.Context, session string) (src source, r *reading, err error) {
	src, id, err := e.openTarget(ctx, session)
	if err != nil {
		return nil, nil, err
	}
	if r, err = read(ctx, src, id, nil); err != nil {
		src.Close()
		return nil, nil, err
	}
	if r.locked != 0 {
		e.Printf("session %s: %v", id, connect.Advised(&events.KeyError{ID: r.locked}))
	}
	if r.redacted != 0 {
		e.Printf("session %s: payloads are redacted from sequence %d on, and what needs them is not shown: lash-replay events lists all that is left", id, r.redacted)
	}
	return src, r, nil
}

func (r *reading) commit(entry events.Entry) {
	if r.locked == 0 {
		r.locked = entry.Commit.Locked()
	}
	after := entry.Seq - 1
	for i := range entry.Commit.Events {
		ev := &entry.Commit.Events[i]
		if ev.Redacted != nil {
			r.redacted = cmp.Or(r.redacted, entry.Seq)
		}
		if ev.Kind == events.KindTurnScheduled || ev.Kind == events.KindTurnRequested { // also where the payload is redacted
			r.by[ev.Turn] = cmp.Or(r.by[ev.Turn], entry.Commit.Actor.String()) // a node appends the request of a scheduled turn
		}
		switch p := ev.Payload.(type) {
		case *events.ModelReplied:
			r.replied(ev.Turn, p)
			after = entry.Seq
		case *events.ToolReturned:
			r.returned(ev.Turn, p)
			after = entry.Seq
		case *events.ToolLost:
			after = entry.Seq
		}
		if text := r.actOf(ev); text != "" {
			a := act{text: text, event: eventjson.Of(entry, i), after: after}
			if p, ok := ev.Payload.(*events.ModelInterrupted); ok {
				a.parts = p.Parts
			}
			r.acts[ev.Turn] = append(r.acts[ev.Turn], a)
		}
	}
}

// actOf describes an event that is an act; otherwise it is empty.
func (r *reading) actOf(ev *events.Event) string {
	switch p := ev.Payload.(type) {
	case *events.ToolApprovalAsked:
		r.tools[p.Effect] = p.Tool
		return questionSummary(p, r.names[p.Effect])
	case *events.ToolApprovalGiven:
		return answerSummary(p, r.names[p.Effect], r.tools[p.Effect])
	case *events.HookRan:
		if len(p.Decisions) == 0 && p.Failed == "" {
			return ""
		}
		return summary(ev)
	case *events.TurnStarted:
		if p.Attempt <= 1 {
			return ""
		}
		return summary(ev)
	case *events.TurnCancelRequested, *events.ModelInterrupted, *events.ModelFailed, *events.SessionLossAccepted:
		return summary(ev)
	}
	return ""
}

// replied records a reply by its message, and the names of its calls.
func (r *reading) replied(of events.TurnID, p *events.ModelReplied) {
	key := messageKey{of, cmp.Or(p.Message, projector.ReplyMessage(of, p.Iteration))}
	if r.model[key] == nil {
		r.model[key] = p
	}
	for index, c := range turn.ToolCalls(p.Parts) {
		effect := turn.ToolEffect(of, p.Iteration, index)
		r.names[effect], r.tools[effect] = c.Call, c.Tool
	}
}

// returned records results by their calls. Of two results of a call the first counts.
func (r *reading) returned(of events.TurnID, p *events.ToolReturned) {
	r.calls[messageKey{of, cmp.Or(p.Message, projector.ResultMessage(of, p.Iteration))}] = replyKey{of, p.Iteration}
	for i := range p.Results {
		if effect := turn.ToolEffect(of, p.Iteration, p.Results[i].Call); r.ended[effect] == nil {
			r.ended[effect] = &p.Results[i]
		}
	}
}

// result is the recorded result at an index of a message of results; nil for a lost one.
func (r *reading) result(n *projector.Node, index int) *events.ToolResult {
	key, ok := r.calls[messageKey{n.Turn, n.Message.ID}]
	if !ok {
		return nil
	}
	return r.ended[turn.ToolEffect(key.turn, key.iteration, int64(index))]
}
