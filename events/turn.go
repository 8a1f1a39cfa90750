package events

import (
	"errors"
	"fmt"
	"slices"
)

// TurnInput is the input of a turn.
type TurnInput struct {
	Parts     []Part            `msgpack:"p,omitempty"`
	Continue  bool              `msgpack:"c,omitempty"` // no user message: the model continues from the leaf
	Options   []byte            `msgpack:"o,omitempty"` // JSON: the protocol's turn options, for this turn only
	Extension Extension         `msgpack:"e,omitempty"` // for the protocol
	Plugins   map[string]string `msgpack:"g,omitempty"` // JSON for plugins, by plugin id

	Generation Generation `msgpack:"n,omitempty"` // settings for this turn's replies
	Output     OutputForm `msgpack:"f,omitempty"` // of the turn's answer

	Layers []PromptLayer `msgpack:"l,omitempty"` // of the prompt's template, after those of the configuration

	// Answers is the pending call of the parent's turn that the end of this turn resolves. A node sets it. Empty: none waits.
	Answers EffectID `msgpack:"w,omitempty"`
}

func (in *TurnInput) validate() error {
	if in.Continue && len(in.Parts) > 0 {
		return invalid("input.parts", "must be empty where continue is set")
	}
	return errors.Join(validateParts(in.Parts), in.Generation.validate("input.generation"), in.Output.validate("input.output"), validateLayers("input.layers", in.Layers), checkID("input.answers", string(in.Answers), false))
}

// Extension is an object of a protocol's own format, for a turn or a session.
type Extension struct {
	Type string `msgpack:"t"`
	Body []byte `msgpack:"b,omitempty"` // JSON
}

// IsZero reports whether there is no extension.
func (e Extension) IsZero() bool { return e.Type == "" && len(e.Body) == 0 }

// TurnRequested adds a turn to the session's queue.
type TurnRequested struct {
	Input    TurnInput `msgpack:"i"`
	Root     TurnID    `msgpack:"r,omitempty"` // of a follow-on turn after a frame switch: the turn that a host requested
	Switches int64     `msgpack:"s,omitempty"` // of a follow-on turn: number of switches since Root; it runs before all waiting turns
	Busy     WhenBusy  `msgpack:"b,omitempty"` // policy of the request, if another turn runs or waits; empty means to wait
	Behind   TurnID    `msgpack:"h,omitempty"` // with Busy: that other turn
	Callers  []string  `msgpack:"c,omitempty"` // authenticated callers on whose behalf the turn runs; empty for none

	Trace TraceParent `msgpack:"t,omitempty"` // the client's span of the request
}

// Validate implements [Payload].
func (p *TurnRequested) Validate() error {
	if p.Switches < 0 || p.Switches > MaxSwitches {
		return invalid("switches", fmt.Sprintf("is %d, limit is %d", p.Switches, MaxSwitches))
	}
	if (p.Switches > 0) != (p.Root != "") {
		return invalid("root", "must be set if and only if switches is")
	}
	if p.Root != "" {
		if err := CheckToken("root", p.Root); err != nil {
			return err
		}
	}
	if (p.Busy == BusyEnqueue) != (p.Behind == "") || p.Switches > 0 && p.Behind != "" {
		return invalid("behind", "must be set if and only if busy is, and never with root")
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
	Attempt int64       `msgpack:"a"` // from 1, increases with each takeover
	Worker  WorkerID    `msgpack:"w"`
	Message MessageID   `msgpack:"m,omitempty"` // id of the user message; empty takes the default
	Points  []HookPoint `msgpack:"p,omitempty"` // points at which the session's plugins have hooks, as this worker knows them
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
			return invalid("points", fmt.Sprintf("%q occurs twice", point))
		}
	}
	return CheckToken("worker", p.Worker)
}

// TurnReleased records that a stopping worker gives the turn up. The next attempt follows at once, and this one does
// not count as failed.
type TurnReleased struct {
	Worker WorkerID `msgpack:"w"`
}

// Validate implements [Payload].
func (p *TurnReleased) Validate() error { return CheckToken("worker", p.Worker) }

// TurnAnnounced records, in the commit that ends a turn, that plugins must be notified of this end: the turn counts as
// unnotified until [TurnTold].
type TurnAnnounced struct {
	Worker WorkerID `msgpack:"w"` // worker that starts the notification
}

// Validate implements [Payload].
func (p *TurnAnnounced) Validate() error { return CheckToken("worker", p.Worker) }

// TurnTold records that the session's plugins were notified of the turn's end.
type TurnTold struct {
	Worker WorkerID `msgpack:"w"` // worker that notified them
}

// Validate implements [Payload].
func (p *TurnTold) Validate() error { return CheckToken("worker", p.Worker) }

// TurnScheduled accepts a turn that is requested at a later time.
type TurnScheduled struct {
	Input TurnInput `msgpack:"i"`
	At    Millis    `msgpack:"t"`           // UTC, above 0
	Busy  WhenBusy  `msgpack:"b,omitempty"` // policy for the request

	Callers []string `msgpack:"c,omitempty"` // as in [TurnRequested]

	Trace TraceParent `msgpack:"r,omitempty"` // as in [TurnRequested]
}

