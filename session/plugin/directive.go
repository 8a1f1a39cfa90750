package plugin

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// Directive is what a hook asks for. Make one with the functions below. A list
// is checked as a whole, against what its point allows, before any of it is
// carried out (host specification 4.3).
type Directive struct {
	Kind     events.DirectiveKind
	Code     string        // of aborts
	Message  string        // of aborts and questions
	Within   time.Duration // of questions: how long an answer may take; 0: for ever
	Messages []events.Message
	Create   *api.CreateRequest
	Args     json.RawMessage
	Result   *Result
	Events   []json.RawMessage
	Name     string // of a trace
	Payload  json.RawMessage
}

// Abort stops the turn; of a tool hook, only the call.
func Abort(code, message string) Directive {
	return Directive{Kind: events.DirectiveAbort, Code: code, Message: message}
}

// Enqueue appends messages at the point, or at the next checkpoint. Those of assistants are dropped.
func Enqueue(messages ...events.Message) Directive {
	return Directive{Kind: events.DirectiveEnqueue, Messages: messages}
}

// Say is a message of one text.
func Say(role events.Role, text string) events.Message {
	return events.Message{Role: role, Parts: []events.Part{{Kind: events.PartText, Text: text}}}
}

// CreateSession creates a session.
func CreateSession(req api.CreateRequest) Directive {
	return Directive{Kind: events.DirectiveCreate, Create: &req}
}

// ReplaceArgs lets a call run with other arguments, JSON. Of several the last counts.
func ReplaceArgs(args json.RawMessage) Directive {
	return Directive{Kind: events.DirectiveReplaceArgs, Args: args}
}

// ShortCircuit answers a call in the tool's place; after the call, it replaces the answer.
func ShortCircuit(r Result) Directive {
	return Directive{Kind: events.DirectiveShortCircuit, Result: &r}
}

// Emit shows events, JSON, to the hosts that watch.
func Emit(list ...json.RawMessage) Directive {
	return Directive{Kind: events.DirectiveEmitEvents, Events: list}
}

// Trace writes to the trace, as "plugin.<plugin>.<name>".
func Trace(name string, payload json.RawMessage) Directive {
	return Directive{Kind: events.DirectiveEmitTrace, Name: name, Payload: payload}
}

// Ask lets a call wait until somebody approves it.
func Ask(question string) Directive {
	return Directive{Kind: events.DirectiveAskApproval, Message: question}
}

// AskWithin is [Ask] that gives nobody's answer for a refusal after a time.
func AskWithin(question string, within time.Duration) Directive {
	return Directive{Kind: events.DirectiveAskApproval, Message: question, Within: within}
}

// allowed is the matrix of host specification 4.3.
func (d Directive) allowed(point events.HookPoint) bool {
	tool := point == events.PointBeforeTool || point == events.PointAfterTool
	switch d.Kind {
	case events.DirectiveAbort:
		return point != events.PointAfterTurn
	case events.DirectiveEnqueue:
		return point != events.PointBeforeTool
	case events.DirectiveReplaceArgs, events.DirectiveAskApproval:
		return point == events.PointBeforeTool
	case events.DirectiveShortCircuit:
		return tool
	case events.DirectiveCreate, events.DirectiveEmitEvents, events.DirectiveEmitTrace:
		return true
	}
	return false
}

// check reports what is wrong with a directive at a point.
func (d Directive) check(point events.HookPoint) error {
	switch {
	case d.Kind == events.DirectiveEnqueue && point == events.PointBeforeTool:
		return fmt.Errorf("%s: no message injection before a tool call", d.Kind)
	case !d.allowed(point):
		return fmt.Errorf("directive %q is not allowed at %s", d.Kind, point)
	case d.Kind == events.DirectiveCreate && d.Create == nil:
		return fmt.Errorf("%s: request is missing", d.Kind)
	case d.Kind == events.DirectiveShortCircuit && d.Result == nil:
		return fmt.Errorf("%s: result is missing", d.Kind)
	case d.Kind == events.DirectiveShortCircuit && d.Result.Check() != nil:
		return fmt.Errorf("%s: %w", d.Kind, d.Result.Check())
	case d.Within < 0:
		return fmt.Errorf("%s: time for an answer is %s, want 0 or more", d.Kind, d.Within)
	case d.Kind == events.DirectiveReplaceArgs && !json.Valid(d.Args):
		return fmt.Errorf("%s: arguments are no JSON", d.Kind)
	case d.Kind == events.DirectiveEmitTrace && len(d.Payload) > 0 && !json.Valid(d.Payload):
		return fmt.Errorf("%s: payload is no JSON", d.Kind)
	}
	if err := checkEvents(d.Events); err != nil {
		return fmt.Errorf("%s: %w", d.Kind, err)
	}
	for i := range d.Messages {
		if err := d.Messages[i].Validate(); err != nil {
			return fmt.Errorf("%s: messages[%d]: %w", d.Kind, i, err)
		}
	}
	return nil
}

// Owned is a value with the plugin that it came from.
type Owned[T any] struct {
	Plugin string
	Value  T
}

// CheckDirectives validates a whole list against its point, so that nothing of an invalid one is carried out.
func CheckDirectives(point events.HookPoint, list []Owned[Directive]) error {
	for i := range list {
		if err := list[i].Value.check(point); err != nil {
			return &HookError{Plugin: list[i].Plugin, Point: string(point), Err: err}
		}
	}
	return nil
}
