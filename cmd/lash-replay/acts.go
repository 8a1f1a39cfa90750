package main

import (
	"cmp"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/transcript"
)

// act is an event of a turn that no node shows: an approval request, its answer, a cancel, decisions of hooks, another
// attempt, a failed model call, or a partial reply.
type act struct {
	text  string
	event eventjson.Event
	after events.Seq    // it is shown after the messages of the commits up to this one
	parts []events.Part // of a partial reply
}

// line describes the act, its actor and its reason.
func (a *act) line() string {
	what := "cancel requested by " + a.event.Actor
	switch a.event.Kind {
	case events.KindToolApprovalAsked:
		what = "question"
	case events.KindToolApprovalGiven:
		what = "answer"
	case events.KindHookRan:
		what = "hooks"
	case events.KindTurnStarted:
		what = "taken over"
	case events.KindModelFailed:
		what = "model call failed"
	case events.KindSessionLossAccepted:
		what = "loss"
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
	for turn, of := range v.acts {
		for i := range of {
			if slices.Contains(kinds, of[i].event.Kind) && v.selected(turn) {
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
