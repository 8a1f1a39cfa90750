package events

import (
	"maps"
	"reflect"
	"slices"
)

// kindInfo is one row of the table of kinds.
type kindInfo struct {
	v   int64 // current payload version
	new func() Payload
}

func row[T any, P interface {
	*T
	Payload
}](v int64) kindInfo {
	return kindInfo{v: v, new: func() Payload { return P(new(T)) }}
}

// kinds is every kind this program knows. One line a kind.
//
//nolint:gochecknoglobals // read-only table
var kinds = map[Kind]kindInfo{
	KindSessionOpened:          row[SessionOpened](1),
	KindSessionConfigured:      row[SessionConfigured](1),
	KindSessionClosed:          row[SessionClosed](1),
	KindSessionGranted:         row[SessionGranted](1),
	KindSessionOverlaid:        row[SessionOverlaid](1),
	KindSessionExtended:        row[SessionExtended](1),
	KindSessionExtensionsSet:   row[SessionExtensionsSet](1),
	KindBodyStored:             row[BodyStored](1),
	KindGraphAppended:          row[GraphAppended](1),
	KindGraphBranched:          row[GraphBranched](1),
	KindFrameOpened:            row[FrameOpened](1),
	KindTurnRequested:          row[TurnRequested](1),
	KindTurnScheduled:          row[TurnScheduled](1),
	KindTurnStarted:            row[TurnStarted](1),
	KindTurnReleased:           row[TurnReleased](1),
	KindTurnAnnounced:          row[TurnAnnounced](1),
	KindTurnTold:               row[TurnTold](1),
	KindTurnCancelRequested:    row[TurnCancelRequested](1),
	KindTurnCompleted:          row[TurnCompleted](1),
	KindTurnDiverted:           row[TurnDiverted](1),
	KindModelReplied:           row[ModelReplied](1),
	KindModelFailed:            row[ModelFailed](1),
	KindModelInterrupted:       row[ModelInterrupted](1),
	KindToolStateApplied:       row[ToolStateApplied](1),
	KindToolSourcesApplied:     row[ToolSourcesApplied](1),
	KindToolCalled:             row[ToolCalled](1),
	KindToolReturned:           row[ToolReturned](1),
	KindToolLost:               row[ToolLost](1),
	KindInputInjected:          row[InputInjected](1),
	KindInputAccepted:          row[InputAccepted](1),
	KindInputCancelled:         row[InputCancelled](1),
	KindSessionFirstInputTaken: row[SessionFirstInputTaken](1),
	KindFrameConfigured:        row[FrameConfigured](1),
	KindFrameStateSaved:        row[FrameStateSaved](1),
	KindTurnPrepared:           row[TurnPrepared](1),
	KindTurnCheckpointed:       row[TurnCheckpointed](1),
	KindModelCompleted:         row[ModelCompleted](1),
	KindHookRan:                row[HookRan](1),
	KindPluginStateSaved:       row[PluginStateSaved](1),
	KindToolApprovalAsked:      row[ToolApprovalAsked](1),
	KindToolApprovalGiven:      row[ToolApprovalGiven](1),
	KindToolPended:             row[ToolPended](1),
	KindToolResolved:           row[ToolResolved](1),
	KindToolResultScheduled:    row[ToolResultScheduled](1),
	KindToolNestedCalled:       row[ToolNestedCalled](1),
	KindToolNestedReturned:     row[ToolNestedReturned](1),
	KindUsageCharged:           row[UsageCharged](1),
	KindTaskRegistered:         row[TaskRegistered](1),
	KindTaskStarted:            row[TaskStarted](1),
	KindTaskStateChanged:       row[TaskStateChanged](1),
	KindTaskProgressed:         row[TaskProgressed](1),
	KindTaskCancelRequested:    row[TaskCancelRequested](1),
	KindTaskHidden:             row[TaskHidden](1),
	KindTaskPassedOn:           row[TaskPassedOn](1),
	KindTaskEnded:              row[TaskEnded](1),
	KindTaskRemoved:            row[TaskRemoved](1),
	KindTaskTransferred:        row[TaskTransferred](1),
	KindTaskLeaving:            row[TaskLeaving](1),
	KindTaskStayed:             row[TaskStayed](1),
	KindMonitorRegistered:      row[MonitorRegistered](1),
	KindMonitorArmed:           row[MonitorArmed](1),
	KindMonitorStarted:         row[MonitorStarted](1),
	KindMonitorReported:        row[MonitorReported](1),
	KindMonitorEnded:           row[MonitorEnded](1),
	KindMonitorUpdatesTaken:    row[MonitorUpdatesTaken](1),
}

