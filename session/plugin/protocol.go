package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Protocol receives the callbacks of a session's protocol. Embed [BaseProtocol] for callbacks that do nothing.
type Protocol interface {
	// Initialize runs once for each live session: opened, created or rebuilt. An error fails the opening.
	Initialize(ctx context.Context, s ProtocolSession) error
	// Restore runs after Initialize. It runs again on a live session after the leaf moves to another branch, and in a
	// new frame. Afterwards the session's extensions are applied again, see ApplyExtension. An error fails the
	// opening.
	Restore(ctx context.Context, s ProtocolSession, state *projector.State) error
	// AppendNodes sees the nodes that a host wants to append. An error refuses the append.
	AppendNodes(ctx context.Context, s ProtocolSession, nodes []api.AppendNode) error
	// ApplyExtension receives an object of the protocol's own format from a host. The history keeps it.
	// Unless the plugin is [Stateful], every node applies all extensions again, in order, after each Restore.
	ApplyExtension(ctx context.Context, e events.Extension) error
	// ValidateTurn checks a turn's extension and options before the turn is recorded.
	ValidateTurn(ctx context.Context, in events.TurnInput) error
	// Configure runs each time a session is materialised, including resumed sessions.
	Configure(ctx context.Context, rt *ProtocolRuntime, m Materialization) error
	// BeforeModelCall may continue in another frame in place of the model call. An error fails the turn.
	BeforeModelCall(ctx context.Context, in ModelCallContext) (*events.FrameSwitch, error)
}

// BaseProtocol is a [Protocol] that does nothing. It accepts every turn and refuses every session extension.
type BaseProtocol struct{}

// Initialize implements [Protocol].
func (BaseProtocol) Initialize(context.Context, ProtocolSession) error { return nil }

// Restore implements [Protocol].
func (BaseProtocol) Restore(context.Context, ProtocolSession, *projector.State) error { return nil }

// AppendNodes implements [Protocol].
func (BaseProtocol) AppendNodes(context.Context, ProtocolSession, []api.AppendNode) error { return nil }

// ApplyExtension implements [Protocol].
func (BaseProtocol) ApplyExtension(context.Context, events.Extension) error {
	return fmt.Errorf("%w: protocol does not accept session extensions", api.ErrProtocol)
}

// ValidateTurn implements [Protocol].
func (BaseProtocol) ValidateTurn(context.Context, events.TurnInput) error { return nil }

// Configure implements [Protocol].
func (BaseProtocol) Configure(context.Context, *ProtocolRuntime, Materialization) error { return nil }

// BeforeModelCall implements [Protocol].
func (BaseProtocol) BeforeModelCall(context.Context, ModelCallContext) (*events.FrameSwitch, error) {
	return nil, nil //nolint:nilnil // no switch, no error
}

// ProtocolSession identifies the session of a protocol callback.
type ProtocolSession struct{ Session events.SessionID }

// Materialization describes how a session became live.
type Materialization struct {
	Options Options // of all plugins
	IsRoot  bool    // the session has no parent
}

// ProtocolRuntime reads and changes a protocol's durable turn options.
type ProtocolRuntime struct {
	options json.RawMessage
	changed bool
	all     bool
}

// NewProtocolRuntime starts from the recorded options.
func NewProtocolRuntime(options json.RawMessage) *ProtocolRuntime {
	return &ProtocolRuntime{options: options}
}

// Options are the session's turn options, JSON in the protocol's own format. Without options it is nil.
func (r *ProtocolRuntime) Options() json.RawMessage { return r.options }

// SetOptions sets the options of the session's current frame and of later frames.
func (r *ProtocolRuntime) SetOptions(o json.RawMessage) { r.set(o, false) }

// SetOptionsAllFrames sets the options of every frame.
func (r *ProtocolRuntime) SetOptionsAllFrames(o json.RawMessage) { r.set(o, true) }

func (r *ProtocolRuntime) set(o json.RawMessage, all bool) {
	r.changed = r.changed || string(r.options) != string(o) || all
	r.options, r.all = o, r.all || all
}

// Change is the event to record; nil without a change.
func (r *ProtocolRuntime) Change() *events.FrameConfigured {
	if !r.changed {
		return nil
	}
	return &events.FrameConfigured{Options: r.options, All: r.all}
}

// ModelCallContext is the input of [Protocol].BeforeModelCall.
type ModelCallContext struct {
	Session    events.SessionID
	Turn       events.TurnID
	Prompt     projector.Prompt
	Options    json.RawMessage // effective turn options
	View       projector.ReadView
	LastPrompt int64 // tokens of the last prompt, 0 before the first
	Window     int64 // context window in tokens; 0 means unknown
	Host       HistoryHost
}

