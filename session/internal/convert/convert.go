package convert

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Usage is the usage of tokens.
func Usage(u events.Usage) api.TokenUsage {
	return api.TokenUsage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning}
}

// Outcome is the outcome of a turn whose last reply has this text. value is the result of the tool that ended it, if
// one did.
func Outcome(p *events.TurnCompleted, text, value string) api.TurnOutcome {
	switch {
	case p.End == events.EndToolValue:
		return api.TurnOutcome{Type: api.OutcomeToolValue, ToolName: p.Tool, Value: value}
	case p.End == events.EndSubmitted && p.Tool == "": // an answer of the requested form
		return api.TurnOutcome{Type: api.OutcomeSubmittedValue, Value: text}
	case p.End == events.EndSubmitted:
		return api.TurnOutcome{Type: api.OutcomeSubmittedValue, Value: value}
	case p.End == events.EndSwitched:
		return api.TurnOutcome{Type: api.OutcomeFrameSwitch, FrameID: p.Switch.Frame, Task: p.Switch.Task}
	case p.End == events.EndToolError:
		return api.TurnOutcome{Type: api.OutcomeStopped, Reason: p.End, ToolName: p.Tool, Value: value}
	case p.End.Stopped():
		return api.TurnOutcome{Type: api.OutcomeStopped, Reason: p.End}
	}
	return api.TurnOutcome{Type: api.OutcomeAssistantMessage, Text: text}
}

// Diverted is the outcome of a turn that did not start.
func Diverted(p *events.TurnDiverted) api.TurnOutcome {
	return api.TurnOutcome{Type: api.OutcomeDiverted, Reason: p.End, By: p.By, Session: p.Session}
}

// TurnError collects the facts of a turn's error.
type TurnError struct {
	stop    events.StopReason // of the last reply
	failure *events.ModelFailed
}

// Add takes the next event of the turn.
func (t *TurnError) Add(p events.Payload) {
	switch p := p.(type) {
	case *events.ModelReplied:
		t.stop, t.failure = p.Stop, nil
	case *events.ModelFailed:
		t.failure = p
	}
}

// Envelope is the error of a turn that ended with an issue.
func (t *TurnError) Envelope(i events.Issue) api.ErrorEnvelope {
	e := api.ErrorEnvelope{Kind: i.Kind, Code: i.Code, UserMessage: i.Message}
	if f := t.failure; f != nil {
		e.ProviderFailureKind, e.Raw, e.Retryable = f.Error, f.Raw, &f.Retryable
	}
	if e.UserMessage == "" {
		e.UserMessage = i.Code
	}
	if t.stop != events.StopEnd && t.stop != events.StopToolUse {
		e.TerminalReason = t.stop
	}
	return e
}

// Args is the arguments of a call as JSON, also where the model wrote no JSON.
func Args(args []byte) json.RawMessage {
	if len(args) == 0 {
		return json.RawMessage("{}")
	}
	return eventjson.Raw(args)
}

// Emitted are the events for users in a hook's decision.
func Emitted(d *events.Decision) []json.RawMessage {
	var list []json.RawMessage
	_ = json.Unmarshal(d.Body, &list) // the recording host checked them
	return list
}

// InputMessage is a message of an input.
func InputMessage(role events.Role, parts []events.Part) api.InputMessage {
	m := api.InputMessage{Role: role}
	for _, p := range parts {
		m.Parts = append(m.Parts, api.InputPart{Type: p.Kind, Text: p.Text, MediaType: p.MediaType, Blob: p.Blob.Digest})
	}
	return m
}

// Text joins the texts of the parts of one kind.
func Text(parts []events.Part, kind events.PartKind) string {
	text := ""
	for i := range parts {
		if parts[i].Kind == kind {
			text += parts[i].Text
		}
	}
	return text
}

// Child is the usage of a child session by its charge.
func Child(p *events.UsageCharged) projector.ChildUsage {
	return projector.ChildUsage{Session: p.Child, Source: p.Source, At: p.At, Entries: p.Entries}
}

// Ledger lists the usage of children.
func Ledger(children ...projector.ChildUsage) []projector.LedgerEntry {
	var list []projector.LedgerEntry
	for _, c := range children {
		for _, e := range c.Entries {
			list = append(list, projector.LedgerEntry{Source: c.Source, Model: e.Model, Usage: e.Usage})
		}
	}
	return list
}
