package main

import (
	"cmp"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/session/turn"
)

// printOrigin prints the owner of the session and its parent.
func (v *shownSession) printOrigin(e *env) {
	s := v.state
	if s.Owner != "" {
		e.println("owner", s.Owner)
	}
	for _, g := range s.Grants {
		e.println("grant:", grantSummary(g.To, g.Rights))
	}
	for i := range v.acts[""] { // no turn has them: accepted losses
		e.println(v.acts[""][i].line())
	}
	if s.Parent != "" {
		e.println(joined(string(s.Relation)+" of "+string(s.Parent), prefixed("its usage counts as ", s.Source)))
	}
	if !s.Subagent.IsZero() {
		e.printf("subagent %s at depth %d of %d\n", quoted(s.Subagent.Capability), s.Subagent.Depth, s.Subagent.MaxDepth)
	}
	if !s.First.IsZero() {
		e.println("input of the first turn, not taken:", partsSummary(s.First.Parts))
	}
}

// printWaits prints what the running turn waits for.
func printWaits(e *env, t *projector.Turn) {
	for i := range t.Asks {
		if a := &t.Asks[i]; !a.Answered {
			e.println("waits for approval:", joined(questionSummary(&a.ToolApprovalAsked, ""), until("until ", a.Until)))
		}
	}
	for i := range t.Calls {
		if c := &t.Calls[i]; c.Pended && !c.Done {
			effect, due := turn.ToolEffect(t.ID, t.Iteration, int64(i)), events.Millis(0)
			if timed := t.TimedResult(effect); timed != nil {
				due = timed.At
			}
			e.println("waits for an outside result:", joined("call "+string(effect), "tool "+quoted(c.Tool), until("its result comes at ", due)))
		}
	}
}

// until formats a time; empty for 0.
func until(prefix string, at events.Millis) string {
	if at == 0 {
		return ""
	}
	return prefix + clock(at)
}

// printState prints the state outside the conversation: options, plugins, tasks, monitors, usage.
func (v *shownSession) printState(e *env) {
	s := v.state
	if options := s.Frame().Options; len(options) > 0 {
		e.println("protocol options:", shortJSON(options))
	}
	if len(s.ToolSources) > 0 {
		e.println(sourcesSummary(s.ToolSources))
	}
	if !s.Overlay.IsZero() {
		e.println("overlay:", overlaySummary(&s.Overlay.SessionOverlaid))
	}
	for i := range s.Extensions {
		e.println("extension", joined(quoted(s.Extensions[i].Type), bodySummary(s.Extensions[i].Body, events.BlobRef{})))
	}
	for i := range s.Plugins {
		p := &s.Plugins[i]
		e.println("plugin", joined(quoted(p.Plugin)+fmt.Sprintf(" at revision %d", p.Revision), bodySummary(p.State, p.Blob), counted(len(p.Artifacts), "artifact")))
	}
	for i := range s.Tasks {
		e.println("task", taskLine(&s.Tasks[i]))
	}
	for i := range s.Monitors {
		e.println("monitor", monitorLine(&s.Monitors[i]))
	}
	if n := len(s.Feed.Updates); n > 0 {
		e.println("not taken:", counted(n, "monitor update"))
	}
	for _, l := range s.Ledger {
		e.println("usage:", joined("for "+quoted(l.Source), "model "+quoted(l.Model), transcript.UsageLine(l.Usage)))
	}
	for _, c := range s.Children {
		for _, entry := range c.Entries {
			e.println("usage:", joined("for "+quoted(c.Source), "child "+string(c.Session), "model "+quoted(entry.Model), transcript.UsageLine(entry.Usage)))
		}
	}
}

func taskLine(t *projector.Task) string {
	state := taskState(t.State)
	if t.To != "" {
		state = "lives on in " + string(t.To)
	}
	text := cmp.Or(t.Summary, t.Message)
	return joined(string(t.ID)+": "+state, taskKind(t.Of), prefixed("runner ", t.Runner), prefixed("does it in ", string(t.Child)), prefixed("on ", string(t.Worker)), short(text))
}

func monitorLine(m *projector.Monitor) string {
	text := m.LastEvent
	if m.LastError != "" {
		text = m.LastError
	}
	armed := ""
	if m.Armed {
		armed = "armed"
	}
	return joined(string(m.Spec.ID)+": "+monitorState(m.State), armed, counted(int(m.Events), "line"), short(m.Spec.Command), short(text))
}
