package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
)

// act is an answer to a question about a call, or a cancel of a turn.
type act struct {
	said  string
	event eventjson.Event
}

// acts are what people did about turns that no node of the conversation shows:
// answers to questions about calls, and cancels, by turn, in their order.
func acts(ctx context.Context, log events.Log, id events.SessionID, upto events.Seq) (map[events.TurnID][]act, error) {
	list := make(map[events.TurnID][]act)
	for entry, err := range log.Read(ctx, id, 1) {
		if err != nil {
			return nil, err
		}
		if entry.Seq > upto {
			break
		}
		for i := range entry.Commit.Events {
			switch ev := &entry.Commit.Events[i]; ev.Payload.(type) {
			case *events.ToolApprovalGiven, *events.TurnCancelRequested:
				list[ev.Turn] = append(list[ev.Turn], act{summary(ev), eventjson.Of(entry, i)})
			}
		}
	}
	return list, nil
}

// line says what was done, by whom and why.
func (a *act) line() string {
	what := "answer"
	if a.event.Kind == events.KindOf(&events.TurnCancelRequested{}) {
		what = "cancel requested by " + a.event.Actor
	}
	return what + " at " + a.event.Time + ": " + a.said
}

// actsJSON are all acts, by sequence.
func (v *shown) actsJSON() []eventjson.Event {
	list := []eventjson.Event{}
	for _, of := range v.acts {
		for i := range of {
			list = append(list, of[i].event)
		}
	}
	slices.SortFunc(list, func(a, b eventjson.Event) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Pos, b.Pos)) })
	return list
}

// actsOf writes what was done about a turn that the path does not show.
func (v *shown) actsOf(e *env, turn events.TurnID) {
	for i := range v.acts[turn] {
		e.println(" ", v.acts[turn][i].line())
	}
}
