package plugin

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// SnapshotHost returns session states. A state is a value: changes to it change no session. Its view
// ([projector.State.View]) has all bodies loaded. Nodes and pending items, such as inputs and arguments of calls,
// have references for bodies that are stored outside the log.
type SnapshotHost interface {
	// SnapshotCurrent is the state that the caller sees now. In a turn it is the turn's working state.
	SnapshotCurrent(ctx context.Context) (*projector.State, error)
	// SnapshotSession is the last published state of a session. It does not wait.
	SnapshotSession(ctx context.Context, id events.SessionID) (*projector.State, error)
}

// CatalogHost returns tool catalogues.
type CatalogHost interface {
	// ToolCatalog lists the session's tools with availability "searchable" or higher, one JSON object each.
	ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error)
}

// ToolStateHost reads and changes the availability of tools.
type ToolStateHost interface {
	ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error)
	// ApplyToolState replaces the tool state if its generation is the session's. It returns the new generation.
	ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (int64, error)
	// SetToolsAvailability overrides the availability of several tools, all or none; "" removes the override.
	SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (int64, error)
	SetToolAvailability(ctx context.Context, id events.SessionID, name string, level events.Override) (int64, error)

	ToolSources(ctx context.Context, id events.SessionID) ([]api.ToolSource, error)
	// AddToolSource adds the tools of a registered source, from the next model call on. It returns the new
	// generation.
	AddToolSource(ctx context.Context, id events.SessionID, source string) (int64, error)
	RemoveToolSource(ctx context.Context, id events.SessionID, source string) (int64, error)
	// RefreshCatalog makes every node rebuild the catalogue and query all sources. It returns the new generation.
	RefreshCatalog(ctx context.Context, id events.SessionID) (int64, error)
}

// LifecycleHost creates and closes sessions.
type LifecycleHost interface {
	CreateSession(ctx context.Context, req api.CreateRequest) (api.Handle, error)
	// TakeFirstTurnInput returns the first turn's input once. Later, and for unknown sessions, it returns nil.
	TakeFirstTurnInput(ctx context.Context, id events.SessionID) (*events.Message, error)
	CloseSession(ctx context.Context, id events.SessionID) error
}

// TurnHost runs turns.
type TurnHost interface {
	StartTurnStream(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error)
	AwaitTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (api.AssembledTurn, error)
	CancelTurn(ctx context.Context, id events.SessionID, turn events.TurnID) error
	// StartTurn runs a turn to its end.
	StartTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.AssembledTurn, error)
	// AnswerByTurn requests a turn of a child whose end resolves a pending call of this session, with an [api.AgentState] as its JSON. See
	// [Call.CompletionKey] for the key. No node waits for the turn. A session that is no child of this one is [api.ErrForbidden].
	AnswerByTurn(ctx context.Context, key events.EffectID, child events.SessionID, req api.TurnRequest) error
}

// GraphHost appends to the session graph.
type GraphHost interface {
	// AppendNodes appends below the leaf. If a required ancestor left the path, the error is [*api.StaleBranchError].
	AppendNodes(ctx context.Context, id events.SessionID, req api.AppendNodesRequest) (api.AppendedNodes, error)
}

// CompletionHost calls the session's model directly, without a turn, tools, hooks or nodes.
type CompletionHost interface {
	// Complete returns the reply. The ledger records its usage once, under source. An invalid request is an
	// [*events.FieldError], see [CompletionRequest.Check].
	Complete(ctx context.Context, req CompletionRequest, source string) (Completion, error)
}

// OutputHost reads outputs that the history keeps and the model does not see.
type OutputHost interface {
	// ToolOutput is the whole output of a returned call. Errors: [api.ErrUnknownCall].
	ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error)
}

// CompletionTool is a tool that the reply to a [CompletionRequest] may name.
type CompletionTool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON schema of the arguments
}

// BodyHost stores bodies of the host's session outside its history, and reads them. Parts of messages and results refer to a
// body by its reference. The bodies of other sessions are not reached.
type BodyHost interface {
	// StoreBody stores a body of 1 to [events.MaxBlobBytes] bytes, and records it in the session's history, which keeps it until
	// a message refers to it. Equal bytes are recorded once. Errors: an [*events.FieldError], which is [events.ErrTooLarge]
	// above the limit; an [*api.LimitError] where the session's owner has stored as much as it may; [api.ErrClosed].
	StoreBody(ctx context.Context, body []byte) (events.BlobRef, error)
	// ReadBody returns a body that the session's history names. Errors: [api.ErrUnknownBlob].
	ReadBody(ctx context.Context, digest string) ([]byte, error)
}

