package events

import "fmt"

// HookPoint is a point of a turn at which the session's plugins are asked.
type HookPoint string

// The points whose hooks a turn owes (host specification 4.2). What runs at
// each is one effect: its decisions are recorded together, and never asked for again.
const (
	PointBeforeTurn HookPoint = "before_turn"      // context transforms, before_turn hooks, prompt contributors
	PointBeforeTool HookPoint = "before_tool_call" // for every call of a reply
	PointAfterTool  HookPoint = "after_tool_call"  // part of the call itself: owed by nobody else
	PointCheckpoint HookPoint = "checkpoint"
	PointAfterTurn  HookPoint = "after_turn"
	PointReply      HookPoint = "reply" // stream and response hooks: part of the model call
)

func (p HookPoint) validate(field string) error {
	switch p {
	case PointBeforeTurn, PointBeforeTool, PointAfterTool, PointCheckpoint, PointAfterTurn, PointReply:
		return nil
	}
	return invalid(field, fmt.Sprintf("unknown %q", p))
}

// DirectiveKind names what a hook asked for (host specification 4.3).
type DirectiveKind string

// The directives.
const (
	DirectiveAbort        DirectiveKind = "abort_turn"
	DirectiveEnqueue      DirectiveKind = "enqueue_messages"
	DirectiveCreate       DirectiveKind = "create_session"
	DirectiveReplaceArgs  DirectiveKind = "replace_tool_args"
	DirectiveShortCircuit DirectiveKind = "short_circuit_tool"
	DirectiveEmitEvents   DirectiveKind = "emit_events"
	DirectiveEmitTrace    DirectiveKind = "emit_trace"
	DirectiveAskApproval  DirectiveKind = "ask_approval"
)

// Decision is one directive as it was carried out.
type Decision struct {
	Plugin   string        `msgpack:"p"`
	Kind     DirectiveKind `msgpack:"k"`
	Code     string        `msgpack:"c,omitempty"` // of aborts
	Message  string        `msgpack:"m,omitempty"` // of aborts and questions
	Session  SessionID     `msgpack:"s,omitempty"` // that was created
	Name     string        `msgpack:"n,omitempty"` // of a trace
	Body     []byte        `msgpack:"b,omitempty"` // JSON: arguments, events, a trace's payload
	Count    int64         `msgpack:"x,omitempty"` // messages enqueued; they stand in the graph.appended beside
	Call     int64         `msgpack:"l,omitempty"` // of tool hooks: position among the reply's tool calls
	Messages []Message     `msgpack:"g,omitempty"` // of after_tool_call: enqueued for the next checkpoint
}

// HookRan records what the hooks of one point decided.
type HookRan struct {
	Point     HookPoint      `msgpack:"p"`
	At        CheckpointKind `msgpack:"a,omitempty"` // of checkpoints, and of the end
	Iteration int64          `msgpack:"n,omitempty"`
	Decisions []Decision     `msgpack:"d,omitempty"` // in the order in which they were carried out
	Failed    string         `msgpack:"f,omitempty"` // plugin whose hook failed; what was collected before it is not applied
	Issue     Issue          `msgpack:"i,omitempty"` // how
}

// Validate implements [Payload].
func (p *HookRan) Validate() error {
	if p.Iteration < 0 {
		return invalid("iteration", "is negative")
	}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		switch d.Kind {
		case DirectiveAbort, DirectiveEnqueue, DirectiveCreate, DirectiveReplaceArgs, DirectiveShortCircuit, DirectiveEmitEvents, DirectiveEmitTrace, DirectiveAskApproval:
		default:
			return invalid(fmt.Sprintf("decisions[%d].kind", i), fmt.Sprintf("unknown %q", d.Kind))
		}
		if d.Call < 0 || d.Count < 0 {
			return invalid(fmt.Sprintf("decisions[%d]", i), "call and count must not be negative")
		}
	}
	if err := p.Point.validate("point"); err != nil {
		return err
	}
	return p.validateAt()
}

// validateAt checks that a checkpoint is named exactly where there is one.
func (p *HookRan) validateAt() error {
	fits := p.At == ""
	switch p.Point {
	case PointCheckpoint:
		fits = p.At == AtAfterWork || p.At == AtBeforeCompletion
	case PointAfterTurn:
		fits = p.At == AtEnd
	case PointBeforeTurn, PointBeforeTool, PointAfterTool, PointReply:
	}
	if !fits {
		return invalid("at", fmt.Sprintf("%q does not fit %s", p.At, p.Point))
	}
	return nil
}

// Slot is a place of the prompt's template, which plugins contribute to (host specification 4.4).
type Slot string

// The slots, in the order of the template.
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
	Tools    []string `msgpack:"g,omitempty"` // shown only where one of these is offered; empty: always
	Minimum  Override `msgpack:"m,omitempty"` // how far it must be offered; "off" and empty: it exists
	Content  string   `msgpack:"c"`
}

// ViewItem is a piece of what a turn shows of the conversation instead of all
// of it: a run of its messages, or one message in place of others.
type ViewItem struct {
	From    MessageID `msgpack:"f,omitempty"`
	To      MessageID `msgpack:"t,omitempty"` // inclusive
	Message Message   `msgpack:"m,omitempty"` // instead of a run
}

// TurnPrepared is the prompt of a turn as its plugins shaped it. Without one
// its messages are the frame's, and what plugins contribute is what it was in
// the turn before. The graph is untouched.
type TurnPrepared struct {
	Viewed        bool           `msgpack:"w,omitempty"` // View replaces the messages up to Upto
	Upto          NodeID         `msgpack:"u,omitempty"`
	View          []ViewItem     `msgpack:"v,omitempty"`
	Kept          bool           `msgpack:"k,omitempty"` // the contributions are those of the turn before
	Contributions []Contribution `msgpack:"c,omitempty"` // sorted by slot's name, then priority
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
	if err := validateContributions(p.Contributions); err != nil {
		return err
	}
	if p.Kept && len(p.Contributions) > 0 {
		return invalid("contributions", "must be empty where kept is set")
	}
	return nil
}

func validateContributions(list []Contribution) error {
	for i := range list {
		if err := list[i].Slot.check(fmt.Sprintf("contributions[%d].slot", i)); err != nil {
			return err
		}
		if err := list[i].Minimum.validate(fmt.Sprintf("contributions[%d].minimum", i)); err != nil {
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

// TurnCheckpointed says that the turn has come to a point at which hooks are owed before it goes on.
type TurnCheckpointed struct {
	At     CheckpointKind `msgpack:"a"`
	Ending TurnCompleted  `msgpack:"e,omitempty"` // at the last one: how the turn ends once its hooks have run
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
