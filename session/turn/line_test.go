package turn_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// tools parses a worker's tools: name, or name:effects.
func (a args) tools() []events.ToolEntry {
	var list []events.ToolEntry
	for _, w := range a {
		name, effects, _ := strings.Cut(w, ":")
		list = append(list, events.ToolEntry{Name: name, Effects: events.Effects(effects)})
	}
	return list
}

// input parses the input of a turn from word i on. Without words, the turn continues from the leaf.
func (a args) input(i int) events.TurnInput {
	if a.word(i) == "" {
		return events.TurnInput{Continue: true}
	}
	in := events.TurnInput{Parts: textParts(a.word(i))}
	if name := a.get("form"); name != "" {
		in.Output = events.OutputForm{Name: name, Schema: []byte("{}")}
	}
	return in
}

// machine parses a line that is an input of the machine.
func (a args) machine(t *testing.T, name string, tools []events.ToolEntry, s *projector.State) turn.Input {
	t.Helper()
	iteration := int64(0)
	if running := s.Turn(); running != nil {
		iteration = running.Iteration
	}
	if a.get("iteration") != "" {
		iteration = a.num("iteration")
	}
	switch name {
	case "claim": // claim <worker> [problem=<code>]
		c := turn.Claim{Worker: events.WorkerID(a.word(0)), Tools: tools}
		if code := a.get("problem"); code != "" {
			c.Problem = events.Issue{Kind: "input_validation", Code: code}
		}
		return c
	case "reply": // reply [<text>] [call=<tool>]... [think=<text>] [stop=<reason>] [usage=<in>,<out>] [fault=<why>]
		return a.reply(iteration)
	case "fail": // fail <kind> [code=<code>] [again=yes] [gone=yes] [cut=<text>]
		f := turn.Failure{Unavailable: a.get("gone") != "", ModelFailed: events.ModelFailed{
			Iteration: iteration, Error: a.word(0), Code: a.get("code"), Message: "down", Retryable: a.get("again") != "",
		}}
		if text := a.get("cut"); text != "" {
			f.Cut = &events.ModelInterrupted{Iteration: iteration, Parts: textParts(text)}
		}
		return f
	case "cut": // cut <text>
		return turn.Interrupted{ModelInterrupted: events.ModelInterrupted{Iteration: iteration, Parts: []events.Part{{Kind: events.PartText, Text: a.word(0)}}}}
	case "results": // results <call>:<text>[!<control>]...
		in := turn.Results{Iteration: iteration}
		for _, w := range a {
			if call, text, ok := strings.Cut(w, ":"); ok {
				n, _ := strconv.ParseInt(call, 10, 64)
				text, control, _ := strings.Cut(text, "!")
				in.Results = append(in.Results, events.ToolResult{Call: n, Text: text, Control: events.Control(control)})
			}
		}
		return in
	case "pend": // pend <call>
		n, _ := strconv.ParseInt(a.word(0), 10, 64)
		return turn.Results{Iteration: iteration, Pending: []int64{n}}
	case "resolve": // resolve <effect> <text>
		return turn.Resolved{ToolResolved: events.ToolResolved{Effect: events.EffectID(a.word(0)), Result: events.ToolResult{Text: a.word(1)}}}
	case "begin":
		return turn.StartCalls{}
	case "stop":
		return turn.Stop{}
	}
	t.Fatalf("unknown line %q", name)
	return nil
}

func (a args) reply(iteration int64) turn.Reply {
	r := events.ModelReplied{Iteration: iteration, Stop: events.StopEnd}
	if s := a.get("stop"); s != "" {
		r.Stop = events.StopReason(s)
	}
	if s := a.get("usage"); s != "" {
		_, err := fmt.Sscanf(s, "%d,%d", &r.Usage.Input, &r.Usage.Output)
		if err != nil {
			panic(err)
		}
	}
	if s := a.get("think"); s != "" {
		r.Parts = append(r.Parts, events.Part{Kind: events.PartReasoning, Text: s})
	}
	if s := a.word(0); s != "" {
		r.Parts = append(r.Parts, textParts(s)...)
	}
	for _, w := range a {
		if tool, ok := strings.CutPrefix(w, "call="); ok {
			r.Parts = append(r.Parts, events.Part{Kind: events.PartToolCall, Call: "c", Tool: tool, Args: []byte("{}")})
		}
	}
	r.Fault = a.get("fault")
	return turn.Reply{ModelReplied: r}
}

