package events

import (
	"errors"
	"fmt"
	"slices"
)

// TurnInput is what a turn begins with.
type TurnInput struct {
	Parts     []Part            `msgpack:"p,omitempty"`
	Continue  bool              `msgpack:"c,omitempty"` // no user message: the model goes on from the leaf
	Options   []byte            `msgpack:"o,omitempty"` // JSON: the protocol's turn options, for this turn only
	Extension Extension         `msgpack:"e,omitempty"` // for the protocol
	Plugins   map[string]string `msgpack:"g,omitempty"` // JSON for plugins, by plugin id

	Generation Generation `msgpack:"n,omitempty"`
	Output     OutputForm `msgpack:"f,omitempty"` // of its answer

	Layers []PromptLayer `msgpack:"l,omitempty"` // of the prompt's template, over those of the configuration
}

func (in *TurnInput) validate() error {
	if in.Continue && len(in.Parts) > 0 {
		return invalid("input.parts", "must be empty where continue is set")
	}
	return errors.Join(validateParts(in.Parts), in.Generation.validate("input.generation"), in.Output.validate("input.output"), validateLayers("input.layers", in.Layers))
}

// Extension is a protocol's own addition to a turn or a session.
type Extension struct {
	Type string `msgpack:"t"`
	Body []byte `msgpack:"b,omitempty"` // JSON
}

// IsZero reports whether there is none.
func (e Extension) IsZero() bool { return e.Type == "" && len(e.Body) == 0 }

// TurnRequested puts a turn in the session's order.
type TurnRequested struct {
	Input    TurnInput `msgpack:"i"`
	Root     TurnID    `msgpack:"r,omitempty"` // of a follow-on after a frame switch: the turn that a host asked for
	Switches int64     `msgpack:"s,omitempty"` // likewise: how many switches led here; such a turn goes before all that wait
	Busy     WhenBusy  `msgpack:"b,omitempty"` // what was asked for in case that another turn runs or waits, as one does; empty: to wait
	Behind   TurnID    `msgpack:"h,omitempty"` // likewise: that one
	Callers  []string  `msgpack:"c,omitempty"` // on whose behalf, as doors authenticated them; none: of nobody in particular

	Trace TraceParent `msgpack:"t,omitempty"` // the client's span that the turn belongs under
}

// Validate implements [Payload].
func (p *TurnRequested) Validate() error {
	if p.Switches < 0 || p.Switches > MaxSwitches {
		return invalid("switches", fmt.Sprintf("is %d, limit is %d", p.Switches, MaxSwitches))
	}
	if (p.Switches > 0) != (p.Root != "") {
		return invalid("root", "stands exactly with switches")
	}
	if p.Root != "" {
		if err := CheckToken("root", p.Root); err != nil {
			return err
		}
	}
	if (p.Busy == BusyEnqueue) != (p.Behind == "") || p.Switches > 0 && p.Behind != "" {
		return invalid("behind", "stands exactly with busy, and never with root")
	}
	if p.Behind != "" {
		if err := CheckToken("behind", p.Behind); err != nil {
			return err
		}
	}
	return errors.Join(p.Input.validate(), p.Busy.Check(p.Input), validateCallers(p.Callers), p.Trace.Validate())
}

func validateCallers(list []string) error {
	for _, name := range list {
		if err := CheckToken("callers", name); err != nil {
			return err
		}
	}
	return nil
}

// TurnStarted is a worker's claim of the turn. There is no other lease.
type TurnStarted struct {
	Attempt int64       `msgpack:"a"` // from 1, one more at each takeover
	Worker  WorkerID    `msgpack:"w"`
	Job     TurnID      `msgpack:"j,omitempty"` // of earlier versions, whose queue held commands: the command that the worker held
	Message MessageID   `msgpack:"m,omitempty"` // id of the user message, where the default is taken
	Points  []HookPoint `msgpack:"p,omitempty"` // where the session's plugins want to be asked, as the worker knows them
}

// Validate implements [Payload].
func (p *TurnStarted) Validate() error {
	if p.Attempt < 1 {
		return invalid("attempt", "must be at least 1")
	}
	for i, point := range p.Points {
		if err := point.validate("points"); err != nil {
			return err
		}
		if slices.Contains(p.Points[:i], point) {
			return invalid("points", fmt.Sprintf("%q stands twice", point))
		}
	}
	if p.Job != "" {
		if err := CheckToken("job", p.Job); err != nil {
			return err
		}
	}
	return CheckToken("worker", p.Worker)
}

