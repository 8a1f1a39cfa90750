package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// candidates are the inputs that could have led to the events from at on, the likeliest first.
func (c *comparison) candidates() []candidate {
	ev := &c.list[c.at]
	if c.s.Turn() == nil || ev.Kind == events.KindTurnStarted {
		if list := c.claims(); len(list) > 0 {
			return list
		}
	}
	switch p := ev.Payload.(type) {
	case *events.TurnRequested:
		return c.requests(ev.Turn, p)
	case *events.ToolApprovalGiven:
		return []candidate{stepOf("answer", turn.Answer{ToolApprovalGiven: *p}), c.due()}
	case *events.ToolResolved:
		return []candidate{stepOf("resolved", turn.Resolved{ToolResolved: *p}), c.due()}
	case *events.ModelReplied:
		return c.replies(p)
	case *events.ModelFailed, *events.ModelInterrupted:
		return c.failures()
	case *events.HookRan:
		return []candidate{c.hooksCandidate(p)}
	case *events.ToolPended, *events.ToolReturned:
		return append(c.ends(), c.results()...)
	case *events.ToolCalled:
		return []candidate{stepOf("begin", turn.StartCalls{})}
	}
	return c.ends()
}

// requests are the candidates of a requested turn.
func (c *comparison) requests(id events.TurnID, p *events.TurnRequested) []candidate {
	r := *p
	r.Behind = ""
	return []candidate{
		{"request", func(s *projector.State) ([]events.Event, error) { return turn.Request(s, id, r), nil }},
		c.due(),
	}
}

// due are the events that are due. The worker takes the time before that of the commit, so what was due is what the
// commit has, if its time is the commit's or earlier.
func (c *comparison) due() candidate {
	at := c.entry.Commit.At
	return candidate{"due", func(s *projector.State) ([]events.Event, error) { return turn.DueEvents(s, at), nil }}
}

// claims are the candidates of a claim. There are none if the events are none of a claim.
func (c *comparison) claims() []candidate {
	in := turn.Claim{Tools: withoutHostFields(c.s.Catalog.Tools)}
	for i := c.at; i < len(c.list); i++ {
		switch p := c.list[i].Payload.(type) {
		case *events.ToolStateApplied:
			if !p.Continues {
				in.Tools = nil
			}
			in.Tools = append(in.Tools, withoutHostFields(p.Tools)...)
		case *events.TurnStarted:
			in.Worker, in.Points = p.Worker, p.Points
			if end, ok := c.payloadAfter(i).(*events.TurnCompleted); ok && end.End == events.EndInvalidInput {
				in.Problem = end.Issue
			}
			return []candidate{stepOf("claim", in)}
		case *events.TurnCompleted:
			if p.End != events.EndFailed {
				return []candidate{stepOf("claim", in)}
			}
			in.Refused = p.Issue
			return []candidate{stepOf("claim", in), {"given up", func(s *projector.State) ([]events.Event, error) { return turn.GiveUp(s, p.Issue) }}}
		case *events.TurnRequested: // for the input of a monitor
			if i > c.at || len(c.s.Queue) > 0 || !p.Input.Continue {
				return nil
			}
		case *events.GraphBranched, *events.InputAccepted:
		default:
			if !isAlwaysInput(&c.list[i]) {
				return nil
			}
		}
	}
	return nil
}

// withoutHostFields are the tools that a worker offered, without the fields that hosts set.
func withoutHostFields(tools []events.ToolEntry) []events.ToolEntry {
	list := make([]events.ToolEntry, 0, len(tools))
	for i := range tools {
		if t := tools[i]; !t.Orphan {
			t.Override = ""
			list = append(list, t)
		}
	}
	return list
}

func (c *comparison) payloadAfter(i int) events.Payload {
	if next := c.after(i); next != nil {
		return next.Payload
	}
	return nil
}

// replies are the candidates of a reply. The protocol's correction is recorded as its message only, which is missing at the
// limit of iterations.
func (c *comparison) replies(p *events.ModelReplied) []candidate {
	in := turn.Reply{ModelReplied: *p}
	in.Message = ""
	list := []candidate{stepOf("reply", in)}
	if appended, ok := c.payloadAfter(c.at).(*events.GraphAppended); ok && p.Fault == "" && len(appended.Nodes) == 1 {
		in.Correct = appended.Nodes[0].Message.Text()
		return []candidate{stepOf("reply to correct", in)}
	}
	if end, _ := c.ending(); end.End == events.EndMaxTurns && p.Fault == "" {
		in.Correct = "not recorded"
		list = append(list, stepOf("reply to correct", in))
	}
	return list
}

