package plugin

import (
	"context"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// HookFunc decides at a point of a turn. An error does what the point's rule
// says (host specification 4.2); so do a panic, a hang and an invalid list.
// It may run again only while nothing of it was recorded. What it is given is
// its own, but for the view, which is the session's and only to be read. Bodies
// that are kept outside the log are in it: no message, result or argument is a reference.
type HookFunc[C any] func(ctx context.Context, in C) ([]Directive, error)

// TurnContext is what the hooks before a turn see.
type TurnContext struct {
	Session events.SessionID
	Turn    events.TurnID
	Input   events.TurnInput
	View    projector.ReadView
	Host    TurnHookHost
}

// CheckpointContext is what checkpoint hooks see.
type CheckpointContext struct {
	Session events.SessionID
	Turn    events.TurnID
	At      events.CheckpointKind
	View    projector.ReadView
	Host    CheckpointHost
}

// TurnResultContext is what the hooks after a turn see.
type TurnResultContext struct {
	Session events.SessionID
	Turn    events.TurnID
	Ending  events.TurnCompleted // how the turn will end
	View    projector.ReadView
	Host    TurnResultHost
}

// ToolContext is what the hooks before a call see.
type ToolContext struct {
	Call Call
	Tool string
	Args json.RawMessage // as the model gave them
	Host ToolHost
}

// ToolResultContext is what the hooks after a call see.
type ToolResultContext struct {
	Call   Call
	Tool   string
	Args   json.RawMessage // that the call ran with
	Result Result
	Millis int64
	Host   ToolHost
}

// PromptFunc contributes to the prompt of a turn. An error stops the turn.
type PromptFunc func(ctx context.Context, in PromptContext) ([]events.Contribution, error)

// PromptContext is what prompt contributors see.
type PromptContext struct {
	Session events.SessionID
	Turn    events.TurnID
	Input   events.TurnInput
	Options json.RawMessage // the protocol's turn options
	View    projector.ReadView
	Host    PromptHost
}

// TransformFunc shapes what a turn shows of the conversation. The graph is
// untouched. Each gets what the one before gave. An error fails the turn.
type TransformFunc func(ctx context.Context, in TransformContext, now Prepared) (Prepared, error)

// TransformContext is what context transforms see.
type TransformContext struct {
	Session    events.SessionID
	Turn       events.TurnID
	Input      events.TurnInput
	State      *projector.State
	LastPrompt int64 // tokens of the last prompt, 0 before the first
	Host       HistoryHost
}

// Prepared is a turn's context on its way through the transforms.
type Prepared struct {
	Messages []events.Message // what the model will be shown; messages of the path keep their ids
	Overlay  *Overlay         // tools and contributions for this session from now on; nil leaves them
}

// CompactFunc summarises the conversation into what a new frame begins with.
// Without nodes it means no. It may ask a model and take its time: five
// minutes, where that is more than hooks have.
type CompactFunc func(ctx context.Context, in TransformContext) (Compaction, error)

// Compaction is what a new frame begins with.
type Compaction struct {
	Nodes []api.AppendNode
	Keep  events.NodeID // nodes of the active path from here on stay visible behind Nodes; empty keeps none
}

// StreamFunc transforms a piece of a reply's text as it arrives.
type StreamFunc func(ctx context.Context, session events.SessionID, chunk string) (StreamTransform, error)

// StreamTransform is what a stream hook makes of a piece.
type StreamTransform struct {
	Chunk     string // shown instead; empty shows nothing
	Reasoning []string
	Events    []json.RawMessage
	Abort     bool // the reply ends here
}

// StreamEndFunc is told how a stream ended.
type StreamEndFunc func(ctx context.Context, session events.SessionID, reason StreamEnd)

// StreamEnd is how a stream ended.
type StreamEnd string

// The ends.
const (
	StreamComplete  StreamEnd = "complete"
	StreamAborted   StreamEnd = "aborted" // by a hook
	StreamCancelled StreamEnd = "cancelled"
	StreamFailed    StreamEnd = "provider_error"
)

// Response is a whole reply before it is recorded.
type Response struct {
	Parts []events.Part
	Stop  events.StopReason
	Usage events.Usage
	Model string
}

// Text is what it says, without its calls and its reasoning.
func (r Response) Text() string {
	return events.Message{Parts: r.Parts}.Text()
}

// ResponseFunc transforms it. An error counts as a failure of the provider.
type ResponseFunc func(ctx context.Context, session events.SessionID, r Response) (Response, []json.RawMessage, error)

// ProjectFunc gives what the model reads of a result. The record keeps the
// result itself. Where it fails, the model reads the error.
type ProjectFunc func(ctx context.Context, in ToolResultContext) (text string, attachments []events.Part, err error)

// ProseFunc gives what users see of the model's prose.
type ProseFunc func(text string) string

// MutateFunc gives a configuration in place of the one that a host sets.
type MutateFunc func(ctx context.Context, change ConfigChange, now events.Config) (events.Config, error)

// ConfigChange is a change that a host asks for.
type ConfigChange struct {
	Session           events.SessionID
	Previous, Current events.Config
}

// LifecycleFunc is told of a session's events.
type LifecycleFunc func(ctx context.Context, e Lifecycle) error

// LifecycleKind names an event of a session's life.
type LifecycleKind string

// The events.
const (
	TurnFinalized        LifecycleKind = "turn_finalized" // before its end is recorded
	TurnPersisted        LifecycleKind = "turn_persisted" // after, at least once; not of a turn whose pipeline failed
	SessionRestored      LifecycleKind = "session_restored"
	SessionConfigChanged LifecycleKind = "session_config_changed"
)

// Lifecycle is one of them.
type Lifecycle struct {
	Kind    LifecycleKind
	Session events.SessionID
	Turn    events.TurnID // of turns
	State   *projector.State
	Change  ConfigChange // of configurations
	Host    RuntimeHost
}
