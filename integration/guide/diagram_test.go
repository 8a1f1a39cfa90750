package guide

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// arrow is an arrow of the diagram: in state from, an event of kind leads to state to.
type arrow struct{ from, to, kind string }

// TestDiagram folds histories. Their transitions are exactly the arrows of the README's diagram.
func TestDiagram(t *testing.T) {
	t.Parallel()
	var drawn, found []arrow
	for _, b := range blocks(t, root+"/README.md") {
		if b.kind() != "mermaid" {
			continue
		}
		for _, m := range regexp.MustCompile(`(?m)^ *(\S+) --> (\S+): (\S+)$`).FindAllStringSubmatch(b.text, -1) {
			drawn = append(drawn, arrow{m[1], m[2], m[3]})
		}
		if arrows := strings.Count(b.text, "-->"); arrows != len(drawn) || arrows == 0 {
			t.Errorf("the diagram has %d arrows, of which %d have a kind of event", arrows, len(drawn))
		}
	}
	for _, history := range histories() {
		found = append(found, fold(t, history)...)
	}
	for _, a := range drawn {
		if !slices.Contains(found, a) {
			t.Errorf("drawn, and in no history: %+v", a)
		}
	}
	for _, a := range found {
		if !slices.Contains(drawn, a) {
			t.Errorf("in a history, and not drawn: %+v", a)
		}
	}
}

// histories are the histories of turns, each from the first event of its session.
func histories() (list [][]events.Payload) {
	const effect = "t/0/0"
	call := []events.Part{{Kind: events.PartToolCall, Call: "c", Tool: "x", Args: []byte("{}")}}
	requested, started, takenOver := &events.TurnRequested{}, &events.TurnStarted{Attempt: 1, Worker: "a"}, &events.TurnStarted{Attempt: 2, Worker: "b"}
	calls := &events.ModelReplied{Parts: call, Stop: events.StopToolUse}
	question := &events.ToolApprovalAsked{Effect: effect, Tool: "x", Plugin: "gate"}
	results := &events.ToolReturned{Results: []events.ToolResult{{Outcome: events.OutcomeSuccess}}}
	pended, resolved := &events.ToolPended{Calls: []int64{0}}, &events.ToolResolved{Effect: effect, Result: results.Results[0]}
	replied := &events.ModelReplied{Iteration: 1, Stop: events.StopEnd}
	end, cancelled := &events.TurnCompleted{End: events.EndFinished}, &events.TurnCompleted{End: events.EndCancelled}
	for _, sequence := range [][]events.Payload{
		{&events.TurnScheduled{At: 1}, requested, started, takenOver, calls, takenOver, results, replied, end},
		{&events.TurnScheduled{At: 1}, cancelled},
		{requested, started, calls, question, &events.ToolApprovalGiven{Effect: effect, Granted: true}, results, replied, end},
		{requested, started, calls, question, cancelled},
		{requested, started, calls, cancelled},
		{requested, started, calls, pended, resolved, results, replied, end},
		{requested, started, calls, pended, cancelled},
		{requested, cancelled},
		{requested, &events.TurnDiverted{End: events.EndRejected, By: "other"}},
	} {
		list = append(list, slices.Concat([]events.Payload{&events.SessionOpened{}}, sequence, []events.Payload{&events.SessionClosed{}}))
	}
	return list
}

// fold returns the arrows of a history. Each commit has one event.
func fold(t *testing.T, history []events.Payload) (list []arrow) {
	t.Helper()
	const begin, id = "[*]", "t"
	s := projector.New("s")
	session, at := begin, begin
	for _, p := range history {
		e := events.Of(id, p)
		if strings.HasPrefix(string(e.Kind), "session.") {
			e.Turn = ""
		}
		c := &events.Commit{ID: "c", Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode}, Events: []events.Event{e}}
		runtest.NoError(t, s.Apply(events.Entry{Seq: s.Seq + 1, Commit: c}))
		if now := string(s.Status); now != session {
			list = append(list, arrow{session, now, string(e.Kind)})
			session = now
		}
		now := state(s, id)
		if now == begin && at != begin {
			now = "ended"
		}
		if now != at || e.Kind == events.KindTurnStarted {
			list = append(list, arrow{at, now, string(e.Kind)})
		}
		at = now
	}
	return list
}

// state is the state of a turn, by its name in the diagram. Before and after the turn's life it is the start state.
func state(s *projector.State, id events.TurnID) string {
	needs := turn.Next(s)
	switch {
	case slices.ContainsFunc(s.Scheduled, func(q projector.ScheduledTurn) bool { return q.ID == id }):
		return "scheduled"
	case slices.ContainsFunc(s.Queue, func(q projector.QueuedTurn) bool { return q.ID == id }):
		return "waiting"
	case needs.Model:
		return "model"
	case needs.OnlyWaits() && s.Turn().WaitsForApproval(turn.ToolEffect(id, 0, 0)):
		return "asking"
	case needs.OnlyWaits():
		return "pending"
	case len(needs.Calls) > 0:
		return "tools"
	}
	return "[*]"
}
