package events

import "fmt"

// HookPoint is a point of a turn at which plugins' hooks run.
type HookPoint string

// Hook points. All hooks at one point are one effect: their decisions are recorded together and never made again.
const (
	PointBeforeTurn  HookPoint = "before_turn"       // context transforms, before_turn hooks, prompt contributors
	PointBeforeModel HookPoint = "before_model_call" // once per iteration, whichever attempts and fallbacks follow
	PointBeforeTool  HookPoint = "before_tool_call"  // once per call of a reply
	PointAfterTool   HookPoint = "after_tool_call"   // part of the call's own effect
	PointCheckpoint  HookPoint = "checkpoint"
	PointAfterTurn   HookPoint = "after_turn"
	PointReply       HookPoint = "reply" // stream and response hooks, part of the model call's effect
)

func (p HookPoint) validate(field string) error {
	switch p {
	case PointBeforeTurn, PointBeforeModel, PointBeforeTool, PointAfterTool, PointCheckpoint, PointAfterTurn, PointReply:
		return nil
	}
	return invalid(field, fmt.Sprintf("unknown %q", p))
}

// DirectiveKind names a hook's directive.
type DirectiveKind string

// Kinds of directives.
const (
	DirectiveAbort        DirectiveKind = "abort_turn"
	DirectiveEnqueue      DirectiveKind = "enqueue_messages"
	DirectiveCreate       DirectiveKind = "create_session"
	DirectiveReplaceArgs  DirectiveKind = "replace_tool_args"
	DirectiveShortCircuit DirectiveKind = "short_circuit_tool"
	DirectiveEmitEvents   DirectiveKind = "emit_events"
	DirectiveEmitTrace    DirectiveKind = "emit_trace"
	DirectiveAskApproval  DirectiveKind = "ask_approval"
	DirectiveJudgePlaces  DirectiveKind = "judge_places"
	DirectiveContribute   DirectiveKind = "contribute"
	DirectiveSystemPrompt DirectiveKind = "system_prompt"
	DirectiveSwitch       DirectiveKind = "switch_frame"
)

// Decision is one executed directive.
type Decision struct {
	Plugin   string        `msgpack:"p"`
	Kind     DirectiveKind `msgpack:"k"`
	Code     string        `msgpack:"c,omitempty"` // of an abort
	Message  string        `msgpack:"m,omitempty"` // of an abort or an approval request, or the text of a system prompt
	Session  SessionID     `msgpack:"s,omitempty"` // id of the created session
	Name     string        `msgpack:"n,omitempty"` // of a trace event, or of the frame of a switch
	Body     []byte        `msgpack:"b,omitempty"` // JSON: arguments, events, a trace payload, or places as of [ToolApprovalAsked]
	Count    int64         `msgpack:"x,omitempty"` // number of enqueued messages, which are in the graph.appended of the same commit
	Call     int64         `msgpack:"l,omitempty"` // of tool hooks: index among the reply's tool calls
	Messages []Message     `msgpack:"g,omitempty"` // of after_tool_call: messages for the next checkpoint
	// Contributions of contribute, in place of those that the plugin made at earlier model calls of the turn.
	Contributions []Contribution `msgpack:"t,omitempty"`
}

// HookRan records the decisions of the hooks at one point.
type HookRan struct {
	Point     HookPoint      `msgpack:"p"`
	At        CheckpointKind `msgpack:"a,omitempty"` // of checkpoints and the end
	Iteration int64          `msgpack:"n,omitempty"`
	Decisions []Decision     `msgpack:"d,omitempty"` // in the order of execution
	Failed    string         `msgpack:"f,omitempty"` // plugin whose hook failed; no directive of this point was executed
	Issue     Issue          `msgpack:"i,omitempty"` // the error of Failed
}

// Validate implements [Payload].
func (p *HookRan) Validate() error {
	if p.Iteration < 0 {
		return invalid("iteration", "is negative")
	}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		switch d.Kind {
		case DirectiveAbort, DirectiveEnqueue, DirectiveCreate, DirectiveReplaceArgs, DirectiveShortCircuit, DirectiveEmitEvents, DirectiveEmitTrace, DirectiveAskApproval, DirectiveJudgePlaces,
			DirectiveContribute, DirectiveSystemPrompt, DirectiveSwitch:
		default:
			return invalid(fmt.Sprintf("decisions[%d].kind", i), fmt.Sprintf("unknown %q", d.Kind))
		}
		if d.Call < 0 || d.Count < 0 {
			return invalid(fmt.Sprintf("decisions[%d]", i), "call and count must not be negative")
		}
		if err := validateContributions(fmt.Sprintf("decisions[%d].contributions", i), d.Contributions); err != nil {
			return err
		}
	}
	if err := p.Point.validate("point"); err != nil {
		return err
	}
	return p.validateAt()
}

