package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// Directive is an instruction of a hook to the turn. The functions below make directives. The whole list of a hook
// point is checked before any directive of it is executed.
type Directive struct {
	Kind     events.DirectiveKind
	Code     string        // of aborts
	Message  string        // of aborts and approvals, or the text of a system prompt
	Within   time.Duration // of approvals: time limit for the answer; 0 means no limit
	Messages []events.Message
	Create   *api.CreateRequest
	Args     json.RawMessage
	Result   *Result
	Events   []json.RawMessage
	Name     string           // of a trace event
	Payload  json.RawMessage  // of a trace event, or places
	Place    api.TraceContext // of a trace event: see [TraceHost]. The history does not have it

	Contributions []events.Contribution
	Switch        *events.FrameSwitch
}

// Abort stops the turn. From a tool hook it fails the call only.
func Abort(code, message string) Directive {
	return Directive{Kind: events.DirectiveAbort, Code: code, Message: message}
}

// Enqueue appends messages at this point or at the next checkpoint. Messages with the role assistant are dropped.
func Enqueue(messages ...events.Message) Directive {
	return Directive{Kind: events.DirectiveEnqueue, Messages: messages}
}

// Say is a message with one text.
func Say(role events.Role, text string) events.Message {
	return events.Message{Role: role, Parts: []events.Part{{Kind: events.PartText, Text: text}}}
}

// CreateSession creates a session.
func CreateSession(req api.CreateRequest) Directive {
	return Directive{Kind: events.DirectiveCreate, Create: &req}
}

// ReplaceArgs replaces a call's arguments, JSON. The last such directive wins.
func ReplaceArgs(args json.RawMessage) Directive {
	return Directive{Kind: events.DirectiveReplaceArgs, Args: args}
}

// ShortCircuit gives the result in place of the tool. After the call, it replaces the result.
func ShortCircuit(r Result) Directive {
	return Directive{Kind: events.DirectiveShortCircuit, Result: &r}
}

// Emit sends events, JSON, to the hosts that watch the session.
func Emit(list ...json.RawMessage) Directive {
	return Directive{Kind: events.DirectiveEmitEvents, Events: list}
}

// Trace writes a trace event named "plugin.<plugin>.<name>".
func Trace(name string, payload json.RawMessage) Directive {
	return Directive{Kind: events.DirectiveEmitTrace, Name: name, Payload: payload}
}

// TraceIn is [Trace] with a place, whose metadata is named "plugin.<plugin>.<key>".
func TraceIn(place api.TraceContext, name string, payload json.RawMessage) Directive {
	return Directive{Kind: events.DirectiveEmitTrace, Name: name, Payload: payload, Place: place}
}

// Ask makes a call wait for an approval. A call whose arguments the tool's schema does not accept fails at once instead.
func Ask(question string) Directive {
	return Directive{Kind: events.DirectiveAskApproval, Message: question}
}

// AskWithin is [Ask] with a time limit. Without an answer in time the call is refused.
func AskWithin(question string, within time.Duration) Directive {
	return Directive{Kind: events.DirectiveAskApproval, Message: question, Within: within}
}

// JudgePlaces records where the files and directories of a call's arguments are, by argument, as rules judged them: paths
// without links, below the root of the files or absolute. The call gets them as its Places, also on another node. The last
// such directive wins.
func JudgePlaces(places map[string]string) Directive {
	payload, _ := json.Marshal(places) // texts always have a form
	return Directive{Kind: events.DirectiveJudgePlaces, Payload: payload}
}

// Contribute adds to the system prompt for the rest of the turn, in place of what the plugin contributed at earlier model
// calls of the turn. Without contributions it only removes these.
func Contribute(list ...events.Contribution) Directive {
	return Directive{Kind: events.DirectiveContribute, Contributions: list}
}

// SystemPrompt replaces the instructions of the session's configuration for the rest of the turn. The last such directive
// wins. Contributions stay.
func SystemPrompt(text string) Directive {
	return Directive{Kind: events.DirectiveSystemPrompt, Message: text}
}

