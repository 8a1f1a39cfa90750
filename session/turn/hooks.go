package turn

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// hooks processes the plugins' decisions at the current point.
func (m *machine) hooks(in Hooks) (Output, error) {
	if o := Next(m.s); o.Hooks != in.Ran.Point || o.At != in.Ran.At || o.Iteration != in.Ran.Iteration {
		return Output{}, fmt.Errorf("%w: hooks of %s", ErrStale, in.Ran.Point)
	}
	m.out.Linger = true
	m.emit(&in.Ran)
	m.emitAll(in.Extra)
	switch in.Ran.Point {
	case events.PointBeforeTurn:
		m.beforeTurn(in)
	case events.PointBeforeModel:
		m.beforeModel(in)
	case events.PointBeforeTool:
		m.beforeTool(in)
	case events.PointCheckpoint:
		m.checkpoint(in)
	case events.PointAfterTurn:
		m.afterTurn(in)
	case events.PointAfterTool, events.PointReply: // part of the calls, and of the reply
	}
	return m.done()
}

func (m *machine) beforeTurn(in Hooks) {
	if !in.Ran.Issue.IsZero() {
		m.fail(in.Ran.Issue)
		return
	}
	if in.Prepared != nil {
		m.emit(in.Prepared)
	}
	m.appendMessages(in.Messages, "before")
	switch {
	case in.Abort != nil:
		m.complete(events.TurnCompleted{End: events.EndPluginAbort, Issue: *in.Abort})
	case in.Stopped != nil:
		m.end(events.TurnCompleted{End: events.EndRuntimeError, Issue: *in.Stopped})
	}
}

func (m *machine) beforeModel(in Hooks) {
	switch {
	case !in.Ran.Issue.IsZero():
		m.end(events.TurnCompleted{End: events.EndRuntimeError, Issue: in.Ran.Issue})
	case in.Abort != nil:
		m.end(events.TurnCompleted{End: events.EndPluginAbort, Issue: *in.Abort})
	case in.Switch != nil:
		m.end(events.TurnCompleted{End: events.EndSwitched, Switch: *in.Switch})
	}
}

func (m *machine) beforeTool(in Hooks) {
	if !in.Ran.Issue.IsZero() { // it is unknown which calls may run
		m.stopped(nil, in.Ran.Issue)
		return
	}
	m.mustFlush = true // the arguments of running calls must not change
	skip := make(map[int64]bool)
	for i := range in.Asks {
		m.emit(&in.Asks[i])
	}
	for i := range m.t.Calls {
		effect := ToolEffect(m.id, m.t.Iteration, int64(i))
		for j := range in.Asks {
			skip[int64(i)] = skip[int64(i)] || in.Asks[j].Effect == effect
		}
	}
	for i := range in.Results {
		skip[in.Results[i].Call] = true
	}
	m.startCalls(m.t.Iteration, m.t.Calls, skip)
	m.returned(m.newResults(in.Results))
}

// checkpoint appends messages of hooks, then inputs of hosts. Inputs enter in this commit or stay pending, so an
// abort loses none.
func (m *machine) checkpoint(in Hooks) {
	switch {
	case !in.Ran.Issue.IsZero():
		m.end(events.TurnCompleted{End: events.EndRuntimeError, Issue: in.Ran.Issue})
		return
	case in.Abort != nil:
		m.end(events.TurnCompleted{End: events.EndRuntimeError, Issue: *in.Abort})
		return
	}
	added := m.appendMessages(append(m.t.Queued[:len(m.t.Queued):len(m.t.Queued)], in.Messages...), string(in.Ran.At))
	if in.Ran.At == events.AtAfterWork {
		m.accept(in.Ran.At)
		return
	}
	limit := m.limitReached(m.t.Iteration)
	if !limit {
		added += m.accept(in.Ran.At)
	}
	switch {
	case added == 0:
		m.completeReply()
	case limit:
		m.maxTurns()
	default:
		m.mustFlush = true // a model call must not follow a lingering reply
	}
}

func (m *machine) afterTurn(in Hooks) {
	if !in.Ran.Issue.IsZero() {
		m.complete(events.TurnCompleted{End: events.EndFailed, Issue: in.Ran.Issue})
		return
	}
	m.appendMessages(in.Messages, "after")
	m.complete(m.t.Ending)
}

// appendMessages appends messages of plugins below the leaf and returns their number. It drops messages of
// assistants.
func (m *machine) appendMessages(list []events.Message, point string) int {
	var nodes []events.NewNode
	for _, msg := range list {
		if msg.Role == events.RoleAssistant {
			continue
		}
		preferred := events.NodeID(msg.ID)
		if preferred == "" {
			preferred = events.NodeID(fmt.Sprintf("h-%s-%d-%s-%d", m.id, m.t.Iteration, point, len(nodes)))
		}
		n := events.NewNode{ID: m.unique(preferred), Kind: events.NodeMessage, Message: msg}
		if msg.ID == "" {
			n.Message.ID = events.MessageID(n.ID)
		}
		nodes = append(nodes, n)
	}
	if len(nodes) > 0 {
		m.emit(&events.GraphAppended{Nodes: nodes})
	}
	return len(nodes)
}