// failures are the candidates of a failed or interrupted model call.
func (c *comparison) failures() []candidate {
	next := c.payloadAfter(c.at)
	if cut, ok := c.list[c.at].Payload.(*events.ModelInterrupted); ok {
		failed, ok := next.(*events.ModelFailed)
		if !ok {
			return []candidate{stepOf("interrupted", turn.Interrupted{ModelInterrupted: *cut})}
		}
		return []candidate{stepOf("failure", failureOf(failed, cut))}
	}
	failed := c.list[c.at].Payload.(*events.ModelFailed)
	cut, _ := next.(*events.ModelInterrupted)
	return []candidate{stepOf("failure", failureOf(failed, cut))}
}

// failureOf is the input of a failed call. That the node cannot reach the provider is recorded as a fallback after a failure
// that is not retryable.
func failureOf(failed *events.ModelFailed, cut *events.ModelInterrupted) turn.Failure {
	in := turn.Failure{ModelFailed: *failed, Cut: cut, Unavailable: !failed.Retryable && !failed.Fallback.IsZero()}
	in.Fallback = events.FallbackTo{}
	return in
}

// hooksCandidate are the decisions of the hooks at a point: those of this program's hooks, where they run again, or else the
// recorded ones.
func (c *comparison) hooksCandidate(p *events.HookRan) candidate {
	name, recorded := "hooks of "+string(p.Point), c.hooks(p)
	if c.runHooks == nil {
		return stepOf(name, recorded)
	}
	return candidate{name, func(s *projector.State) ([]events.Event, error) {
		in, compared, err := c.runHooks(c.ctx, s, recorded)
		if err != nil {
			return nil, err
		}
		if !compared {
			return stepOf(name, recorded).decide(s)
		}
		c.counts.Hooks++
		for i := range in.Asks { // a time limit begins at the time of the question
			for j := range recorded.Asks {
				if a, b := &in.Asks[i], &recorded.Asks[j]; a.Effect == b.Effect && a.Until != 0 && b.Until != 0 {
					a.Until = b.Until
				}
			}
		}
		return stepOf(name, in).decide(s)
	}}
}

// hooks is the input of the hooks at a point.
func (c *comparison) hooks(p *events.HookRan) turn.Hooks {
	in := turn.Hooks{Ran: *p}
	if n := len(p.Decisions); n > 0 {
		for i := range p.Decisions {
			switch d := &p.Decisions[i]; d.Kind { //nolint:exhaustive // the others end no turn
			case events.DirectiveAbort:
				in.Abort = &events.Issue{Kind: "plugin", Code: d.Code, Message: d.Message}
			case events.DirectiveSwitch:
				in.Switch = c.hookSwitch()
			}
		}
	}
	if !p.Issue.IsZero() {
		return in // no decision was executed
	}
	for i := c.at + 1; i < len(c.list); i++ {
		switch next := c.list[i].Payload.(type) {
		case *events.TurnPrepared:
			in.Prepared = next
		case *events.ToolApprovalAsked:
			in.Asks = append(in.Asks, *next)
		case *events.GraphAppended:
			in.Messages = c.messages(p, next)
		case *events.ToolReturned:
			if p.Point == events.PointBeforeTool {
				in.Results = append(in.Results, next.Results...)
			}
		case *events.HookRan, *events.ModelReplied:
			if !isAlwaysInput(&c.list[i]) {
				return c.stopped(in)
			}
		}
	}
	return c.stopped(in)
}

// stopped adds why a turn stops before its first model call, if no decision aborts it.
func (c *comparison) stopped(in turn.Hooks) turn.Hooks {
	if end, _ := c.ending(); in.Ran.Point == events.PointBeforeTurn && in.Abort == nil && end.End == events.EndRuntimeError {
		in.Stopped = &end.Issue
	}
	return in
}

// messages are the messages of hooks. At a checkpoint those that the turn has queued precede them. Ids that the machine
// derived are removed.
func (c *comparison) messages(p *events.HookRan, appended *events.GraphAppended) []events.Message {
	skip := 0
	if t := c.s.Turn(); p.Point == events.PointCheckpoint && t != nil {
		for i := range t.Queued {
			if t.Queued[i].Role != events.RoleAssistant {
				skip++
			}
		}
	}
	var list []events.Message
	for i := min(skip, len(appended.Nodes)); i < len(appended.Nodes); i++ {
		m := appended.Nodes[i].Message
		if string(m.ID) == string(appended.Nodes[i].ID) && strings.HasPrefix(string(m.ID), "h-"+string(c.list[c.at].Turn)+"-") {
			m.ID = ""
		}
		list = append(list, m)
	}
	return list
}

