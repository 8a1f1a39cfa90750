package session

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

func usageOf(u events.Usage) TokenUsage {
	return TokenUsage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning}
}

// outcomeOf is the outcome of a turn whose last reply has this text. value is
// the result of the tool that ended it, if one did.
func outcomeOf(end events.TurnEnd, tool, text, value string) TurnOutcome {
	switch {
	case end == events.EndToolValue:
		return TurnOutcome{Type: OutcomeToolValue, ToolName: tool, Value: value}
	case end == events.EndToolError:
		return TurnOutcome{Type: OutcomeStopped, Reason: end, ToolName: tool, Value: value}
	case end == events.EndSubmitted:
		return TurnOutcome{Type: OutcomeSubmittedValue, Value: value}
	case end.Stopped():
		return TurnOutcome{Type: OutcomeStopped, Reason: end}
	}
	return TurnOutcome{Type: OutcomeAssistantMessage, Text: text}
}

// turnError collects what a turn's error is told from.
type turnError struct {
	stop    events.StopReason // of the last reply
	failure string            // kind of the failure of the last model call
}

func (t *turnError) learn(p events.Payload) {
	switch p := p.(type) {
	case *events.ModelReplied:
		t.stop = p.Stop
	case *events.ModelFailed:
		t.failure = p.Error
	}
}

func (t *turnError) envelope(i events.Issue) ErrorEnvelope {
	e := ErrorEnvelope{Kind: i.Kind, Code: i.Code, UserMessage: i.Message, ProviderFailureKind: t.failure}
	if e.UserMessage == "" {
		e.UserMessage = i.Code
	}
	if t.stop != events.StopEnd && t.stop != events.StopToolUse {
		e.TerminalReason = t.stop
	}
	return e
}

// argsOf is what a model gave as arguments, as JSON whatever it gave.
func argsOf(args []byte) json.RawMessage {
	switch {
	case len(args) == 0:
		return json.RawMessage("{}")
	case json.Valid(args):
		return args
	}
	quoted, _ := json.Marshal(string(args)) // a string always can be
	return quoted
}

// textOf joins the texts of the parts of one kind.
func textOf(parts []events.Part, kind events.PartKind) string {
	text := ""
	for i := range parts {
		if parts[i].Kind == kind {
			text += parts[i].Text
		}
	}
	return text
}