// kindOf is the kinds by the types of their payloads.
//
//nolint:gochecknoglobals // read-only table
var kindOf = func() map[reflect.Type]Kind {
	byType := make(map[reflect.Type]Kind, len(kinds))
	for kind, info := range kinds {
		byType[reflect.TypeOf(info.new())] = kind
	}
	return byType
}()

// The kinds.
const (
	KindSessionOpened          Kind = "session.opened"
	KindSessionConfigured      Kind = "session.configured"
	KindSessionClosed          Kind = "session.closed"
	KindSessionGranted         Kind = "session.granted"
	KindSessionOverlaid        Kind = "session.overlaid"
	KindSessionExtended        Kind = "session.extended"
	KindSessionExtensionsSet   Kind = "session.extensions_set"
	KindBodyStored             Kind = "body.stored"
	KindGraphAppended          Kind = "graph.appended"
	KindGraphBranched          Kind = "graph.branched"
	KindFrameOpened            Kind = "frame.opened"
	KindTurnRequested          Kind = "turn.requested"
	KindTurnScheduled          Kind = "turn.scheduled"
	KindTurnStarted            Kind = "turn.started"
	KindTurnReleased           Kind = "turn.released"
	KindTurnAnnounced          Kind = "turn.announced"
	KindTurnTold               Kind = "turn.told"
	KindTurnCancelRequested    Kind = "turn.cancel_requested"
	KindTurnCompleted          Kind = "turn.completed"
	KindTurnDiverted           Kind = "turn.diverted"
	KindModelReplied           Kind = "model.replied"
	KindModelFailed            Kind = "model.failed"
	KindModelInterrupted       Kind = "model.interrupted"
	KindToolStateApplied       Kind = "tool.state_applied"
	KindToolSourcesApplied     Kind = "tool.sources_applied"
	KindToolCalled             Kind = "tool.called"
	KindToolReturned           Kind = "tool.returned"
	KindToolLost               Kind = "tool.lost"
	KindInputInjected          Kind = "input.injected"
	KindInputAccepted          Kind = "input.accepted"
	KindInputCancelled         Kind = "input.cancelled"
	KindSessionFirstInputTaken Kind = "session.first_input_taken"
	KindFrameConfigured        Kind = "frame.configured"
	KindFrameStateSaved        Kind = "frame.state_saved"
	KindTurnPrepared           Kind = "turn.prepared"
	KindTurnCheckpointed       Kind = "turn.checkpointed"
	KindModelCompleted         Kind = "model.completed"
	KindHookRan                Kind = "hook.ran"
	KindPluginStateSaved       Kind = "plugin.state_saved"
	KindToolApprovalAsked      Kind = "tool.approval_asked"
	KindToolApprovalGiven      Kind = "tool.approval_given"
	KindToolPended             Kind = "tool.pended"
	KindToolResolved           Kind = "tool.resolved"
	KindToolResultScheduled    Kind = "tool.result_scheduled"
	KindToolNestedCalled       Kind = "tool.nested_called"
	KindToolNestedReturned     Kind = "tool.nested_returned"
	KindUsageCharged           Kind = "usage.charged"
	KindTaskRegistered         Kind = "task.registered"
	KindTaskStarted            Kind = "task.started"
	KindTaskStateChanged       Kind = "task.state_changed"
	KindTaskProgressed         Kind = "task.progressed"
	KindTaskCancelRequested    Kind = "task.cancel_requested"
	KindTaskHidden             Kind = "task.hidden"
	KindTaskPassedOn           Kind = "task.passed_on"
	KindTaskEnded              Kind = "task.ended"
	KindTaskRemoved            Kind = "task.removed"
	KindTaskTransferred        Kind = "task.transferred"
	KindTaskLeaving            Kind = "task.leaving"
	KindTaskStayed             Kind = "task.stayed"
	KindMonitorRegistered      Kind = "monitor.registered"
	KindMonitorArmed           Kind = "monitor.armed"
	KindMonitorStarted         Kind = "monitor.started"
	KindMonitorReported        Kind = "monitor.reported"
	KindMonitorEnded           Kind = "monitor.ended"
	KindMonitorUpdatesTaken    Kind = "monitor.updates_taken"
)

// Kinds lists every known kind, sorted.
func Kinds() []Kind {
	return slices.Sorted(maps.Keys(kinds))
}

// KindOf is the kind of a payload, empty when p is of no kind's type.
func KindOf(p Payload) Kind { return kindOf[reflect.TypeOf(p)] }

// Version is the current payload version of kind, 0 when the kind is unknown.
func Version(kind Kind) int64 { return kinds[kind].v }

// upcaster turns an encoded payload of version v into one of version v+1.
type upcaster func([]byte) ([]byte, error)

// upcasters holds the step from each old version, by kind. Every kind is at its first version today.
//
//nolint:gochecknoglobals // read-only table
var upcasters = map[Kind]map[int64]upcaster{}