// Validate implements [Payload].
func (p *TurnScheduled) Validate() error {
	return errors.Join(validateTime("at", p.At), p.Input.validate(), p.Busy.Check(p.Input), validateCallers(p.Callers), p.Trace.Validate())
}

// maxYear is the last year of RFC 3339, in which servers receive times.
const maxYear = 9999

func validateTime(field string, at Millis) error {
	if at <= 0 || at.Time().Year() > maxYear {
		return invalid(field, fmt.Sprintf("is %d ms, want a time from 1970 to year %d", at, maxYear))
	}
	return nil
}

// TurnCancelRequested records the request to cancel a turn. The first one wins.
type TurnCancelRequested struct {
	Request string `msgpack:"r"` // id of the request
	Origin  string `msgpack:"o,omitempty"`
	Reason  string `msgpack:"x,omitempty"`
}

// Validate implements [Payload].
func (p *TurnCancelRequested) Validate() error { return checkID("request", p.Request, true) }

// TurnEnd is how a turn ended.
type TurnEnd string

// Ends of a turn: finished ones first, then stopped ones.
const (
	EndFinished      TurnEnd = "finished"        // with the model's answer
	EndToolValue     TurnEnd = "tool_value"      // with a tool's value, see [ControlFinish]
	EndSubmitted     TurnEnd = "submitted_value" // with an answer of the requested form, or with the value that a protocol's code submitted, see [ControlSubmit]
	EndSwitched      TurnEnd = "frame_switch"    // a follow-on turn continues in a new frame
	EndCancelled     TurnEnd = "cancelled"
	EndIncomplete    TurnEnd = "incomplete"
	EndInvalidInput  TurnEnd = "invalid_input"
	EndMaxTurns      TurnEnd = "max_turns"
	EndProviderError TurnEnd = "provider_error"
	EndRuntimeError  TurnEnd = "runtime_error"
	EndToolError     TurnEnd = "tool_error" // with a tool's error, see [ControlFail]
	EndPluginAbort   TurnEnd = "plugin_abort"
	EndFailed        TurnEnd = "failed" // the pipeline around the turn failed: the turn has no result

	// Ends of turns that did not start, see [TurnDiverted].
	EndRejected TurnEnd = "rejected" // another turn ran
	EndInjected TurnEnd = "injected" // another turn took the message
	EndBranched TurnEnd = "branched" // it runs in another session
)

// TurnEnds lists the ends of turns that started.
func TurnEnds() []TurnEnd {
	return []TurnEnd{
		EndFinished, EndToolValue, EndSubmitted, EndSwitched, EndCancelled, EndIncomplete, EndInvalidInput, EndMaxTurns, EndProviderError, EndRuntimeError, EndToolError,
		EndPluginAbort, EndFailed,
	}
}

// Stopped reports whether the turn ended without an answer.
func (e TurnEnd) Stopped() bool {
	switch e {
	case EndFinished, EndToolValue, EndSubmitted, EndSwitched:
		return false
	case EndCancelled, EndIncomplete, EndInvalidInput, EndMaxTurns, EndProviderError, EndRuntimeError, EndToolError, EndPluginAbort, EndFailed:
	case EndRejected, EndInjected, EndBranched:
	}
	return true
}

// MaxSwitches limits how often one turn may continue in another frame.
const MaxSwitches = 16

// FrameSwitch ends a turn and starts a follow-on turn in a new frame.
type FrameSwitch struct {
	Frame FrameID   `msgpack:"f"`
	Task  string    `msgpack:"t"`           // input of the follow-on turn
	Nodes []NewNode `msgpack:"n,omitempty"` // the frame's first nodes
}

// IsZero reports whether there is no switch.
func (s FrameSwitch) IsZero() bool { return s.Frame == "" && s.Task == "" && len(s.Nodes) == 0 }

// Issue is a recorded error of a turn.
type Issue struct {
	Kind    string `msgpack:"k"`           // "provider", "input_validation", "runtime"
	Code    string `msgpack:"c,omitempty"` // machine-readable
	Message string `msgpack:"m,omitempty"` // workers cut it to about 4000 bytes
}

// IsZero reports whether there is no error.
func (i Issue) IsZero() bool { return i == Issue{} }

// TurnCompleted ends a turn. Its commit also has the event that caused the end.
type TurnCompleted struct {
	End    TurnEnd     `msgpack:"e"`
	Issue  Issue       `msgpack:"i,omitempty"`
	Tool   string      `msgpack:"t,omitempty"` // of tool_value and tool_error: tool of the result
	Call   int64       `msgpack:"c,omitempty"` // likewise: index among the reply's tool calls
	Notice MessageID   `msgpack:"n,omitempty"` // system message about the turn limit, if one was added
	Switch FrameSwitch `msgpack:"w,omitempty"` // for frame_switch
}

// IsZero reports whether the turn has not ended.
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
	switch {
	case slices.Contains(TurnEnds(), p.End):
		return nil
	case p.End == EndRejected || p.End == EndInjected || p.End == EndBranched:
		return invalid("end", fmt.Sprintf("%q is the end of a turn that did not start", p.End))
	}
	return invalid("end", fmt.Sprintf("unknown %q", p.End))
}