// TurnReleased says that a worker that stops has let the turn go. The next
// attempt follows at once, and this one does not count as a failed one.
type TurnReleased struct {
	Worker WorkerID `msgpack:"w"`
}

// Validate implements [Payload].
func (p *TurnReleased) Validate() error { return CheckToken("worker", p.Worker) }

// TurnAnnounced says, in the commit that ends a turn, that the session's plugins are to be
// told of that end. [TurnTold] answers it.
type TurnAnnounced struct {
	Worker WorkerID `msgpack:"w"` // that is about to tell them
}

// Validate implements [Payload].
func (p *TurnAnnounced) Validate() error { return CheckToken("worker", p.Worker) }

// TurnTold says that the session's plugins were told of the turn's end.
type TurnTold struct {
	Worker WorkerID `msgpack:"w"` // that told them
}

// Validate implements [Payload].
func (p *TurnTold) Validate() error { return CheckToken("worker", p.Worker) }

// TurnScheduled accepts a turn whose request is to be recorded at a time.
type TurnScheduled struct {
	Input TurnInput `msgpack:"i"`
	At    Millis    `msgpack:"t"`           // UTC; above 0
	Busy  WhenBusy  `msgpack:"b,omitempty"` // the policy that counts then

	Callers []string `msgpack:"c,omitempty"` // as of the request

	Trace TraceParent `msgpack:"r,omitempty"` // likewise
}

// Validate implements [Payload].
func (p *TurnScheduled) Validate() error {
	return errors.Join(validateTime("at", p.At), p.Input.validate(), p.Busy.Check(p.Input), validateCallers(p.Callers), p.Trace.Validate())
}

// maxYear bounds times that are set: RFC 3339, in which servers are told of them, has no later one.
const maxYear = 9999

func validateTime(field string, at Millis) error {
	if at <= 0 || at.Time().Year() > maxYear {
		return invalid(field, fmt.Sprintf("is %d ms, want a time from 1970 to year %d", at, maxYear))
	}
	return nil
}

// TurnCancelRequested is the evidence of a cancel. The first one wins.
type TurnCancelRequested struct {
	Request string `msgpack:"r"` // id of the request
	Origin  string `msgpack:"o,omitempty"`
	Reason  string `msgpack:"x,omitempty"`
}

// Validate implements [Payload].
func (p *TurnCancelRequested) Validate() error { return checkID("request", p.Request, true) }

// TurnEnd is how a turn ended.
type TurnEnd string

// The ends (host specification 3.7). Finished ones first, then the stopped ones.
const (
	EndFinished      TurnEnd = "finished"        // by the model's answer
	EndToolValue     TurnEnd = "tool_value"      // by a tool's value, see [ControlFinish]
	EndSubmitted     TurnEnd = "submitted_value" // by an answer of the form that was asked for, or the value that a protocol's code submitted, see [ControlSubmit]
	EndSwitched      TurnEnd = "frame_switch"    // a follow-on turn goes on in a new frame
	EndCancelled     TurnEnd = "cancelled"
	EndIncomplete    TurnEnd = "incomplete"
	EndInvalidInput  TurnEnd = "invalid_input"
	EndMaxTurns      TurnEnd = "max_turns"
	EndProviderError TurnEnd = "provider_error"
	EndRuntimeError  TurnEnd = "runtime_error"
	EndToolError     TurnEnd = "tool_error" // by a tool, see [ControlFail]
	EndPluginAbort   TurnEnd = "plugin_abort"
	EndFailed        TurnEnd = "failed" // the pipeline around the turn failed: nothing that the turn came to counts

	// Of turns that did not start, see [TurnDiverted].
	EndRejected TurnEnd = "rejected" // another turn ran
	EndInjected TurnEnd = "injected" // another turn took its message in
	EndBranched TurnEnd = "branched" // it goes on in another session
)

// Stopped reports whether the turn ended otherwise than by an answer.
func (e TurnEnd) Stopped() bool {
	switch e {
	case EndFinished, EndToolValue, EndSubmitted, EndSwitched:
		return false
	case EndCancelled, EndIncomplete, EndInvalidInput, EndMaxTurns, EndProviderError, EndRuntimeError, EndToolError, EndPluginAbort, EndFailed:
	case EndRejected, EndInjected, EndBranched:
	}
	return true
}