// Driver builds prompts and reads replies. It is pure: the same input gives the same preamble.
type Driver interface {
	Preamble(in PreambleInput) Preamble
}

// DriverFunc makes a [Driver] from one function.
type DriverFunc func(in PreambleInput) Preamble

// Preamble implements [Driver].
func (f DriverFunc) Preamble(in PreambleInput) Preamble { return f(in) }

// PreambleInput is the input of a [Driver].
type PreambleInput struct {
	Tools      []events.ToolEntry // tools that the session offers; sessions share the list, the driver must not change it
	Extensions Extensions
	Options    json.RawMessage // effective turn options
}

// Preamble is a protocol's part in prompts and replies. Every function may be nil.
type Preamble struct {
	Contributions []events.Contribution
	// HideTools leaves the tools out of the request. The protocol describes them in its own way.
	HideTools bool
	// Render converts the conversation into the messages that the model gets.
	Render func([]events.Message) []events.Message
	// Read interprets a reply.
	Read func(Response) Reading
	// Complete reports whether the reply can end after the text so far.
	Complete func(text string) bool
}

// Reading is the interpretation of a reply.
type Reading struct {
	Parts   []events.Part // of the reply as it is recorded
	Correct string        // if set, the reply is no valid answer: the model gets this text and replies again
}

// ToolCode is the tool name under which a protocol's code runs. No catalogue lists it.
const ToolCode = api.ToolCode

// ExecRequest is code to run.
type ExecRequest struct {
	Language     string
	Code         string
	AcceptFinish bool // the code may end the turn
}

// ExecResponse is the result of running code.
type ExecResponse struct {
	Output      string
	Truncated   int64           // number of bytes cut from Output
	Attachments []events.Part   // that the model sees with Output; references are to bodies that the session's history names
	Calls       int             // number of tool calls made
	Error       string          // error text for the model, not an error of the executor
	Finished    bool            // the turn ends with Value
	Value       json.RawMessage // set if Finished
	Switch      *events.FrameSwitch
}

// CodeExecutor runs a protocol's code. Its calls do not overlap.
type CodeExecutor interface {
	// Execute runs code. Errors: [api.ErrRuntimeStopped], the cause of a cancelled ctx, and unchanged errors of in's
	// functions. After a crash the run is repeated. Then it must make the same tool calls in the same order.
	Execute(ctx context.Context, in ExecContext, req ExecRequest) (ExecResponse, error)
	// Dirty reports whether the state differs from the state that was saved or restored last.
	Dirty() bool
	// Snapshot returns the state; nil means none.
	Snapshot(ctx context.Context, s ProtocolSession) ([]byte, error)
	// Restore replaces the state; nil starts with no state. It runs before each Execute, with the current frame's
	// state.
	Restore(ctx context.Context, s ProtocolSession, state []byte) error
}

// ExecContext is the environment of running code.
type ExecContext struct {
	Session    events.SessionID
	Turn       events.TurnID
	Effect     events.EffectID
	Options    json.RawMessage           // effective turn options
	Extension  events.Extension          // the turn's extension
	Frame      events.FrameID            // the frame in which the code runs
	Plugins    map[string]string         // JSON by plugin id, from the turn's input
	Tools      []events.ToolEntry        // tools that the code may call
	Chronology []projector.Chronological // with all bodies loaded
	Host       ToolHost
	// Environment is the session's, for its limits.
	Environment Environment
	// Call runs a tool as a call of the model does, including hooks. n numbers the calls and starts of this run from
	// 0. The attachments of its result are references where they have bytes.
	// In a repeated run, a call that has a recorded result returns that result. A failed tool is a result with its
	// outcome. On an error the code must end with this error; the run may be repeated. Calls may overlap.
	Call func(ctx context.Context, n int, tool string, args json.RawMessage) (Result, error)
	// Start starts a tool as a background task, which outlives the turn, and returns its handle. In a repeated run it
	// returns the same handle. Await returns the result of a handle, in any turn and on any node.
	// The code may handle a [*Failure]; other errors end it.
	Start func(ctx context.Context, n int, tool string, args json.RawMessage) (handle string, err error)
	Await func(ctx context.Context, handle string) (Result, error)
	// Attachments returns the attachments of the conversation, in order, as references where they have bytes. The code may pass
	// them to tools, and return them.
	Attachments func(ctx context.Context) ([]events.Part, error)
	// Message sends a side message to the hosts that watch the session.
	Message func(text, kind string)
}