// render formats an event as one line.
func render(e *events.Event) string {
	line := string(e.Kind)
	if e.Turn != "" {
		line += " " + string(e.Turn)
	}
	add := func(key string, value any) {
		if s := fmt.Sprint(value); s != "" && s != "0" && s != "[]" {
			line += " " + key + "=" + s
		}
	}
	switch p := e.Payload.(type) {
	case *events.TurnRequested:
		add("input", textOf(p.Input.Parts))
		add("busy", p.Busy)
		add("behind", p.Behind)
	case *events.TurnDiverted:
		line += " " + string(p.End)
		add("by", p.By)
		add("at", p.At)
		add("message", p.Message)
		add("session", p.Session)
	case *events.TurnStarted:
		add("attempt", p.Attempt)
		add("worker", p.Worker)
		add("message", p.Message)
	case *events.TurnCompleted:
		line += " " + string(p.End)
		add("issue", strings.Trim(p.Issue.Kind+"/"+p.Issue.Code, "/"))
		add("notice", p.Notice)
		add("tool", p.Tool)
		add("call", p.Call)
	case *events.ModelReplied:
		add("iteration", p.Iteration)
		add("text", textOf(p.Parts))
		add("stop", p.Stop)
		add("message", p.Message)
		add("fault", p.Fault)
	case *events.ModelInterrupted:
		add("iteration", p.Iteration)
		add("text", textOf(p.Parts))
	case *events.ModelFailed:
		add("error", p.Error)
		add("code", p.Code)
		if f := p.Fallback; !f.IsZero() {
			line += fmt.Sprintf(" fallback=%d:%s/%s", f.Place, f.Provider, f.Model)
		}
	case *events.GraphBranched:
		add("leaf", p.Leaf)
	case *events.ToolStateApplied:
		add("generation", p.Generation)
		for _, tool := range p.Tools {
			line += " " + strings.TrimRight(fmt.Sprintf("%s:%s:%s", tool.Name, tool.Effects, tool.Effective()), ":")
		}
	case *events.ToolCalled:
		add("iteration", p.Iteration)
		add("calls", p.Calls)
	case *events.ToolPended:
		line += fmt.Sprint(" calls=", p.Calls)
	case *events.TurnCancelRequested:
		add("request", p.Request)
		add("origin", p.Origin)
	case *events.ToolResolved:
		add("effect", p.Effect)
		add("text", p.Result.Text)
		add("by", p.By)
	case *events.ToolApprovalGiven:
		add("effect", p.Effect)
		line += fmt.Sprint(" granted=", p.Granted)
		add("by", p.By)
		add("reason", p.Reason)
	case *events.ToolReturned:
		add("iteration", p.Iteration)
		for _, r := range p.Results {
			line += fmt.Sprintf(" %d=%q", r.Call, strings.TrimSpace(string(r.Outcome)+" "+r.Text))
		}
		add("message", p.Message)
	case *events.ToolLost:
		add("iteration", p.Iteration)
		add("calls", p.Calls)
		add("message", p.Message)
	case *events.InputAccepted:
		line += fmt.Sprintf(" %d at=%s", len(p.Inputs), p.At)
		add("first", p.Inputs[0])
		add("last", p.Inputs[len(p.Inputs)-1])
	}
	return line
}

func textOf(parts []events.Part) string {
	var list []string
	for _, p := range parts {
		switch p.Kind {
		case events.PartText, events.PartReasoning:
			list = append(list, p.Text)
		case events.PartToolCall:
			list = append(list, p.Tool+"()")
		case events.PartToolResult, events.PartAttachment:
		}
	}
	return strings.Join(list, ",")
}