// MaxSwitches is how often one turn may go on in another frame (host specification 1.7).
const MaxSwitches = 16

// FrameSwitch ends a turn and begins a follow-on in a new frame.
type FrameSwitch struct {
	Frame FrameID   `msgpack:"f"`
	Task  string    `msgpack:"t"`           // the follow-on's input
	Nodes []NewNode `msgpack:"n,omitempty"` // the frame's first nodes
}

// IsZero reports whether there is none.
func (s FrameSwitch) IsZero() bool { return s.Frame == "" && s.Task == "" && len(s.Nodes) == 0 }

// Issue is an error as a turn records it.
type Issue struct {
	Kind    string `msgpack:"k"`           // "provider", "input_validation", "runtime"
	Code    string `msgpack:"c,omitempty"` // machine-readable
	Message string `msgpack:"m,omitempty"` // at most 4000 characters
}

// IsZero reports whether there is none.
func (i Issue) IsZero() bool { return i == Issue{} }

// TurnCompleted ends a turn. It lands in one commit with what made it end.
type TurnCompleted struct {
	End    TurnEnd     `msgpack:"e"`
	Issue  Issue       `msgpack:"i,omitempty"`
	Tool   string      `msgpack:"t,omitempty"` // of tool_value and tool_error: whose result it was
	Call   int64       `msgpack:"c,omitempty"` // likewise, its position among the reply's tool calls
	Notice MessageID   `msgpack:"n,omitempty"` // system message that tells of the turn limit, where one was added
	Switch FrameSwitch `msgpack:"w,omitempty"` // of frame_switch
}

// IsZero reports whether it says nothing.
func (p TurnCompleted) IsZero() bool { return p.End == "" }

// Validate implements [Payload].
func (p *TurnCompleted) Validate() error {
	if p.Call < 0 {
		return invalid("call", "is negative")
	}
	if err := ValidateNodes(p.Switch.Nodes); err != nil {
		return err
	}
	if err := checkID("switch.frame", string(p.Switch.Frame), p.End == EndSwitched); err != nil {
		return err
	}
	switch p.End {
	case EndFinished, EndToolValue, EndSubmitted, EndSwitched, EndPluginAbort, EndFailed, EndToolError, EndCancelled, EndIncomplete, EndInvalidInput, EndMaxTurns, EndProviderError, EndRuntimeError:
		return nil
	case EndRejected, EndInjected, EndBranched:
		return invalid("end", fmt.Sprintf("%q is the end of a turn that did not start", p.End))
	}
	return invalid("end", fmt.Sprintf("unknown %q", p.End))
}

// PromptRef says which prompt a reply answers, so that the fold can rebuild it.
type PromptRef struct {
	Digest  string  `msgpack:"d"` // hex sha256, see projector.Prompt
	Leaf    NodeID  `msgpack:"l,omitempty"`
	Frame   FrameID `msgpack:"f,omitempty"` // empty: the initial frame
	Catalog int64   `msgpack:"c,omitempty"` // tool catalogue generation
	Config  Seq     `msgpack:"s,omitempty"` // sequence of the last configuration change
}

// ModelReplied is a recorded model reply. It is never asked for again.
type ModelReplied struct {
	Iteration int64      `msgpack:"n"`
	Prompt    PromptRef  `msgpack:"p"`
	Parts     []Part     `msgpack:"x,omitempty"`
	Stop      StopReason `msgpack:"s"`
	Usage     Usage      `msgpack:"u,omitempty"`
	Provider  string     `msgpack:"v,omitempty"`
	Model     string     `msgpack:"m,omitempty"`
	Attempts  int64      `msgpack:"a,omitempty"` // tries it took; 0 means one
	Millis    int64      `msgpack:"t,omitempty"` // duration of the call
	Detail    string     `msgpack:"d,omitempty"` // the provider's own words on a bad stop
	Message   MessageID  `msgpack:"i,omitempty"` // id of the message, where the default is taken
	Shown     []Part     `msgpack:"h,omitempty"` // text that users see in place of what the model said, where a plugin projects that
	Fault     string     `msgpack:"f,omitempty"` // why the reply is no answer of the form that the turn asks for; at most 4000 characters

	Failed []FailedTry `msgpack:"r,omitempty"` // the tries before the one that brought it, oldest first; of many the last [MaxFailedTries]
	Spent  Usage       `msgpack:"w,omitempty"` // on all those tries, as far as the provider told
}