// CompletionRequest is a model call outside the conversation.
type CompletionRequest struct {
	Key        string // identifies the call: the same key in the same turn returns the recorded reply. Defaults to the request's digest
	Model      string // Defaults to the session's
	Effort     string
	Messages   []events.Message
	Tools      []CompletionTool // that the reply may name; they do not run
	ToolChoice ToolChoice       `json:",omitzero"` // Defaults to the model's own. Zero values are not part of the digest
	Output     Output           `json:",omitzero"` // Defaults to text
	MaxTokens  int64            // limit of output tokens; 0 leaves it to the provider
	Sampling   events.Sampling  `json:",omitzero"` // Defaults to the session's, field by field
	// Stream receives the deltas of the reply, in order, from one goroutine, before Complete returns. It must not block.
	// A recorded reply is not streamed. Over NATS, deltas may be lost. Then a reset discards the deltas of that
	// attempt, and no more deltas of it follow.
	Stream func(CompletionDelta) `json:"-" msgpack:"-"`
}

// MaxDeltaBytes limits the text of one delta of a reply. A longer text is split.
const MaxDeltaBytes = 64 << 10

// CompletionDelta is a part of a streamed reply. Only the recorded reply is authoritative.
type CompletionDelta struct {
	Kind  events.PartKind `msgpack:"k,omitempty" json:"kind,omitempty" jsonschema:"text or reasoning; no other kind comes in pieces"`
	Text  string          `msgpack:"t,omitempty" json:"text,omitempty"`                                                               // complete UTF-8 characters, 1 to [MaxDeltaBytes] bytes
	Reset bool            `msgpack:"r,omitempty" json:"reset,omitempty" jsonschema:"true: the try failed; discard all deltas so far"` // set alone
}

// Completion is a model's reply to a [CompletionRequest].
type Completion struct {
	Text  string
	Parts []events.Part
	Stop  events.StopReason
	Model string
	Usage events.Usage
}

// TraceHost writes trace events.
type TraceHost interface {
	// EmitTrace writes a record of a trace. What the place leaves out is that of the caller, see [api.TraceContext.In]. An event
	// without a type is [api.TraceCustom]. It never fails a turn. Without a trace sink it does nothing.
	EmitTrace(ctx context.Context, place api.TraceContext, event api.TraceEvent) error
}

// ClockHost has the time.
type ClockHost interface {
	// Now is the time of an effect, as the history has it: that of the commit after which the hook, the tool or the code could
	// begin. It does not change while that runs, and is the same when it runs again, on any node, unless that commit was never
	// stored: hooks may run before it is. The calls that a call makes have its time. Outside of effects it is the servers'
	// time. The clocks of nodes may be wrong.
	Now() time.Time
}

// TimerHost sets timers.
type TimerHost interface {
	// ResolveAt resolves a pending call with a result at a time, on any node. See [Call.CompletionKey] for the key.
	// The first timer of a key wins.
	ResolveAt(ctx context.Context, id events.SessionID, key events.EffectID, at time.Time, result events.ToolResult) error
}

// Each kind of hook gets one of these sets of capabilities.
type (
	// PromptHost is for prompt contributors.
	PromptHost interface {
		ClockHost
		SnapshotHost
		CatalogHost
		TaskHost
		CompletionHost
	}
	// TurnHookHost is for hooks before a turn.
	TurnHookHost interface {
		ClockHost
		SnapshotHost
		ToolStateHost
		LifecycleHost
		TraceHost
		BodyHost
	}
	// ModelHookHost is for hooks before a model call.
	ModelHookHost interface {
		ClockHost
		SnapshotHost
		LifecycleHost
		CompletionHost
		TraceHost
	}
	// ToolHost is for tools and the hooks around them.
	ToolHost interface {
		ActionHost
		TimerHost
	}
	// TurnResultHost is for hooks after a turn.
	TurnResultHost interface {
		ClockHost
		LifecycleHost
		TraceHost
		BodyHost
	}
	// CheckpointHost is for checkpoint hooks.
	CheckpointHost interface {
		ClockHost
		LifecycleHost
		TraceHost
		BodyHost
	}
	// HistoryHost is for context transforms and compactors.
	HistoryHost interface {
		ClockHost
		SnapshotHost
		LifecycleHost
		TurnHost
		TaskHost
		GraphHost
		CompletionHost
		BodyHost
	}
	// ActionHost is for plugin actions.
	ActionHost interface {
		ClockHost
		SnapshotHost
		CatalogHost
		ToolStateHost
		LifecycleHost
		TurnHost
		TaskHost
		MonitorHost
		GraphHost
		CompletionHost
		OutputHost
		BodyHost
		TraceHost
	}
	// RuntimeHost has all capabilities.
	RuntimeHost interface {
		ActionHost
		ToolHost
		HistoryHost
		TurnHookHost
		ModelHookHost
		PromptHost
		TurnResultHost
		CheckpointHost
	}
)
