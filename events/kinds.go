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

func kindRow[T any, P interface {
	*T
	Payload
}](v int64) kindInfo {
	return kindInfo{v: v, new: func() Payload { return P(new(T)) }}
}

// kinds has one line for every kind that this program knows.
//
//nolint:gochecknoglobals // read-only table
var kinds = map[Kind]kindInfo{
	KindSessionOpened:          kindRow[SessionOpened](1),
	KindSessionConfigured:      kindRow[SessionConfigured](1),
	KindSessionClosed:          kindRow[SessionClosed](1),
	KindSessionGranted:         kindRow[SessionGranted](1),
	KindSessionOverlaid:        kindRow[SessionOverlaid](1),
	KindSessionExtended:        kindRow[SessionExtended](1),
	KindSessionExtensionsSet:   kindRow[SessionExtensionsSet](1),
	KindBodyStored:             kindRow[BodyStored](1),
	KindGraphAppended:          kindRow[GraphAppended](1),
	KindGraphBranched:          kindRow[GraphBranched](1),
	KindFrameOpened:            kindRow[FrameOpened](1),
	KindTurnRequested:          kindRow[TurnRequested](1),
	KindTurnScheduled:          kindRow[TurnScheduled](1),
	KindTurnStarted:            kindRow[TurnStarted](1),
	KindTurnReleased:           kindRow[TurnReleased](1),
	KindTurnAnnounced:          kindRow[TurnAnnounced](1),
	KindTurnTold:               kindRow[TurnTold](1),
	KindTurnCancelRequested:    kindRow[TurnCancelRequested](1),
	KindTurnCompleted:          kindRow[TurnCompleted](1),
	KindTurnDiverted:           kindRow[TurnDiverted](1),
	KindModelReplied:           kindRow[ModelReplied](1),
	KindModelFailed:            kindRow[ModelFailed](1),
	KindModelInterrupted:       kindRow[ModelInterrupted](1),
	KindToolStateApplied:       kindRow[ToolStateApplied](1),
	KindToolSourcesApplied:     kindRow[ToolSourcesApplied](1),
	KindToolCalled:             kindRow[ToolCalled](1),
	KindToolReturned:           kindRow[ToolReturned](1),
	KindToolLost:               kindRow[ToolLost](1),
	KindInputInjected:          kindRow[InputInjected](1),
	KindInputAccepted:          kindRow[InputAccepted](1),
	KindInputCancelled:         kindRow[InputCancelled](1),
	KindSessionFirstInputTaken: kindRow[SessionFirstInputTaken](1),
	KindFrameConfigured:        kindRow[FrameConfigured](1),
	KindFrameStateSaved:        kindRow[FrameStateSaved](1),
	KindTurnPrepared:           kindRow[TurnPrepared](1),
	KindTurnCheckpointed:       kindRow[TurnCheckpointed](1),
	KindModelCompleted:         kindRow[ModelCompleted](1),
	KindHookRan:                kindRow[HookRan](1),
	KindPluginStateSaved:       kindRow[PluginStateSaved](1),
	KindToolApprovalAsked:      kindRow[ToolApprovalAsked](1),
	KindToolApprovalGiven:      kindRow[ToolApprovalGiven](1),
	KindToolPended:             kindRow[ToolPended](1),
	KindToolResolved:           kindRow[ToolResolved](1),
	KindToolResultScheduled:    kindRow[ToolResultScheduled](1),
	KindToolNestedCalled:       kindRow[ToolNestedCalled](1),
	KindToolNestedReturned:     kindRow[ToolNestedReturned](1),
	KindUsageCharged:           kindRow[UsageCharged](1),
	KindTaskRegistered:         kindRow[TaskRegistered](1),
	KindTaskStarted:            kindRow[TaskStarted](1),
	KindTaskStateChanged:       kindRow[TaskStateChanged](1),
	KindTaskProgressed:         kindRow[TaskProgressed](1),
	KindTaskCancelRequested:    kindRow[TaskCancelRequested](1),
	KindTaskHidden:             kindRow[TaskHidden](1),
	KindTaskPassedOn:           kindRow[TaskPassedOn](1),
	KindTaskEnded:              kindRow[TaskEnded](1),
	KindTaskRemoved:            kindRow[TaskRemoved](1),
	KindTaskTransferred:        kindRow[TaskTransferred](1),
	KindTaskLeaving:            kindRow[TaskLeaving](1),
	KindTaskStayed:             kindRow[TaskStayed](1),
	KindMonitorRegistered:      kindRow[MonitorRegistered](1),
	KindMonitorArmed:           kindRow[MonitorArmed](1),
	KindMonitorStarted:         kindRow[MonitorStarted](1),
	KindMonitorReported:        kindRow[MonitorReported](1),
	KindMonitorEnded:           kindRow[MonitorEnded](1),
	KindMonitorUpdatesTaken:    kindRow[MonitorUpdatesTaken](1),
	KindAuditHeadSigned:        kindRow[AuditHeadSigned](1),
}

// kindOf has the kinds by payload type.
//
//nolint:gochecknoglobals // read-only table
var kindOf = func() map[reflect.Type]Kind {
	byType := make(map[reflect.Type]Kind, len(kinds))
	for kind, info := range kinds {
		byType[reflect.TypeOf(info.new())] = kind
	}
	return byType
}()

// Kinds of events.
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
	KindAuditHeadSigned        Kind = "audit.head_signed"
)

// Kinds lists all known kinds, sorted.
func Kinds() []Kind {
	return slices.Sorted(maps.Keys(kinds))
}

// KindOf is the kind of a payload. For other types it is empty.
func KindOf(p Payload) Kind { return kindOf[reflect.TypeOf(p)] }

// Version is the current payload version of a kind. For an unknown kind it is 0.
func Version(kind Kind) int64 { return kinds[kind].v }

// upcaster converts an encoded payload of version v to version v+1.
type upcaster func([]byte) ([]byte, error)

// upcasters has the step from each old version, by kind. All kinds have their first version today.
//
//nolint:gochecknoglobals // read-only table
var upcasters = map[Kind]map[int64]upcaster{}
