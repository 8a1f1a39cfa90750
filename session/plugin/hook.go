package plugin

import (
	"context"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// contributions are the registrations of all plugins of a stack, in stack order.
type contributions struct {
	tools        *Tools
	owners       map[string]string // plugins by tool, where the source of the tool is another name
	reserved     map[toolID]*BoundTool
	sources      map[string]Owned[SourceFunc] // by name
	beforeTurn   []Owned[HookFunc[TurnContext]]
	beforeModel  []Owned[HookFunc[ModelContext]]
	checkpoint   []Owned[HookFunc[CheckpointContext]]
	afterTurn    []Owned[HookFunc[TurnResultContext]]
	beforeTool   []Owned[HookFunc[ToolContext]]
	authorize    []Owned[HookFunc[ToolContext]]
	afterTool    []Owned[HookFunc[ToolResultContext]]
	prompt       []Owned[PromptFunc]
	transforms   []Owned[ranked[TransformFunc]]
	compactors   []Owned[ranked[CompactFunc]]
	streams      []Owned[StreamFunc]
	streamEnds   []Owned[StreamEndFunc]
	responses    []Owned[ResponseFunc]
	mutators     []Owned[MutateFunc]
	lifecycle    []Owned[LifecycleFunc]
	catalog      []Owned[CatalogFunc]
	actions      map[string]Owned[action]
	monitors     []Owned[events.MonitorSpec]
	projector    *Owned[ProjectFunc]
	protocol     *Owned[Protocol]
	driver       *Owned[Driver]
	executor     *Owned[CodeExecutor]
	proseProject *Owned[ProseFunc]
}

// newContributions is empty, with room for some tools.
func newContributions(tools int) contributions {
	return contributions{
		tools: &Tools{byName: make(map[string]*BoundTool, tools)}, owners: make(map[string]string), reserved: make(map[toolID]*BoundTool),
		sources: make(map[string]Owned[SourceFunc]), actions: make(map[string]Owned[action]),
	}
}

type ranked[T any] struct {
	priority int
	fn       T
}

// HookFunc decides at a point of a turn. The package documentation says what an error does at each point;
// a panic, a timeout and an invalid list count as errors. The hook may run again while its result is not recorded.
// The input is a copy for this hook, except View, which is shared and read-only. All bodies in it are loaded.
type HookFunc[C any] func(ctx context.Context, in C) ([]Directive, error)

// TurnContext is the input of hooks before a turn.
type TurnContext struct {
	Session events.SessionID
	Turn    events.TurnID
	Effect  events.EffectID // of the hooks at this point: the same wherever they run again
	Input   events.TurnInput
	View    projector.ReadView
	Host    TurnHookHost
}

// ModelContext is the input of hooks before a model call.
type ModelContext struct {
	Session    events.SessionID
	Turn       events.TurnID
	Effect     events.EffectID // of the hooks at this point: the same wherever they run again
	Iteration  int64           // index of the model call in the turn, from 0
	View       projector.ReadView
	LastPrompt int64 // tokens of the last prompt, 0 before the first
	Window     int64 // of the model in tokens; 0 if unknown
	Host       ModelHookHost
}

// CheckpointContext is the input of checkpoint hooks.
type CheckpointContext struct {
	Session events.SessionID
	Turn    events.TurnID
	Effect  events.EffectID // of the hooks at this point: the same wherever they run again
	At      events.CheckpointKind
	View    projector.ReadView
	Host    CheckpointHost
}

// TurnResultContext is the input of hooks after a turn.
type TurnResultContext struct {
	Session events.SessionID
	Turn    events.TurnID
	Effect  events.EffectID      // of the hooks at this point: the same wherever they run again
	Ending  events.TurnCompleted // how the turn will end
	View    projector.ReadView
	Host    TurnResultHost
}

// ToolContext is the input of hooks before a tool call.
type ToolContext struct {
	Call Call
	Tool string
	Args json.RawMessage // from the model's reply; of [Registrar.AuthorizeToolCall], those that the call would run with
	Host ToolHost
}

// ToolResultContext is the input of hooks after a tool call.
type ToolResultContext struct {
	Call   Call
	Tool   string
	Args   json.RawMessage // the arguments that the call ran with
	Result Result
	Millis int64
	Host   ToolHost
}

// PromptFunc contributes to the prompt of a turn. An error stops the turn.
type PromptFunc func(ctx context.Context, in PromptContext) ([]events.Contribution, error)

// PromptContext is the input of a [PromptFunc].
type PromptContext struct {
	Session events.SessionID
	Turn    events.TurnID
	Input   events.TurnInput
	Options json.RawMessage // the protocol's turn options
	View    projector.ReadView
	Host    PromptHost
}

// TransformFunc changes the messages that a turn shows to the model. The session's graph stays unchanged.
// Each function gets the result of the one before. An error fails the turn.
type TransformFunc func(ctx context.Context, in TransformContext, now Prepared) (Prepared, error)

// TransformContext is the input of transforms and compactors.
type TransformContext struct {
	Session    events.SessionID
	Turn       events.TurnID
	Input      events.TurnInput
	State      *projector.State
	LastPrompt int64 // tokens of the last prompt, 0 before the first
	Host       HistoryHost
}

// Prepared is the model's view of the session, as transforms change it.
type Prepared struct {
	Messages []events.Message // messages for the model; messages of the graph's path keep their ids
	Overlay  *Overlay         // tools and contributions of this session from now on; nil changes nothing
}

// CompactFunc summarises the conversation into the first nodes of a new frame. A compaction without nodes declines.
// It may call a model: its timeout is the timeout of hooks, but at least five minutes.
type CompactFunc func(ctx context.Context, in TransformContext) (Compaction, error)

// Compaction is the start of a new frame.
type Compaction struct {
	Nodes []api.AppendNode
	Keep  events.NodeID // nodes of the active path from this one on stay visible behind Nodes; empty keeps none
}

// StreamFunc transforms a chunk of a reply's text while the reply arrives.
type StreamFunc func(ctx context.Context, session events.SessionID, chunk string) (StreamTransform, error)

// StreamTransform is the result of a [StreamFunc].
type StreamTransform struct {
	Chunk     string // replaces the chunk; empty shows nothing
	Reasoning []string
	Events    []json.RawMessage
	Abort     bool // ends the reply here
}

// StreamEndFunc receives the reason for which a stream ended.
type StreamEndFunc func(ctx context.Context, session events.SessionID, reason StreamEnd)

// StreamEnd is the reason for which a stream ended.
type StreamEnd string

// Reasons for the end of a stream.
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

// Text is the reply's text without calls and reasoning.
func (r Response) Text() string {
	return events.Message{Parts: r.Parts}.Text()
}

// ResponseFunc transforms a reply and returns events for watching hosts. An error counts as a failure of the
// provider.
type ResponseFunc func(ctx context.Context, session events.SessionID, r Response) (Response, []json.RawMessage, error)

// ProjectFunc returns the model's view of a tool result: its text, and all attachments that the model sees. The history keeps the result
// itself. If the function fails, the model gets the error.
type ProjectFunc func(ctx context.Context, in ToolResultContext) (View, error)

// View is what the model sees of a tool result.
type View struct {
	Text        string
	Attachments []events.Part
}

// View is the whole result, for a [ProjectFunc] that changes a part of it.
func (in *ToolResultContext) View() View {
	return View{Text: in.Result.Text, Attachments: in.Result.Attachments}
}

// ProseFunc returns the text that users see in place of the model's prose.
type ProseFunc func(text string) string

// MutateFunc returns the configuration to set. now is the result of the function before it.
type MutateFunc func(ctx context.Context, change ConfigChange, now events.Config) (events.Config, error)

// ConfigChange is a change of configuration that a host requests.
type ConfigChange struct {
	Session           events.SessionID
	Previous, Current events.Config
}

// LifecycleFunc receives an event of the session's life.
type LifecycleFunc func(ctx context.Context, e Lifecycle) error

// LifecycleKind names an event of a session's life.
type LifecycleKind string

// Lifecycle events.
const (
	TurnFinalized        LifecycleKind = "turn_finalized" // before the turn's end is recorded
	TurnPersisted        LifecycleKind = "turn_persisted" // after the turn's end is recorded, at least once; not for a turn whose pipeline failed
	SessionRestored      LifecycleKind = "session_restored"
	SessionConfigChanged LifecycleKind = "session_config_changed" // after the change is recorded, at least once
)

// Lifecycle is an event of a session's life.
type Lifecycle struct {
	Kind    LifecycleKind
	Session events.SessionID
	Turn    events.TurnID // of turn events
	State   *projector.State
	Change  ConfigChange // of configuration events
	Host    RuntimeHost
}
