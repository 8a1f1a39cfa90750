package plugin

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Protocol is a protocol's part in a session's life. Embed [BaseProtocol] for
// the callbacks that do nothing.
type Protocol interface {
	// Initialize runs once for each live session: opened, created, or rebuilt. An error fails the opening.
	Initialize(ctx context.Context, s ProtocolSession) error
	// Restore runs after it, and again on a live session after the leaf was moved to another branch and in a new
	// frame. It begins anew: what extensions brought the protocol is handed again. An error fails the opening.
	Restore(ctx context.Context, s ProtocolSession, state *projector.State) error
	// AppendNodes sees nodes that a host appends, before they are. An error fails the append.
	AppendNodes(ctx context.Context, s ProtocolSession, nodes []api.AppendNode) error
	// ApplyExtension takes an object of the protocol's own from a host. The history keeps it: unless the plugin is
	// [Stateful], it is handed again, in order, after each Restore, on whichever node that is.
	ApplyExtension(ctx context.Context, e events.Extension) error
	// ValidateTurn checks a turn's extension and its turn options, before anything of it is recorded.
	ValidateTurn(ctx context.Context, in events.TurnInput) error
	// Configure runs each time a session is materialised, resumed ones too.
	Configure(ctx context.Context, rt *ProtocolRuntime, m Materialization) error
	// BeforeModelCall may go on in another frame instead of asking the model. An error fails the turn.
	BeforeModelCall(ctx context.Context, in ModelCallContext) (*events.FrameSwitch, error)
}

// BaseProtocol does nothing, accepts every turn and no extension of a session.
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

// ProtocolSession is what a protocol may know of a session.
type ProtocolSession struct{ Session events.SessionID }

// Materialization says how a session came to be live.
type Materialization struct {
	Options Options // of every plugin
	IsRoot  bool    // no parent
}

// ProtocolRuntime is a protocol's hold on its durable turn options.
type ProtocolRuntime struct {
	options json.RawMessage
	changed bool
	all     bool
}

// NewProtocolRuntime begins with the options as recorded.
func NewProtocolRuntime(options json.RawMessage) *ProtocolRuntime {
	return &ProtocolRuntime{options: options}
}

// Options are the session's turn options, JSON of the protocol's own; nil where none were set.
func (r *ProtocolRuntime) Options() json.RawMessage { return r.options }

// SetOptions sets them for the session's current frame and those that follow.
func (r *ProtocolRuntime) SetOptions(o json.RawMessage) { r.set(o, false) }

// SetOptionsAllFrames sets them for every frame.
func (r *ProtocolRuntime) SetOptionsAllFrames(o json.RawMessage) { r.set(o, true) }

func (r *ProtocolRuntime) set(o json.RawMessage, all bool) {
	r.changed = r.changed || string(r.options) != string(o) || all
	r.options, r.all = o, r.all || all
}

// Change is what has to be recorded; nil where nothing has.
func (r *ProtocolRuntime) Change() *events.FrameConfigured {
	if !r.changed {
		return nil
	}
	return &events.FrameConfigured{Options: r.options, All: r.all}
}

// ModelCallContext is what a protocol sees before a model call.
type ModelCallContext struct {
	Session    events.SessionID
	Turn       events.TurnID
	Prompt     projector.Prompt
	Options    json.RawMessage // turn options that count
	View       projector.ReadView
	LastPrompt int64 // tokens of the last prompt, 0 before the first
	Window     int64 // tokens; 0 means unknown
	Host       HistoryHost
}

// Driver builds prompts and reads replies. It is pure: the same input gives the same preamble.
type Driver interface {
	Preamble(in PreambleInput) Preamble
}

// DriverFunc is a [Driver] that is one function.
type DriverFunc func(in PreambleInput) Preamble

// Preamble implements [Driver].
func (f DriverFunc) Preamble(in PreambleInput) Preamble { return f(in) }

// PreambleInput is what a preamble is made of.
type PreambleInput struct {
	Tools      []events.ToolEntry // that the session offers
	Extensions Extensions
	Options    json.RawMessage // turn options that count
}

// Preamble is a protocol's part in prompts and replies. Every function may be nil.
type Preamble struct {
	Contributions []events.Contribution
	// HideTools keeps the tools out of the request: the protocol tells of them in its own way.
	HideTools bool
	// Show gives the conversation as the model is told it.
	Show func([]events.Message) []events.Message
	// Read says what a reply means.
	Read func(Response) Reading
	// Cut reports whether the reply can end here, given its text so far.
	Cut func(text string) bool
}

// Reading is what a reply means.
type Reading struct {
	Parts   []events.Part // of the reply as it is recorded
	Correct string        // the reply is no answer: tell the model this, and ask again
}

// ToolCode is the name of the tool that a protocol's code runs as: part of no catalogue.
const ToolCode = api.ToolCode

// ExecRequest is code to run.
type ExecRequest struct {
	Language     string
	Code         string
	AcceptFinish bool // whether the code may end the turn
}

// ExecResponse is what it came to.
type ExecResponse struct {
	Output    string
	Truncated int64           // bytes left out of Output
	Calls     int             // tool calls made
	Error     string          // that the model reads; not an error of the executor
	Finished  bool            // the turn ends with Value
	Value     json.RawMessage // of a finish
	Switch    *events.FrameSwitch
}

// CodeExecutor runs a protocol's code. Its calls do not overlap.
type CodeExecutor interface {
	// Execute runs code. Errors: [api.ErrRuntimeStopped], what ends ctx, and as
	// they are those of the context's functions. Made again after a crash, it
	// must make the same tool calls in the same order.
	Execute(ctx context.Context, in ExecContext, req ExecRequest) (ExecResponse, error)
	// Dirty reports whether the state differs from the one that was saved or restored last.
	Dirty() bool
	// Snapshot gives the state; nil means none.
	Snapshot(ctx context.Context, s ProtocolSession) ([]byte, error)
	// Restore sets it; nil begins anew. It runs before each Execute, with the current frame's.
	Restore(ctx context.Context, s ProtocolSession, state []byte) error
}

// ExecContext is what running code can do.
type ExecContext struct {
	Session    events.SessionID
	Turn       events.TurnID
	Effect     events.EffectID
	Options    json.RawMessage           // turn options that count
	Extension  events.Extension          // of the turn
	Frame      events.FrameID            // that the code runs in
	Plugins    map[string]string         // JSON for plugins, by plugin id, as the turn's input brought it
	Tools      []events.ToolEntry        // that it may call
	Chronology []projector.Chronological // with every body
	Host       ToolHost
	// Call runs a tool as a model's call does, hooks and all. n numbers the
	// calls and starts of this run from 0: made again, a call gets its recorded
	// result. What the tool came to is the result's outcome; an error is not the
	// tool's: the code has to end with it, and may run again. Calls may overlap.
	Call func(ctx context.Context, n int, tool string, args json.RawMessage) (Result, error)
	// Start begins a tool as a background task, which outlives the turn, and
	// gives its handle; made again it begins nothing. Await gives its result, in
	// any turn, on any node. A [*Failure] is the code's to handle.
	Start func(ctx context.Context, n int, tool string, args json.RawMessage) (handle string, err error)
	Await func(ctx context.Context, handle string) (Result, error)
	// Message shows a side message to the hosts that watch.
	Message func(text, kind string)
}