// results are the candidates of finished calls.
func (c *comparison) results() []candidate {
	in := turn.Results{}
	i := c.at
	if p, ok := c.list[i].Payload.(*events.ToolPended); ok {
		in.Iteration, in.Pending = p.Iteration, p.Calls
		for i++; i < len(c.list) && isAlwaysInput(&c.list[i]); i++ {
		}
	}
	if i < len(c.list) {
		if p, ok := c.list[i].Payload.(*events.ToolReturned); ok {
			in.Iteration, in.Results = p.Iteration, p.Results
		}
	}
	stopped := in
	end, _ := c.ending()
	stopped.Results = slices.DeleteFunc(slices.Clone(in.Results), isGenerated)
	if len(in.Results) > 0 && len(stopped.Results) == 0 {
		in.Results = nil // no call returned: the machine gave all results
	}
	var list []candidate
	if end.End == events.EndRuntimeError {
		stopped.Stopped = &end.Issue
		list = append(list, stepOf("results that stop the turn", stopped))
	}
	if len(in.Results) > 0 || len(in.Pending) > 0 {
		list = append(list, stepOf("results", in))
	}
	return list
}

// isGenerated reports whether the machine gave a result to a cancelled call.
func isGenerated(r events.ToolResult) bool {
	return r.Outcome == events.OutcomeCancelled && r.Millis == 0 && r.Attempts == 0 && r.Blob.IsZero() &&
		turn.IsCancelledText(r.Text)
}

// ends are the candidates of the end of a turn.
func (c *comparison) ends() []candidate {
	t := c.s.Turn()
	end, direct := c.ending()
	if t == nil || end.IsZero() {
		return nil
	}
	var list []candidate
	if t.Cancelled {
		list = append(list, stepOf("stop", turn.Stop{}))
	}
	switch {
	case end.End == events.EndFailed:
		list = append(list, stepOf("failed pipeline", turn.Broken{Iteration: t.Iteration, Issue: end.Issue}))
	case end.End == events.EndSwitched:
		list = append(list, stepOf("frame switch", c.frameSwitch(end, direct)))
	case end.End == events.EndRuntimeError && strings.HasPrefix(end.Issue.Code, "agent_frame_"):
		to := c.repeatedSwitch()
		list = append(list, stepOf("frame switch", turn.Switch{Iteration: t.Iteration, FrameSwitch: to}))
	}
	return list
}

// ending is the end of the turn among the events from at on, before the next decisions of hooks. direct: no hooks run after it.
func (c *comparison) ending() (end events.TurnCompleted, direct bool) {
	id := c.list[c.at].Turn
	for i := c.at; i < len(c.list); i++ {
		if c.list[i].Turn != id {
			continue
		}
		switch p := c.list[i].Payload.(type) {
		case *events.TurnCompleted:
			return *p, true
		case *events.TurnCheckpointed:
			if p.At == events.AtEnd {
				return p.Ending, false
			}
		case *events.HookRan:
			if i > c.at && !isAlwaysInput(&c.list[i]) {
				return events.TurnCompleted{}, false
			}
		}
	}
	return events.TurnCompleted{}, false
}

// hookSwitch is the switch that a hook directed: that of the turn's end, or one that the machine refused.
func (c *comparison) hookSwitch() *events.FrameSwitch {
	to := c.repeatedSwitch()
	if end, direct := c.ending(); end.End == events.EndSwitched {
		to = c.frameSwitch(end, direct).FrameSwitch
	}
	return &to
}

// frameSwitch is the switch of a turn's end. The opened frame has its nodes.
func (c *comparison) frameSwitch(end events.TurnCompleted, direct bool) turn.Switch {
	in := turn.Switch{Iteration: c.s.Turn().Iteration, FrameSwitch: end.Switch}
	for i := c.at; direct && i < len(c.list); i++ {
		if opened, ok := c.list[i].Payload.(*events.FrameOpened); ok {
			in.Nodes = opened.Nodes
		}
	}
	return in
}

// repeatedSwitch is a switch that the machine refuses, because the frame exists or the limit is reached. The history has
// only the refusal.
func (c *comparison) repeatedSwitch() events.FrameSwitch {
	frames := c.s.Frames
	if len(frames) == 0 {
		return events.FrameSwitch{Frame: "not-recorded"}
	}
	name, _ := c.ending()
	for i := range frames {
		if strings.Contains(name.Issue.Message, fmt.Sprintf("%q", frames[i].ID)) {
			return events.FrameSwitch{Frame: frames[i].ID}
		}
	}
	return events.FrameSwitch{Frame: frames[len(frames)-1].ID}
}
