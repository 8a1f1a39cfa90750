package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/session/turn"
)

// act is an approval request, its answer, a cancel of a turn, or a partial reply.
type act struct {
	text  string
	event eventjson.Event
	after events.Seq    // it is shown after the messages of the commits up to this one
	parts []events.Part // of a partial reply
}

// acting collects the acts of a history.
type acting struct {
	list  map[events.TurnID][]act
	names map[events.EffectID]events.CallID // call ids that the models chose
	tools map[events.EffectID]string        // of the calls with an approval request
	by    map[events.TurnID]string          // the actors that requested the turns
}

// acts are the events of turns that no node of the conversation shows: approval requests, answers, cancels and partial
// replies. They are grouped by turn, in order. by has the actors that requested the turns.
func acts(ctx context.Context, log events.Log, id events.SessionID, upto events.Seq) (list map[events.TurnID][]act, by map[events.TurnID]string, err error) {
	a := acting{make(map[events.TurnID][]act), make(map[events.EffectID]events.CallID), make(map[events.EffectID]string), make(map[events.TurnID]string)}
	for entry, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return nil, nil, err
		}
		if entry.Seq > upto {
			break
		}
		a.commit(entry)
	}
	return a.list, a.by, nil
}

func (a *acting) commit(entry events.Entry) {
	after := entry.Seq - 1
	for i := range entry.Commit.Events {
		ev := &entry.Commit.Events[i]
		text, parts := "", []events.Part(nil)
		switch p := ev.Payload.(type) {
		case *events.TurnScheduled, *events.TurnRequested:
			a.by[ev.Turn] = cmp.Or(a.by[ev.Turn], entry.Commit.Actor.String()) // a node appends the request of a scheduled turn
		case *events.ModelReplied:
			a.named(ev.Turn, p)
			after = entry.Seq
		case *events.ToolReturned, *events.ToolLost:
			after = entry.Seq
		case *events.ToolApprovalAsked:
			a.tools[p.Effect] = p.Tool
			text = questionSummary(p, a.names[p.Effect])
		case *events.ToolApprovalGiven:
			text = answerSummary(p, a.names[p.Effect], a.tools[p.Effect])
		case *events.TurnCancelRequested:
			text = summary(ev)
		case *events.ModelInterrupted:
			text, parts = summary(ev), p.Parts
		}
		if text != "" {
			a.list[ev.Turn] = append(a.list[ev.Turn], act{text, eventjson.Of(entry, i), after, parts})
		}
	}
}

// named records the call ids of a reply.
func (a *acting) named(of events.TurnID, p *events.ModelReplied) {
	index := int64(0)
	for i := range p.Parts {
		if c := &p.Parts[i]; c.Kind == events.PartToolCall {
			a.names[turn.ToolEffect(of, p.Iteration, index)] = c.Call
			index++
		}
	}
}

// line describes the act, its actor and its reason.
func (a *act) line() string {
	what := "cancel requested by " + a.event.Actor
	switch a.event.Kind {
	case events.KindToolApprovalAsked:
		what = "question"
	case events.KindToolApprovalGiven:
		what = "answer"
	case events.KindModelInterrupted:
		return "partial reply, which later turns do not read, at " + a.event.Time
	default:
	}
	return what + " at " + a.event.Time + ": " + a.text
}

// actsIn are the acts of a turn in the form of a transcript.
func (v *shownSession) actsIn(turn events.TurnID) (list []transcript.Act) {
	for i := range v.acts[turn] {
		a := &v.acts[turn][i]
		list = append(list, transcript.Act{After: a.after, Line: a.line(), Parts: a.parts})
	}
	return list
}

// actsJSON are the acts of these kinds, by sequence.
func (v *shownSession) actsJSON(kinds ...events.Kind) []eventjson.Event {
	list := []eventjson.Event{}
	for _, of := range v.acts {
		for i := range of {
			if slices.Contains(kinds, of[i].event.Kind) {
				list = append(list, of[i].event)
			}
		}
	}
	slices.SortFunc(list, func(a, b eventjson.Event) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Pos, b.Pos)) })
	return list
}

// actsOf writes the acts of a turn that the path does not show.
func (v *shownSession) actsOf(p *transcript.Printer, turn events.TurnID) {
	for _, a := range v.actsIn(turn) {
		p.Act(&a)
	}
}
