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

// Absent is a [RuntimeHost] without capabilities. Methods that return or change something fail with [ErrUnavailable].
// Methods whose effect is optional do nothing. Embed it to offer some capabilities only.
type Absent struct{}

var _ RuntimeHost = Absent{}

// SnapshotCurrent implements [SnapshotHost].
func (Absent) SnapshotCurrent(context.Context) (*projector.State, error) {
	return nil, unavailable("snapshots")
}

// SnapshotSession implements [SnapshotHost].
func (Absent) SnapshotSession(context.Context, events.SessionID) (*projector.State, error) {
	return nil, unavailable("snapshots")
}

// ToolCatalog implements [CatalogHost].
func (Absent) ToolCatalog(context.Context, events.SessionID) ([]json.RawMessage, error) {
	return nil, unavailable("tool catalog")
}

// ToolState implements [ToolStateHost].
func (Absent) ToolState(context.Context, events.SessionID) (api.ToolState, error) {
	return api.ToolState{}, unavailable("tool state")
}

// ApplyToolState implements [ToolStateHost].
func (Absent) ApplyToolState(context.Context, events.SessionID, api.ToolState) (int64, error) {
	return 0, unavailable("tool state mutation")
}

// SetToolsAvailability implements [ToolStateHost].
func (Absent) SetToolsAvailability(context.Context, events.SessionID, []string, events.Override) (int64, error) {
	return 0, unavailable("tool state")
}

// SetToolAvailability implements [ToolStateHost].
func (Absent) SetToolAvailability(context.Context, events.SessionID, string, events.Override) (int64, error) {
	return 0, unavailable("tool state")
}

// ToolSources implements [ToolStateHost].
func (Absent) ToolSources(context.Context, events.SessionID) ([]api.ToolSource, error) {
	return nil, unavailable("tool sources")
}

// AddToolSource implements [ToolStateHost].
func (Absent) AddToolSource(context.Context, events.SessionID, string) (int64, error) {
	return 0, unavailable("tool sources")
}

// RemoveToolSource implements [ToolStateHost].
func (Absent) RemoveToolSource(context.Context, events.SessionID, string) (int64, error) {
	return 0, unavailable("tool sources")
}

// RefreshCatalog implements [ToolStateHost].
func (Absent) RefreshCatalog(context.Context, events.SessionID) (int64, error) {
	return 0, unavailable("tool state")
}

// CreateSession implements [LifecycleHost].
func (Absent) CreateSession(context.Context, api.CreateRequest) (api.Handle, error) {
	return api.Handle{}, unavailable("sessions")
}

// TakeFirstTurnInput implements [LifecycleHost]: it returns no input.
func (Absent) TakeFirstTurnInput(context.Context, events.SessionID) (*events.Message, error) {
	return nil, nil //nolint:nilnil // no input, no error
}

// CloseSession implements [LifecycleHost].
func (Absent) CloseSession(context.Context, events.SessionID) error { return unavailable("sessions") }

// StartTurnStream implements [TurnHost].
func (Absent) StartTurnStream(context.Context, events.SessionID, api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	return "", nil, unavailable("turns")
}

// AwaitTurn implements [TurnHost].
func (Absent) AwaitTurn(context.Context, events.SessionID, events.TurnID) (api.AssembledTurn, error) {
	return api.AssembledTurn{}, unavailable("turns")
}

// CancelTurn implements [TurnHost].
func (Absent) CancelTurn(context.Context, events.SessionID, events.TurnID) error {
	return unavailable("turns")
}

// AnswerByTurn implements [TurnHost].
func (Absent) AnswerByTurn(context.Context, events.EffectID, events.SessionID, api.TurnRequest) error {
	return unavailable("turns")
}

// StartTurn implements [TurnHost].
func (Absent) StartTurn(context.Context, events.SessionID, api.TurnRequest) (api.AssembledTurn, error) {
	return api.AssembledTurn{}, unavailable("turns")
}

// InjectTurnInput implements [TaskHost].
func (Absent) InjectTurnInput(context.Context, events.SessionID, api.InjectRequest) error {
	return unavailable("turn input injection")
}

// SpawnHiddenTask implements [TaskHost].
func (Absent) SpawnHiddenTask(context.Context, events.SessionID, string, TaskFunc) error {
	return unavailable("background tasks")
}

// AwaitHiddenTasks implements [TaskHost]: it returns at once.
func (Absent) AwaitHiddenTasks(context.Context, events.SessionID) error { return nil }

