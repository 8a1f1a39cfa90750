package chat

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/transcript"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
)

// event shows an event before the view folds it.
func (v *View) event(c *events.Commit, ev *events.Event) {
	switch p := ev.Payload.(type) {
	case *events.TurnRequested:
		v.requested(c, p)
	case *events.TurnScheduled:
		v.emit(noted(Note, "%s asks for a turn at %s: %s", name(c, p.Callers), p.At.Time().Format("2006-01-02 15:04:05"), textOf(p.Input.Parts)))
	case *events.InputInjected:
		v.said(cmp.Or(p.Caller, name(c, nil)), textOf(p.Parts))
	case *events.TurnStarted:
		if t := v.s.Turn(); t != nil && t.ID == ev.Turn {
			v.retract()
			if p.Worker != t.Worker { // the same worker continues after an answer
				v.emit(noted(Note, "another node goes on with the turn (attempt %d)", p.Attempt))
			}
		}
	case *events.TurnCancelRequested:
		v.emit(noted(Note, "%s cancels the turn%s", name(c, nil), because(p.Reason)))
	case *events.TurnCompleted:
		v.completed(ev.Turn, p)
	case *events.TurnDiverted:
		v.diverted(ev.Turn, p)
	case *events.GraphAppended:
		v.nodes(p.Nodes)
	case *events.GraphBranched:
		v.branched(c, p)
	case *events.FrameOpened:
		if p.Reason == api.CompactionFrame {
			v.emit(noted(Note, "the conversation was compacted: the model goes on with a summary"))
		}
		if v.opts.Full {
			v.nodes(p.Nodes)
		}
	case *events.SessionConfigured:
		v.configured(c, p)
	case *events.SessionExtensionsSet:
		v.emit(noted(Note, "%s set the extensions of the session: there are %d now", name(c, nil), len(p.Extensions)))
	case *events.ToolSourcesApplied:
		v.emit(noted(Note, "%s set the tool sources: %s", name(c, nil), cmp.Or(strings.Join(p.Sources, ", "), "none")))
	case *events.SessionClosed:
		v.emit(noted(Note, "%s closed the session%s: /fork goes on in a copy", name(c, nil), because(p.Reason)))
	default:
		v.work(c, ev)
	}
}

// work shows model replies and tool calls of a turn.
func (v *View) work(c *events.Commit, ev *events.Event) {
	switch p := ev.Payload.(type) {
	case *events.TurnPrepared:
		for i := range p.View {
			if m := &p.View[i].Message; m.Role == events.RoleSystem && m.Origin != "" {
				v.emit(noted(Note, "%s", textOf(m.Parts)))
			}
		}
	case *events.ModelReplied:
		v.replied(ev.Turn, p)
	case *events.ModelFailed:
		v.retract()
		v.fails = p
		v.emit(noted(Problem, "the model call failed: %s", strings.TrimSpace(p.Error+" "+p.Code+" "+p.Message)))
		if !p.Fallback.IsZero() {
			v.emit(noted(Note, "the turn goes on with %s", strings.TrimSpace(p.Fallback.Provider+" "+p.Fallback.Model)))
		}
	case *events.ModelInterrupted:
		v.interrupted(p)
	case *events.ToolReturned:
		for i := range p.Results {
			v.result(ev.Turn, p.Iteration, &p.Results[i])
		}
	case *events.ToolLost:
		for _, call := range p.Calls {
			v.emit(noted(Problem, "%s: lost: whether it ran is unknown", v.call(ev.Turn, p.Iteration, call)))
		}
	case *events.ToolPended:
		for _, call := range p.Calls {
			v.emit(noted(Note, "%s: waits for its result from outside", v.call(ev.Turn, p.Iteration, call)))
		}
	case *events.ToolApprovalAsked:
		v.asked(&projector.Approval{ToolApprovalAsked: *p}, "")
	case *events.ToolApprovalGiven:
		v.answered(c, p)
	case *events.ToolNestedCalled:
		v.emit(noted(Note, "code calls %s", p.Tool))
	}
}