// PromptRef identifies the prompt of a reply, so that the fold can rebuild it.
type PromptRef struct {
	Digest  string  `msgpack:"d"` // hex sha256, see projector.Prompt
	Leaf    NodeID  `msgpack:"l,omitempty"`
	Frame   FrameID `msgpack:"f,omitempty"` // empty for the initial frame
	Catalog int64   `msgpack:"c,omitempty"` // generation of the tool catalogue
	Config  Seq     `msgpack:"s,omitempty"` // sequence of the last configuration change
	Room    int64   `msgpack:"r,omitempty"` // estimated tokens that the messages were pruned to, see projector.Prune; 0: they are whole
}

// ModelReplied is a recorded model reply. The model call is never repeated.
type ModelReplied struct {
	Iteration int64      `msgpack:"n"`
	Prompt    PromptRef  `msgpack:"p"`
	Parts     []Part     `msgpack:"x,omitempty"`
	Stop      StopReason `msgpack:"s"`
	Usage     Usage      `msgpack:"u,omitempty"`
	Provider  string     `msgpack:"v,omitempty"`
	Model     string     `msgpack:"m,omitempty"`
	Attempts  int64      `msgpack:"a,omitempty"` // number of attempts; 0 means one
	Millis    int64      `msgpack:"t,omitempty"` // duration of the call
	Detail    string     `msgpack:"d,omitempty"` // the provider's message about an abnormal stop
	Message   MessageID  `msgpack:"i,omitempty"` // id of the message; empty takes the default
	Shown     []Part     `msgpack:"h,omitempty"` // text for users in place of the model's, if a plugin projects prose
	Fault     string     `msgpack:"f,omitempty"` // why the reply does not have the form that the turn requires; workers cut it to about 4000 bytes

	Failed []FailedTry `msgpack:"r,omitempty"` // failed attempts before the reply, oldest first; at most the last [MaxFailedTries]
	Spent  Usage       `msgpack:"w,omitempty"` // usage of the failed attempts, as far as the provider reported it

	Foreign int64 `msgpack:"o,omitempty"` // parts of the prompt that went without their signatures and vendor fields, which another endpoint or model made
}

// Cost is the usage of the reply and of the failed attempts.
func (p *ModelReplied) Cost() Usage { return p.Usage.Add(p.Spent) }

// MaxFailedTries limits the recorded failed attempts of a model call. [ModelReplied.Attempts] counts all.
const MaxFailedTries = 16

// FailedTry is one attempt of a model call that failed.
type FailedTry struct {
	Error   string `msgpack:"k"` // kind of the failure, as in package llm
	Code    string `msgpack:"c,omitempty"`
	Status  int64  `msgpack:"h,omitempty"` // HTTP status
	Message string `msgpack:"m,omitempty"`
	Wait    int64  `msgpack:"w,omitempty"` // milliseconds until the next attempt
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

// ModelInterrupted is a partial reply: the turn was cancelled during the model call, or the call failed. Its usage
// counts. Neither the conversation nor a prompt contains it.
type ModelInterrupted struct {
	Iteration int64     `msgpack:"n"`
	Prompt    PromptRef `msgpack:"p"`
	Parts     []Part    `msgpack:"x,omitempty"` // streamed text and reasoning of the last attempt; above the limit, the last parts are one of each kind
	Usage     Usage     `msgpack:"u,omitempty"` // of all attempts, as far as the provider reported it
	Provider  string    `msgpack:"v,omitempty"`
	Model     string    `msgpack:"m,omitempty"`
	Attempts  int64     `msgpack:"a,omitempty"` // started attempts; 0 means one
	Millis    int64     `msgpack:"t,omitempty"` // until the interruption
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

// ModelFailed is a model call that failed after all its attempts.
type ModelFailed struct {
	Iteration int64     `msgpack:"n"`
	Prompt    PromptRef `msgpack:"p"`
	Error     string    `msgpack:"k"` // kind of the failure, as in package llm
	Code      string    `msgpack:"c,omitempty"`
	Status    int64     `msgpack:"h,omitempty"` // HTTP status
	Message   string    `msgpack:"m,omitempty"`
	Attempts  int64     `msgpack:"a,omitempty"`

	Provider  string      `msgpack:"v,omitempty"`
	Model     string      `msgpack:"o,omitempty"` // requested model
	Raw       string      `msgpack:"w,omitempty"` // the provider's response without secrets; workers cut it to about 4000 bytes
	Retryable bool        `msgpack:"y,omitempty"` // the same request may succeed later
	Failed    []FailedTry `msgpack:"r,omitempty"` // attempts before the last one, as in [ModelReplied]

	Fallback FallbackTo `msgpack:"f,omitempty"` // next model to call; zero means that the turn ends in this commit
}

// Validate implements [Payload].
func (p *ModelFailed) Validate() error {
	if p.Iteration < 0 {
		return invalid("iteration", "is negative")
	}
	return errors.Join(p.Fallback.validate(), checkID("error", p.Error, true))
}
