package turn

import "github.com/lash-go/lash/events"

// Input is an event outside of the machine: one of the types of this package. Each embeds [Extra] or, if it has no
// additional events, plain.
type Input interface {
	// Additional are the additional events of the input's commit. The caller must not change them.
	Additional() []events.Payload
	// WithExtra returns the input with more additional events. An input without additional events does not call more.
	WithExtra(more func() []events.Payload) Input
	// PromptDigest is the digest of the prompt that the input replies to; empty for other inputs.
	PromptDigest() string

	input()
}

// Extra are additional events of an input's commit.
type Extra []events.Payload

// Additional implements [Input].
func (e Extra) Additional() []events.Payload { return e }

// PromptDigest implements [Input].
func (Extra) PromptDigest() string { return "" }

func (Extra) input() {}

// plain is a part of the inputs without additional events.
type plain struct{}

func (plain) Additional() []events.Payload { return nil }
func (plain) PromptDigest() string         { return "" }
func (plain) input()                       {}

// Claim starts the next turn, or takes over the running one.
type Claim struct {
	Worker  events.WorkerID
	Tools   []events.ToolEntry // tools that the worker offers, sorted by name
	Points  []events.HookPoint // points at which the session's plugins have hooks
	Problem events.Issue       // why the input cannot run; zero if it can
	Refused events.Issue       // why a plugin refuses it; zero if none does
	Extra
}

// Reply is the result of the model call.
type Reply struct {
	events.ModelReplied
	Correct string // message to the model, if the protocol does not accept the reply as the turn's answer
	Extra
}

// Failure is a model call that failed after all attempts.
type Failure struct {
	events.ModelFailed
	Cut         *events.ModelInterrupted // the partial reply, if any
	Unavailable bool                     // the node cannot reach the model's provider
	plain
}

// Interrupted is a model call that was interrupted because its turn was cancelled.
type Interrupted struct {
	events.ModelInterrupted
	plain
}

// Switch continues in another frame in place of a model call.
type Switch struct {
	Iteration int64
	events.FrameSwitch
	plain
}

// Broken is a failed pipeline around the turn: the turn has no result.
type Broken struct {
	Iteration int64
	Issue     events.Issue
	plain
}

// Results are the results of finished calls, ascending.
type Results struct {
	Iteration int64
	Results   []events.ToolResult
	Pending   []int64       // calls that now wait for a result from outside, ascending
	Stopped   *events.Issue // the turn cannot continue: calls without a result are cancelled
	Extra
}

// Hooks are the decisions of the plugins at a point.
type Hooks struct {
	Ran      events.HookRan
	Prepared *events.TurnPrepared       // before the turn: the prompt, if it differs from the frame's
	Messages []events.Message           // messages to append
	Results  []events.ToolResult        // before the calls: results of calls that do not run, ascending
	Asks     []events.ToolApprovalAsked // before the calls: approval requests
	Abort    *events.Issue
	Switch   *events.FrameSwitch // before a model call: the turn continues in another frame
	Stopped  *events.Issue       // the turn cannot continue
	Extra
}

// Answer is the answer to an approval request.
type Answer struct {
	events.ToolApprovalGiven
	plain
}

// Resolved is the result of a pending call.
type Resolved struct {
	events.ToolResolved
	plain
}

// StartCalls precedes the start of calls: it records the calls that are not repeatable.
type StartCalls struct{ plain }

// Facts are additional events of a running effect.
type Facts struct{ Extra }

// Stop ends a cancelled turn after its effects have stopped.
type Stop struct{ plain }

// PromptDigest implements [Input].
func (in Reply) PromptDigest() string { return in.Prompt.Digest }

// PromptDigest implements [Input].
func (in Failure) PromptDigest() string { return in.Prompt.Digest }

// PromptDigest implements [Input].
func (in Interrupted) PromptDigest() string { return in.Prompt.Digest }

// WithExtra implements [Input].
func (in Claim) WithExtra(more func() []events.Payload) Input {
	in.Extra = append(in.Extra, more()...)
	return in
}

// WithExtra implements [Input].
func (in Reply) WithExtra(more func() []events.Payload) Input {
	in.Extra = append(in.Extra, more()...)
	return in
}

// WithExtra implements [Input].
func (in Results) WithExtra(more func() []events.Payload) Input {
	in.Extra = append(in.Extra, more()...)
	return in
}

// WithExtra implements [Input].
func (in Hooks) WithExtra(more func() []events.Payload) Input {
	in.Extra = append(in.Extra, more()...)
	return in
}

// WithExtra implements [Input].
func (in Facts) WithExtra(more func() []events.Payload) Input {
	in.Extra = append(in.Extra, more()...)
	return in
}

// WithExtra implements [Input].
func (in Failure) WithExtra(func() []events.Payload) Input { return in }

// WithExtra implements [Input].
func (in Interrupted) WithExtra(func() []events.Payload) Input { return in }

// WithExtra implements [Input].
func (in Switch) WithExtra(func() []events.Payload) Input { return in }

// WithExtra implements [Input].
func (in Broken) WithExtra(func() []events.Payload) Input { return in }

// WithExtra implements [Input].
func (in Answer) WithExtra(func() []events.Payload) Input { return in }

// WithExtra implements [Input].
func (in Resolved) WithExtra(func() []events.Payload) Input { return in }

// WithExtra implements [Input].
func (in StartCalls) WithExtra(func() []events.Payload) Input { return in }

// WithExtra implements [Input].
func (in Stop) WithExtra(func() []events.Payload) Input { return in }