// SwitchFrame ends the turn in place of the model call. A follow-on turn continues in a new frame, whose id the session has
// not used yet. The last such directive wins.
func SwitchFrame(to events.FrameSwitch) Directive {
	return Directive{Kind: events.DirectiveSwitch, Switch: &to}
}

// allowed reports whether a directive may occur at a point. The package documentation has the table.
func (d Directive) allowed(point events.HookPoint) bool {
	tool := point == events.PointBeforeTool || point == events.PointAfterTool
	switch d.Kind {
	case events.DirectiveAbort:
		return point != events.PointAfterTurn
	case events.DirectiveEnqueue:
		return point != events.PointBeforeTool && point != events.PointBeforeModel
	case events.DirectiveReplaceArgs, events.DirectiveAskApproval, events.DirectiveJudgePlaces:
		return point == events.PointBeforeTool
	case events.DirectiveShortCircuit:
		return tool
	case events.DirectiveContribute, events.DirectiveSystemPrompt, events.DirectiveSwitch:
		return point == events.PointBeforeModel
	case events.DirectiveCreate, events.DirectiveEmitEvents, events.DirectiveEmitTrace:
		return true
	}
	return false
}

// Check refuses a directive that is invalid, or not allowed, at a point. The error is a text for the plugin's author.
func (d Directive) Check(point events.HookPoint) error {
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
	}
	if err := d.checkValues(); err != nil {
		return fmt.Errorf("%s: %w", d.Kind, err)
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

// checkValues refuses values that cannot be recorded.
func (d Directive) checkValues() error {
	switch {
	case d.Kind == events.DirectiveReplaceArgs && !json.Valid(d.Args):
		return errors.New("arguments are no JSON")
	case d.Kind == events.DirectiveReplaceArgs:
		return events.CheckJSON("arguments", d.Args)
	case d.Kind == events.DirectiveJudgePlaces:
		return json.Unmarshal(d.Payload, new(map[string]string))
	case d.Kind == events.DirectiveEmitTrace && len(d.Payload) > 0:
		return checkValue("payload", d.Payload)
	case d.Kind == events.DirectiveContribute:
		return (&events.TurnPrepared{Contributions: d.Contributions}).Validate()
	case d.Kind == events.DirectiveSystemPrompt && strings.TrimSpace(d.Message) == "":
		return errors.New("text is empty")
	case d.Kind == events.DirectiveSystemPrompt && len(d.Message) > events.MaxInstructionsBytes:
		return fmt.Errorf("text has %d bytes, limit is %d", len(d.Message), events.MaxInstructionsBytes)
	case d.Kind == events.DirectiveSwitch && d.Switch == nil:
		return errors.New("frame is missing")
	case d.Kind == events.DirectiveSwitch:
		return (&events.TurnCompleted{End: events.EndSwitched, Switch: *d.Switch}).Validate()
	}
	return nil
}

// Owned is a value with the id of the plugin that made it.
type Owned[T any] struct {
	Plugin string
	Value  T
}

// checkDirectives validates a whole list at a point. One invalid directive makes the whole list an error.
func checkDirectives(point events.HookPoint, list []Owned[Directive]) error {
	for i := range list {
		if err := list[i].Value.Check(point); err != nil {
			return &HookError{Plugin: list[i].Plugin, Point: string(point), Err: err}
		}
	}
	return nil
}

// checkRules refuses directives of [Registrar.AuthorizeToolCall] that change the call or the session.
func checkRules(list []Owned[Directive]) error {
	for i := range list {
		switch kind := list[i].Value.Kind; kind {
		case events.DirectiveAbort, events.DirectiveAskApproval, events.DirectiveEmitEvents, events.DirectiveEmitTrace, events.DirectiveJudgePlaces:
		default:
			return &HookError{Plugin: list[i].Plugin, Point: string(events.PointBeforeTool), Err: fmt.Errorf("directive %q is not allowed in AuthorizeToolCall", kind)}
		}
	}
	return nil
}