// validateAt checks that At is set for checkpoints and for the end only.
func (p *HookRan) validateAt() error {
	fits := p.At == ""
	switch p.Point {
	case PointCheckpoint:
		fits = p.At == AtAfterWork || p.At == AtBeforeCompletion
	case PointAfterTurn:
		fits = p.At == AtEnd
	case PointBeforeTurn, PointBeforeModel, PointBeforeTool, PointAfterTool, PointReply:
	}
	if !fits {
		return invalid("at", fmt.Sprintf("%q does not fit %s", p.At, p.Point))
	}
	return nil
}

// Slot is a section of the prompt's template to which plugins contribute.
type Slot string

// Slots, in the order of the template.
const (
	SlotIntro               Slot = "intro"
	SlotExecution           Slot = "execution"
	SlotGuidance            Slot = "guidance"
	SlotProjectInstructions Slot = "project_instructions"
	SlotRuntimeContext      Slot = "runtime_context"
	SlotEnvironment         Slot = "environment"
)

// Contribution is text that a plugin adds to the prompt.
type Contribution struct {
	Slot     Slot     `msgpack:"s"`
	Title    string   `msgpack:"t,omitempty"`
	Priority int64    `msgpack:"r,omitempty"` // lower ones come first
	Tools    []string `msgpack:"g,omitempty"` // shown only if one of these tools is available; empty means always
	Minimum  Override `msgpack:"m,omitempty"` // required availability of such a tool; "off" and empty require its existence only
	Content  string   `msgpack:"c"`
}

// ViewItem is a piece of the messages that a turn shows to the model: a range of the frame's messages, or a message
// that replaces others.
type ViewItem struct {
	From    MessageID `msgpack:"f,omitempty"`
	To      MessageID `msgpack:"t,omitempty"` // inclusive
	Message Message   `msgpack:"m,omitempty"` // excludes From and To
}

// TurnPrepared is the prompt of a turn after its plugins' changes. Without this event the turn shows the frame's
// messages and the contributions of the turn before. The graph stays unchanged.
type TurnPrepared struct {
	Viewed        bool           `msgpack:"w,omitempty"` // View replaces the messages up to Upto
	Upto          NodeID         `msgpack:"u,omitempty"`
	View          []ViewItem     `msgpack:"v,omitempty"`
	Kept          bool           `msgpack:"k,omitempty"` // the contributions are those of the turn before
	Contributions []Contribution `msgpack:"c,omitempty"` // sorted by slot name, then by priority
}

// Validate implements [Payload].
func (p *TurnPrepared) Validate() error {
	if err := checkID("upto", string(p.Upto), false); err != nil {
		return err
	}
	if !p.Viewed && (p.Upto != "" || len(p.View) > 0) {
		return invalid("view", "must be empty where viewed is not set")
	}
	for i := range p.View {
		if err := p.View[i].validate(fmt.Sprintf("view[%d]", i)); err != nil {
			return err
		}
	}
	if err := validateContributions("contributions", p.Contributions); err != nil {
		return err
	}
	if p.Kept && len(p.Contributions) > 0 {
		return invalid("contributions", "must be empty where kept is set")
	}
	return nil
}

// validateContributions checks the contributions in a field.
func validateContributions(field string, list []Contribution) error {
	for i := range list {
		if err := list[i].Slot.check(fmt.Sprintf("%s[%d].slot", field, i)); err != nil {
			return err
		}
		if err := list[i].Minimum.validate(fmt.Sprintf("%s[%d].minimum", field, i)); err != nil {
			return err
		}
	}
	return nil
}

func (v *ViewItem) validate(field string) error {
	switch {
	case v.Message.IsZero() && (v.From == "" || v.To == ""):
		return invalid(field, "is neither a run nor a message")
	case v.Message.IsZero():
		return nil
	case v.From != "" || v.To != "":
		return invalid(field, "is both a run and a message")
	}
	if err := v.Message.Validate(); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	return nil
}

// TurnCheckpointed records that the turn reached a point at which hooks must run before it continues.
type TurnCheckpointed struct {
	At     CheckpointKind `msgpack:"a"`
	Ending TurnCompleted  `msgpack:"e,omitempty"` // at the end: how the turn ends after its hooks
}

// Validate implements [Payload].
func (p *TurnCheckpointed) Validate() error {
	switch p.At {
	case AtAfterWork, AtBeforeCompletion:
		return nil
	case AtEnd:
		return p.Ending.Validate()
	case AtStart:
	}
	return invalid("at", fmt.Sprintf("%q is no checkpoint", p.At))
}