// SpawnTask implements [TaskHost].
func (Absent) SpawnTask(context.Context, events.SessionID, api.TaskRequest, TaskFunc) error {
	return unavailable("background tasks")
}

// CancelTaskIfKnown implements [TaskHost].
func (Absent) CancelTaskIfKnown(context.Context, events.SessionID, events.TaskID) error {
	return unavailable("background tasks")
}

// RegisterTask implements [TaskHost].
func (Absent) RegisterTask(context.Context, events.SessionID, api.TaskRequest) (projector.Task, error) {
	return projector.Task{}, unavailable("background task registry")
}

// UnregisterTask implements [TaskHost]: it does nothing.
func (Absent) UnregisterTask(context.Context, events.SessionID, events.TaskID) error {
	return nil
}

// EndTask implements [TaskHost]: it does nothing.
func (Absent) EndTask(context.Context, events.SessionID, events.TaskID, events.TaskState, string) error {
	return nil
}

// TransitionTask implements [TaskHost]: it does nothing.
func (Absent) TransitionTask(context.Context, events.SessionID, events.TaskID, events.TaskState) error {
	return nil
}

// Tasks implements [TaskHost].
func (Absent) Tasks(context.Context, events.SessionID) ([]projector.Task, error) {
	return nil, unavailable("background task registry")
}

// CancelTask implements [TaskHost].
func (Absent) CancelTask(context.Context, events.SessionID, events.TaskID) (projector.Task, error) {
	return projector.Task{}, unavailable("background task registry")
}

// CheckTasks implements [TaskHost]: it accepts all ids.
func (Absent) CheckTasks(context.Context, events.SessionID, []events.TaskID) error {
	return nil
}

// TransferTasks implements [TaskHost]: it does nothing.
func (Absent) TransferTasks(context.Context, events.SessionID, events.SessionID, []events.TaskID) error {
	return nil
}

// CancelTasksExcept implements [TaskHost]: it does nothing.
func (Absent) CancelTasksExcept(context.Context, events.SessionID, []events.TaskID) ([]projector.Task, error) {
	return nil, nil
}

// MonitorSnapshot implements [MonitorHost].
func (Absent) MonitorSnapshot(context.Context, events.SessionID) (api.MonitorSnapshot, error) {
	return api.MonitorSnapshot{}, unavailable("monitors")
}

// TakeMonitorUpdates implements [MonitorHost].
func (Absent) TakeMonitorUpdates(context.Context, events.SessionID) (api.MonitorUpdates, error) {
	return api.MonitorUpdates{}, unavailable("monitors")
}

// StartMonitor implements [MonitorHost].
func (Absent) StartMonitor(context.Context, events.SessionID, events.MonitorSpec) (api.MonitorSnapshot, error) {
	return api.MonitorSnapshot{}, unavailable("monitors")
}

// StopMonitor implements [MonitorHost].
func (Absent) StopMonitor(context.Context, events.SessionID, events.MonitorID) (api.MonitorSnapshot, error) {
	return api.MonitorSnapshot{}, unavailable("monitors")
}

// AppendNodes implements [GraphHost].
func (Absent) AppendNodes(context.Context, events.SessionID, api.AppendNodesRequest) (api.AppendedNodes, error) {
	return api.AppendedNodes{}, unavailable("session graph mutation")
}

// Complete implements [CompletionHost].
func (Absent) Complete(context.Context, CompletionRequest, string) (Completion, error) {
	return Completion{}, unavailable("direct completions")
}

// EmitTrace implements [TraceHost]: it does nothing.
func (Absent) EmitTrace(context.Context, api.TraceContext, api.TraceEvent) error { return nil }

// ToolOutput implements [OutputHost].
func (Absent) ToolOutput(context.Context, events.SessionID, events.EffectID) (string, error) {
	return "", unavailable("tool output")
}

// StoreBody implements [BodyHost].
func (Absent) StoreBody(context.Context, []byte) (events.BlobRef, error) {
	return events.BlobRef{}, unavailable("bodies")
}

// ReadBody implements [BodyHost].
func (Absent) ReadBody(context.Context, string) ([]byte, error) { return nil, unavailable("bodies") }

// Now implements [ClockHost] with the zero time.
func (Absent) Now() time.Time { return time.Time{} }

// ResolveAt implements [TimerHost].
func (Absent) ResolveAt(context.Context, events.SessionID, events.EffectID, time.Time, events.ToolResult) error {
	return unavailable("timers")
}
