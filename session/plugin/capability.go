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

// SnapshotHost gives states. They are values: changing one changes nothing.
// Their views ([projector.State.View]) have every body. Nodes and what waits, as
// inputs and arguments of calls, have references where a body is kept outside the log.
type SnapshotHost interface {
	// SnapshotCurrent is the state that the caller sees now; in a turn, the turn's working state.
	SnapshotCurrent(ctx context.Context) (*projector.State, error)
	// SnapshotSession is a session's last published state. It waits for nothing.
	SnapshotSession(ctx context.Context, id events.SessionID) (*projector.State, error)
}

// CatalogHost gives tool catalogues.
type CatalogHost interface {
	// ToolCatalog lists a session's tools from searchable on, one JSON object each.
	ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error)
}

// ToolStateHost reads and changes which tools are available.
type ToolStateHost interface {
	ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error)
	// ApplyToolState replaces the tool state, if its generation is the session's. It gives the new generation.
	ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (int64, error)
	// SetToolsAvailability overrides the level of several tools in one step, all or none; "" lifts the override.
	SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (int64, error)
	SetToolAvailability(ctx context.Context, id events.SessionID, name string, level events.Override) (int64, error)

	ToolSources(ctx context.Context, id events.SessionID) ([]api.ToolSource, error)
	// AddToolSource adds the tools of a source that some plugin registered, from the next model call on. It gives the new generation.
	AddToolSource(ctx context.Context, id events.SessionID, source string) (int64, error)
	RemoveToolSource(ctx context.Context, id events.SessionID, source string) (int64, error)
	// RefreshCatalog has every node build the catalogue anew, and ask the sources. It gives the new generation.
	RefreshCatalog(ctx context.Context, id events.SessionID) (int64, error)
}

// LifecycleHost creates and closes sessions.
type LifecycleHost interface {
	CreateSession(ctx context.Context, req api.CreateRequest) (api.Handle, error)
	// TakeFirstTurnInput gives the first turn's input once; nil after that, and for unknown sessions.
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
}

// GraphHost appends to the session graph.
type GraphHost interface {
	// AppendNodes appends below the leaf. A required ancestor that left the path is a [*api.StaleBranchError].
	AppendNodes(ctx context.Context, id events.SessionID, req api.AppendNodesRequest) (api.AppendedNodes, error)
}

// CompletionHost asks the session's model directly: no turn, no tools, no hooks, no node.
type CompletionHost interface {
	// Complete gives the text. Usage is charged once to the ledger under source.
	// Errors before a model is asked: [*events.FieldError], see [CompletionRequest.Check].
	Complete(ctx context.Context, req CompletionRequest, source string) (Completion, error)
}

// OutputHost reads what the history keeps of a call and the model is not shown.
type OutputHost interface {
	// ToolOutput is the whole output of a call that has returned. Errors: [api.ErrUnknownCall].
	ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error)
}

// CompletionRequest is a model call outside the conversation.
type CompletionRequest struct {
	Key        string // names the call: asked again in the same turn it is answered from the history. Defaults to the request's digest
	Model      string // Defaults to the session's
	Effort     string
	Messages   []events.Message
	Tools      []events.ToolEntry // that the reply may name; nothing runs them
	ToolChoice ToolChoice         `json:",omitzero"` // Defaults to the model's own. Like Output it is left out of older digests
	Output     Output             `json:",omitzero"` // Defaults to text
	MaxTokens  int64              // of output; 0 leaves it to the provider
	Sampling   events.Sampling    `json:",omitzero"` // Defaults to the session's, field by field
	// Stream gets the reply as it comes, in order, from one goroutine, before the call returns. It must not block.
	// A reply of the history is not streamed. Over NATS pieces may be lost on their way: then what came before is taken
	// back, and no more comes of that try.
	Stream func(CompletionDelta) `json:"-" msgpack:"-"`
}

// MaxDeltaBytes bounds the text of one piece of a reply. A longer one comes as several.
const MaxDeltaBytes = 64 << 10

// CompletionDelta is a piece of a reply that is being streamed. Only the recorded reply counts.
type CompletionDelta struct {
	Kind  events.PartKind `msgpack:"k,omitempty"` // text or reasoning
	Text  string          `msgpack:"t,omitempty"` // whole UTF-8 characters, of 1 to [MaxDeltaBytes] bytes
	Reset bool            `msgpack:"r,omitempty"` // instead of both: what came so far is taken back, as the try failed
}

// Completion is the reply to it.
type Completion struct {
	Text  string
	Parts []events.Part
	Stop  events.StopReason
	Model string
	Usage events.Usage
}

// TraceHost writes to the trace.
type TraceHost interface {
	// EmitTrace never fails a turn. Without a sink it does nothing.
	EmitTrace(ctx context.Context, name string, payload json.RawMessage) error
}

// TimerHost sets timers.
type TimerHost interface {
	// ResolveAt gives a pending call, see [Call.CompletionKey], its result at a
	// time, on whatever node, however long that is. The first time that is set for a key stays.
	ResolveAt(ctx context.Context, id events.SessionID, key events.EffectID, at time.Time, result events.ToolResult) error
}

// The sets: what each kind of hook may ask of its host (host specification 4.7).
type (
	// PromptHost serves prompt contributors.
	PromptHost interface {
		SnapshotHost
		CatalogHost
		TaskHost
		CompletionHost
	}
	// TurnHookHost serves the hooks before a turn.
	TurnHookHost interface {
		SnapshotHost
		ToolStateHost
		LifecycleHost
		TraceHost
	}
	// ToolHost serves tools and the hooks around them.
	ToolHost interface {
		ActionHost
		TimerHost
	}
	// TurnResultHost serves the hooks after a turn.
	TurnResultHost interface {
		LifecycleHost
		TraceHost
	}
	// CheckpointHost serves checkpoint hooks.
	CheckpointHost interface {
		LifecycleHost
		TraceHost
	}
	// HistoryHost serves context transforms and compactors.
	HistoryHost interface {
		SnapshotHost
		LifecycleHost
		TurnHost
		TaskHost
		GraphHost
		CompletionHost
	}
	// ActionHost serves plugin actions.
	ActionHost interface {
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
		TraceHost
	}
	// RuntimeHost serves all of them.
	RuntimeHost interface {
		ActionHost
		ToolHost
		HistoryHost
		TurnHookHost
		PromptHost
		TurnResultHost
		CheckpointHost
	}
)
