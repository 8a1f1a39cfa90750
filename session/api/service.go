package api

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Service has the operations on sessions. It is the same in the process of a node, over NATS and over HTTP. All
// methods are safe for concurrent use, from any number of goroutines and hosts. The effect of a call that returned
// nil is durable. A call whose answer was lost may be repeated unchanged: its ids and keys identify it.
type Service interface {
	Reader
	Bodies

	Create(ctx context.Context, req CreateRequest) (events.SessionID, error)
	Fork(ctx context.Context, from events.SessionID, req CreateRequest) (events.SessionID, error)
	Configure(ctx context.Context, id events.SessionID, req ConfigureRequest) error
	CloseSession(ctx context.Context, id events.SessionID, reason string) error
	Grant(ctx context.Context, id events.SessionID, req GrantRequest) error

	TakeFirstTurnInput(ctx context.Context, id events.SessionID) (*events.Message, error)
	SetProtocolOptions(ctx context.Context, id events.SessionID, options json.RawMessage, allFrames bool) error
	ApplyExtension(ctx context.Context, id events.SessionID, e events.Extension) error
	ReplaceExtensions(ctx context.Context, id events.SessionID, list []events.Extension) error

	Submit(ctx context.Context, id events.SessionID, req TurnRequest) (events.TurnID, error)
	SubmitAt(ctx context.Context, id events.SessionID, at time.Time, req TurnRequest) (events.TurnID, error)
	Run(ctx context.Context, id events.SessionID, req TurnRequest) (TurnResult, error)
	Await(ctx context.Context, id events.SessionID, turn events.TurnID) (TurnResult, error)
	StartTurnStream(ctx context.Context, id events.SessionID, req TurnRequest) (events.TurnID, iter.Seq2[SessionEvent, error], error)
	Cancel(ctx context.Context, id events.SessionID, turn events.TurnID, req CancelRequest) (CancelReceipt, CancelRequest, error)

	Inject(ctx context.Context, id events.SessionID, req InjectRequest) (events.InputID, error)
	CancelInputs(ctx context.Context, id events.SessionID, inputs ...events.InputID) ([]InputReceipt, error)
	CancelInputsFrom(ctx context.Context, id events.SessionID, first events.InputID) (InputReceipt, []events.InputID, error)

	AppendNodes(ctx context.Context, id events.SessionID, req AppendNodesRequest) (AppendedNodes, error)
	BranchTo(ctx context.Context, id events.SessionID, node events.NodeID) error
	OpenFrame(ctx context.Context, id events.SessionID, req FrameRequest) (opened bool, err error)
	Rewrite(ctx context.Context, id events.SessionID, target []RewriteMessage) error
	Compact(ctx context.Context, id events.SessionID) (opened bool, err error)

	Approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven) error
	ResolveTool(ctx context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error

	ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error)
	ToolState(ctx context.Context, id events.SessionID) (ToolState, error)
	ApplyToolState(ctx context.Context, id events.SessionID, state ToolState) (generation int64, err error)
	SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (generation int64, err error)
	// ToolSources lists the session's sources, in the order of their addition, and then those that the answering host
	// can add.
	ToolSources(ctx context.Context, id events.SessionID) ([]ToolSource, error)
	AddToolSource(ctx context.Context, id events.SessionID, source string) (generation int64, err error)
	RemoveToolSource(ctx context.Context, id events.SessionID, source string) (generation int64, err error)
	RefreshCatalog(ctx context.Context, id events.SessionID) (generation int64, err error)

	RegisterTask(ctx context.Context, id events.SessionID, req TaskRequest) (projector.Task, error)
	ProgressTask(ctx context.Context, id events.SessionID, name events.TaskID, message string) (projector.Task, error)
	EndOwnTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState, summary string) (projector.Task, error)
	TransitionOwnTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState) (projector.Task, error)
	UnregisterOwnTask(ctx context.Context, id events.SessionID, name events.TaskID) error
	RequestCancelTask(ctx context.Context, id events.SessionID, name events.TaskID, reason string) (projector.Task, error)
	CancelTask(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error)
	CancelTasks(ctx context.Context, id events.SessionID, keep []events.TaskID) ([]events.TaskID, error)
	TransferTasks(ctx context.Context, from, to events.SessionID, ids []events.TaskID) error
	StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) error
	StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) error
	MonitorSnapshot(ctx context.Context, id events.SessionID) (MonitorSnapshot, error)
	TakeMonitorUpdates(ctx context.Context, id events.SessionID) (MonitorUpdates, error)

	Observe(ctx context.Context, id events.SessionID, cursor events.Seq) iter.Seq2[Observed, error]
}
