package sim

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// innerTools are the tools of nested calls.
var innerTools = []string{toolOnce, toolPure}

// nests executes the nested calls of a call. A call that must run once is in the log before it starts, and every
// result is in the log before the outer call uses it.
func (e *effect) nests() {
	if f := e.fact; f != nil {
		switch {
		case !f.done:
			return
		case f.refused:
			e.over = true // its outcome is dropped
			return
		}
		e.fact = nil
		if _, called := f.list[0].(*events.ToolNestedCalled); !called {
			e.inner, e.started = e.inner+1, false
			return
		}
		e.started = true
	}
	if e.inner == len(innerTools) {
		e.returns(events.ToolResult{Text: "done"})
		return
	}
	e.nestedCall(events.EffectID(fmt.Sprintf("%s/%d", e.ID, e.inner)), innerTools[e.inner])
}

func (e *effect) nestedCall(id events.EffectID, tool string) {
	result := events.ToolResult{Call: e.call.Index, Text: "done"}
	switch old := e.at.Turn().NestedCall(id); {
	case old != nil && old.Done:
		e.inner++
		return
	case old != nil: // it started in an earlier run of the outer call
		result.Outcome, result.Text = events.OutcomeLost, "lost"
	case !repeatable(tool) && !e.started:
		e.records(&events.ToolNestedCalled{Effect: id, Tool: tool, Digest: "d"})
		return
	default:
		e.r.w.startCall(e.r.session, tool, id)
	}
	e.records(&events.ToolNestedReturned{Effect: id, Tool: tool, Digest: "d", Result: result})
}

// records requests a record from the run, and waits for the response.
func (e *effect) records(p events.Payload) {
	e.fact = &fact{effect: e, list: []events.Payload{p}}
	e.r.factRequests = append(e.r.factRequests, e.fact)
}

func repeatable(tool string) bool {
	i := slices.IndexFunc(catalog, func(e events.ToolEntry) bool { return e.Name == tool })
	return catalog[i].Effects.Repeatable()
}