// name is the caller of a commit.
func name(c *events.Commit, callers []string) string {
	if len(callers) > 0 {
		return strings.Join(callers, ", ")
	}
	return cmp.Or(c.Actor.ID, string(c.Actor.Kind))
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func (v *View) requested(c *events.Commit, p *events.TurnRequested) {
	text := textOf(p.Input.Parts)
	if p.Input.Continue {
		text = "(go on)"
	}
	v.said(name(c, p.Callers), text)
	if p.Behind != "" || v.Turn() != "" {
		v.emit(noted(Note, "it waits behind the turn that runs"))
	}
}

// said shows a user's prompt, after a blank line.
func (v *View) said(who, text string) {
	v.emit(Line{Note, ""})
	mark := transcript.VisibleLine(who) + " > "
	for i, l := range linesOf(Said, cmp.Or(text, "(nothing)")) {
		if i > 0 {
			mark = strings.Repeat(" ", len(mark))
		}
		v.emit(Line{Said, mark + l.Text})
	}
}

func (v *View) completed(turn events.TurnID, p *events.TurnCompleted) {
	defer func() { v.fails = nil }()
	v.retract()
	switch p.End {
	case events.EndFinished, events.EndSubmitted:
	case events.EndToolValue:
		v.emit(noted(Note, "the turn ended with the result of %s", p.Tool))
	case events.EndSwitched:
		v.emit(noted(Note, "the turn goes on in a new frame"))
	case events.EndCancelled:
		v.emit(noted(Note, "the turn was cancelled"))
	case events.EndIncomplete, events.EndInvalidInput, events.EndMaxTurns, events.EndProviderError, events.EndRuntimeError, events.EndToolError,
		events.EndPluginAbort, events.EndFailed, events.EndRejected, events.EndInjected, events.EndBranched:
		said := strings.TrimSpace(p.Issue.Code + " " + p.Issue.Message)
		if v.fails != nil {
			said = "" // the prompt is on screen already
		}
		v.emit(noted(Problem, "turn %s ended: %s%s: %s", turn, p.End, because(said), v.advice()))
	}
}

// advice is the next step after a turn that ended without an answer.
func (v *View) advice() string {
	const again = "say it again, or /model NAME takes another model"
	switch f := v.fails; {
	case f == nil:
		return again
	case f.Error == string(llm.KindTransport):
		return "is OPENAI_BASE_URL, or ANTHROPIC_BASE_URL, of the node right, and does the endpoint run? " + again
	case f.Status == http.StatusNotFound:
		return again + "; with an endpoint of your own, OPENAI_BASE_URL of the node mostly ends with /v1"
	case f.Error == string(llm.KindAuth):
		return "is OPENAI_API_KEY, or ANTHROPIC_API_KEY, of the node right? " + again
	}
	return again
}

func (v *View) diverted(turn events.TurnID, p *events.TurnDiverted) {
	switch p.End {
	case events.EndInjected:
		v.emit(noted(Note, "the running turn took the message in"))
	case events.EndBranched:
		v.emit(noted(Note, "turn %s goes on in session %s", turn, p.Session))
	default:
		v.emit(noted(Note, "turn %s was %s, because turn %s runs", turn, p.End, p.By))
	}
}

// nodes shows messages that hosts and plugins add.
func (v *View) nodes(list []events.NewNode) {
	for i := range list {
		if list[i].Kind == events.NodeMessage {
			v.message(&list[i].Message, "")
		}
	}
}

func (v *View) branched(c *events.Commit, p *events.GraphBranched) {
	if p.Leaf == "" {
		v.emit(noted(Note, "%s went back to before the first message", name(c, nil)))
		return
	}
	said := ""
	if n, err := v.s.Node(p.Leaf); err == nil && n != nil {
		said = because(clip(textOf(n.Message.Parts), 1, argsBytes, "/branch lists"))
	}
	v.emit(noted(Note, "%s went back to %s%s", name(c, nil), p.Leaf, said))
}

func (v *View) configured(c *events.Commit, p *events.SessionConfigured) {
	if p.Config.Model != v.s.Config.Model {
		v.emit(noted(Note, "%s set the model: %s", name(c, nil), cmp.Or(p.Config.Model, "the node's")))
		return
	}
	v.emit(noted(Note, "%s changed the configuration", name(c, nil)))
}

func (v *View) replied(turn events.TurnID, p *events.ModelReplied) {
	v.model, v.fails = cmp.Or(p.Model, v.model), nil
	text := textOf(p.Parts)
	if len(p.Shown) > 0 {
		text = textOf(p.Shown)
	}
	v.thought(p.Parts)
	v.finish(text)
	if p.Prompt.Room > 0 && v.pruned != turn {
		v.pruned = turn
		v.emit(noted(Note, "earlier parts of the conversation were left out of the prompt, to fit the model's window: /compact summarises them"))
	}
	if p.Fault != "" {
		v.emit(noted(Note, "the answer is not of the form that was asked for: %s", p.Fault))
	}
	v.made(turn, p.Iteration, p.Parts)
}

func (v *View) thought(parts []events.Part) {
	for i := range parts {
		if v.opts.Full && parts[i].Kind == events.PartReasoning {
			v.emit(linesOf(Thought, parts[i].Text)...)
		}
	}
}

// made shows the tool calls of a reply.
func (v *View) made(id events.TurnID, iteration int64, parts []events.Part) {
	call := int64(0)
	for i := range parts {
		p := &parts[i]
		if p.Kind != events.PartToolCall {
			continue
		}
		n := v.number(turn.ToolEffect(id, iteration, call))
		args := packed(p.Args)
		if !p.Blob.IsZero() {
			args = fmt.Sprintf("(%d bytes)", p.Blob.Size)
		}
		v.emit(noted(Call, "#%d %s %s", n, p.Tool, v.short(args, 1, argsBytes, n)))
		call++
	}
}

// short shortens a text of a call, except with --full.
func (v *View) short(text string, lines, limit, n int) string {
	if v.opts.Full {
		return text
	}
	return clip(text, lines, limit, v.more(fmt.Sprintf("/show %d", n)))
}

// call names a call of the running turn.
func (v *View) call(id events.TurnID, iteration, call int64) string {
	tool := ""
	if t := v.s.Turn(); t != nil && t.ID == id && call < int64(len(t.Calls)) {
		tool = " " + t.Calls[call].Tool
	}
	return fmt.Sprintf("#%d%s", v.number(turn.ToolEffect(id, iteration, call)), tool)
}

func (v *View) result(id events.TurnID, iteration int64, r *events.ToolResult) {
	name := v.call(id, iteration, r.Call)
	n := v.number(turn.ToolEffect(id, iteration, r.Call))
	word := ""
	if r.Outcome != events.OutcomeSuccess {
		word = " " + string(r.Outcome)
	}
	text := r.Text
	if !r.Blob.IsZero() {
		text = fmt.Sprintf("(%d bytes, %s)", r.Blob.Size, v.more(fmt.Sprintf("/show %d", n)))
	}
	list := linesOf(Result, v.short(text, resultLines, resultBytes, n))
	first := noted(Result, "%s%s", name, word)
	if len(list) == 1 {
		first.Text += ": " + list[0].Text
		list = nil
	}
	v.emit(first)
	v.emit(list...)
}

// asked shows a question, with the arguments of the call. agent is empty where the session itself asks.
func (v *View) asked(a *projector.Approval, agent events.SessionID) {
	args := packed(a.Args)
	if !a.Blob.IsZero() {
		args = fmt.Sprintf("(%d bytes, %s)", a.Blob.Size, v.more("/show shows them"))
	}
	if !v.opts.Full {
		args = clip(args, 1, questionBytes, v.more("/show shows them"))
	}
	how := "  y lets it run; n, or n and a reason, refuses it"
	if _, _, _, whole := turn.ParseToolEffect(a.Effect); !whole && bytes.Contains(a.Args, []byte(`"requestedSchema"`)) {
		how = "  y and the JSON of an object of this schema answers it; n, or n and a reason, refuses it"
		if bytes.Contains(a.Args, []byte(`"defaults"`)) {
			how = "  y answers it with the defaults; y and the JSON of an object of this schema answers it, and has them for what it leaves out; n, or n and a reason, refuses it"
		}
	}
	by := a.Plugin
	if agent != "" {
		by += ", for agent " + string(agent)
	}
	v.emit(noted(Question, "? %s (asks %s)", a.Question, by), noted(Question, "  %s %s", a.Tool, args), noted(Question, "%s", how))
}

func (v *View) answered(c *events.Commit, p *events.ToolApprovalGiven) {
	tool := string(p.Effect)
	if t := v.s.Turn(); t != nil {
		if a := t.Approval(p.Effect); a != nil {
			tool = a.Tool
		}
	}
	who := cmp.Or(p.By, name(c, nil))
	if p.Granted {
		v.emit(noted(Note, "%s lets %s run", who, tool))
		return
	}
	v.emit(noted(Note, "%s refused %s%s", who, tool, because(p.Reason)))
}
