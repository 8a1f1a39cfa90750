package sim

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// innerTools are what the calls inside a call run.
var innerTools = []string{toolOnce, toolPure}

// nests goes through the calls that a call makes: each is in the log before it
// starts where it must run once, and every result is there before it counts.
func (e *effect) nests() {
	if f := e.fact; f != nil {
		switch {
		case !f.answered:
			return
		case f.refused:
			e.over = true // nothing that it does counts
			return
		}
		e.fact = nil
		if _, called := f.list[0].(*events.ToolNestedCalled); !called {
			e.inner, e.begun = e.inner+1, false
			return
		}
		e.begun = true
	}
	if e.inner == len(innerTools) {
		e.returns(events.ToolResult{Text: "done"})
		return
	}
	e.nestedCall(events.EffectID(fmt.Sprintf("%s/%d", e.id, e.inner)), innerTools[e.inner])
}

func (e *effect) nestedCall(id events.EffectID, tool string) {
	result := events.ToolResult{Call: e.call.Index, Text: "done"}
	switch old := e.at.Turn().NestedCall(id); {
	case old != nil && old.Done:
		e.inner++
		return
	case old != nil: // it began in an earlier run of the outer call
		result.Outcome, result.Text = events.OutcomeLost, "lost"
	case !repeatable(tool) && !e.begun:
		e.records(&events.ToolNestedCalled{Effect: id, Tool: tool, Digest: "d"})
		return
	default:
		e.r.w.runs(e.r.session, tool, id)
	}
	e.records(&events.ToolNestedReturned{Effect: id, Tool: tool, Digest: "d", Result: result})
}

// records asks the run to record something, and waits for its answer.
func (e *effect) records(p events.Payload) {
	e.fact = &fact{effect: e, list: []events.Payload{p}}
	e.r.asks = append(e.r.asks, e.fact)
}

// recordFact records what an effect asked for. One that was given up, or whose turn
// has ended, or is another worker's by now, is refused.
func (r *run) recordFact(f *fact) error {
	f.answered = true
	if f.refused = !r.upheld(f.effect); f.refused {
		return nil
	}
	out, err := turn.Step(r.state, turn.Facts{Extra: f.list})
	if err == nil {
		r.add(turn.Facts{Extra: f.list}, out.Events)
		err = r.flush()
	}
	if err == nil && r.w.chance(3, "late") {
		err = r.renew()
	}
	f.refused = err != nil || !r.upheld(f.effect)
	return err
}

func (r *run) upheld(e *effect) bool {
	t := r.state.Turn()
	return slices.Contains(r.inflight, e) && t != nil && t.ID == e.owes.Turn && r.ours(t)
}

func repeatable(tool string) bool {
	i := slices.IndexFunc(catalog, func(e events.ToolEntry) bool { return e.Name == tool })
	return catalog[i].Effects.Repeatable()
}
