package index

import (
	"github.com/lash-go/lash/events"
)

// Facts are what a search finds of an event.
type Facts struct {
	Texts    []string
	Tools    []string
	Outcomes []string // of turns, calls, tasks and monitors; granted and refused of approvals
	Last     string   // the text of a reply
}

// Outcomes of answers to approval requests.
const (
	Granted = "granted"
	Refused = "refused"
)

// Of lists the facts of an event. Bodies outside the log are not read: their texts are not found.
func Of(ev *events.Event) (f Facts) {
	switch p := ev.Payload.(type) {
	case *events.TurnRequested:
		f.parts(p.Input.Parts)
	case *events.TurnScheduled:
		f.parts(p.Input.Parts)
	case *events.TurnCancelRequested:
		f.text(p.Reason)
	case *events.TurnCompleted:
		f.outcome(string(p.End))
		f.text(p.Issue.Code, p.Issue.Message)
	case *events.TurnDiverted:
		f.outcome(string(p.End))
	case *events.ModelReplied:
		f.parts(p.Parts)
		f.Last = lastText(p.Parts)
	case *events.ModelInterrupted:
		f.parts(p.Parts)
	case *events.ModelFailed:
		f.outcome(p.Error)
		f.text(p.Code, p.Message)
	case *events.ModelCompleted:
		f.parts(p.Parts)
	case *events.ToolReturned:
		for i := range p.Results {
			f.result(&p.Results[i])
		}
	case *events.ToolResolved:
		f.result(&p.Result)
	case *events.ToolNestedReturned:
		f.tool(p.Tool)
		f.text(string(p.Args))
		f.result(&p.Result)
	case *events.ToolLost:
		f.outcome(string(events.OutcomeLost))
	case *events.ToolApprovalAsked:
		f.tool(p.Tool)
		f.text(p.Question)
	case *events.ToolApprovalGiven:
		f.outcome(Refused)
		if p.Granted {
			f.Outcomes[0] = Granted
		}
		f.text(p.Reason)
	case *events.HookRan:
		for i := range p.Decisions {
			f.text(p.Decisions[i].Message)
		}
		f.text(p.Issue.Code, p.Issue.Message)
	default:
		f.outside(ev)
	}
	return f
}

// outside adds the facts of events outside of turns.
func (f *Facts) outside(ev *events.Event) {
	switch p := ev.Payload.(type) {
	case *events.SessionOpened:
		f.parts(p.First.Parts)
		f.text(p.Config.Instructions)
	case *events.SessionClosed:
		f.text(p.Reason)
	case *events.GraphAppended:
		f.nodes(p.Nodes)
	case *events.FrameOpened:
		f.text(p.Reason)
		f.nodes(p.Nodes)
	case *events.InputInjected:
		f.parts(p.Parts)
	case *events.TaskRegistered:
		f.text(p.Summary)
	case *events.TaskProgressed:
		f.text(p.Message)
	case *events.TaskCancelRequested:
		f.text(p.Reason)
	case *events.TaskEnded:
		f.outcome(string(p.State))
		f.text(p.Summary)
	case *events.MonitorRegistered:
		f.text(p.Spec.Command)
	case *events.MonitorReported:
		for i := range p.Lines {
			f.text(p.Lines[i].Text)
		}
	case *events.MonitorEnded:
		f.outcome(string(p.State))
		f.text(p.Error)
	}
}

func (f *Facts) text(list ...string) {
	for _, s := range list {
		if s != "" {
			f.Texts = append(f.Texts, s)
		}
	}
}

func (f *Facts) tool(name string) { f.Tools = append(f.Tools, name) }

func (f *Facts) outcome(o string) {
	if o != "" {
		f.Outcomes = append(f.Outcomes, o)
	}
}

func (f *Facts) parts(list []events.Part) {
	for i := range list {
		p := &list[i]
		switch p.Kind {
		case events.PartText, events.PartReasoning, events.PartToolResult:
			f.text(p.Text)
		case events.PartToolCall:
			f.tool(p.Tool)
			f.text(string(p.Args))
		case events.PartAttachment:
		}
	}
}

func (f *Facts) nodes(list []events.NewNode) {
	for i := range list {
		f.parts(list[i].Message.Parts)
		f.text(string(list[i].Body))
	}
}

func (f *Facts) result(r *events.ToolResult) {
	f.text(r.Text, r.Full, r.Code)
	if r.Outcome == events.OutcomeSuccess {
		f.outcome("success")
	} else {
		f.outcome(string(r.Outcome))
	}
}

func lastText(parts []events.Part) string {
	for i := len(parts) - 1; i >= 0; i-- {
		if p := &parts[i]; p.Kind == events.PartText && p.Text != "" {
			return p.Text
		}
	}
	return ""
}