// Cost is what the reply and the tries before it have used.
func (p *ModelReplied) Cost() Usage { return p.Usage.Add(p.Spent) }

// MaxFailedTries is how many failed tries of a model call are recorded. [ModelReplied.Attempts] counts all.
const MaxFailedTries = 16

// FailedTry is one try of a model call that brought no reply.
type FailedTry struct {
	Error   string `msgpack:"k"` // kind of the failure, as package llm names it
	Code    string `msgpack:"c,omitempty"`
	Status  int64  `msgpack:"h,omitempty"` // HTTP status
	Message string `msgpack:"m,omitempty"`
	Wait    int64  `msgpack:"w,omitempty"` // milliseconds until the next try
}

// Validate implements [Payload].
func (p *ModelReplied) Validate() error {
	if p.Iteration < 0 {
		return invalid("iteration", "is negative")
	}
	if err := p.Stop.validate("stop"); err != nil {
		return err
	}
	for i := range p.Shown {
		if p.Shown[i].Kind != PartText {
			return invalid("shown", "is no text")
		}
	}
	return errors.Join(validateParts(p.Parts), validateParts(p.Shown))
}

func (s StopReason) validate(field string) error {
	switch s {
	case StopEnd, StopToolUse, StopOutputLimit, StopContextOverflow, StopContentFilter, StopProviderError, StopCancelled, StopUnknown:
		return nil
	}
	return invalid(field, fmt.Sprintf("unknown %q", s))
}

// ModelInterrupted is what came of a reply that its turn has not: the turn was
// cancelled while the model spoke, or the call failed. It is evidence, and what
// it cost counts; neither the conversation nor a prompt has any of it.
type ModelInterrupted struct {
	Iteration int64     `msgpack:"n"`
	Prompt    PromptRef `msgpack:"p"`
	Parts     []Part    `msgpack:"x,omitempty"` // text and reasoning of the last attempt, as it was streamed; of very many runs the last are one of each kind
	Usage     Usage     `msgpack:"u,omitempty"` // of all attempts, as far as the provider told
	Provider  string    `msgpack:"v,omitempty"`
	Model     string    `msgpack:"m,omitempty"`
	Attempts  int64     `msgpack:"a,omitempty"` // begun; 0 means one
	Millis    int64     `msgpack:"t,omitempty"` // until it was cut off
}

// Validate implements [Payload].
func (p *ModelInterrupted) Validate() error {
	if p.Iteration < 0 {
		return invalid("iteration", "is negative")
	}
	for i := range p.Parts {
		if k := p.Parts[i].Kind; k != PartText && k != PartReasoning {
			return invalid(fmt.Sprintf("parts[%d].kind", i), fmt.Sprintf("is %q, want text or reasoning", k))
		}
	}
	return validateParts(p.Parts)
}

// ModelFailed is a model call that brought no reply, after all its attempts.
type ModelFailed struct {
	Iteration int64     `msgpack:"n"`
	Prompt    PromptRef `msgpack:"p"`
	Error     string    `msgpack:"k"` // kind of the failure, as package llm names it
	Code      string    `msgpack:"c,omitempty"`
	Status    int64     `msgpack:"h,omitempty"` // HTTP status
	Message   string    `msgpack:"m,omitempty"`
	Attempts  int64     `msgpack:"a,omitempty"`

	Provider  string      `msgpack:"v,omitempty"`
	Model     string      `msgpack:"o,omitempty"` // that was asked for
	Raw       string      `msgpack:"w,omitempty"` // what the provider sent, without secrets; at most 4000 characters
	Retryable bool        `msgpack:"y,omitempty"` // the same request may succeed later
	Failed    []FailedTry `msgpack:"r,omitempty"` // the tries before the last one, as of [ModelReplied]

	Fallback FallbackTo `msgpack:"f,omitempty"` // what is asked next; zero: nothing, the turn ends in this commit
}

// Validate implements [Payload].
func (p *ModelFailed) Validate() error {
	if p.Iteration < 0 {
		return invalid("iteration", "is negative")
	}
	return errors.Join(p.Fallback.validate(), checkID("error", p.Error, true))
}
