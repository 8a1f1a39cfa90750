package events

import (
	"maps"
	"reflect"
	"slices"
)

// kindInfo is one row of the table of kinds.
type kindInfo struct {
	v     int64 // current payload version
	new   func() Payload
	about property
}

// property is what other packages know of all events of a kind.
type property int

const (
	given    property = 1 << iota // an input of the turn machine, or an event that a comparison cannot derive again
	decided                       // a decision of the turn machine, see [IsDecided]
	either                        // some events of the kind are given and some decided; session/decision looks at the content
	progress                      // see [IsProgress]
	wakes                         // see [WakesWorker]
)

func kindRow[T any, P interface {
	*T
	Payload
}](v int64, about property) kindInfo {
	return kindInfo{v: v, new: func() Payload { return P(new(T)) }, about: about}
}

// kinds has one line for every kind that this program knows.
//
//nolint:gochecknoglobals // read-only table
var kinds = map[Kind]kindInfo{
	KindSessionOpened:          kindRow[SessionOpened](1, given),
	KindSessionConfigured:      kindRow[SessionConfigured](1, given),
	KindSessionTold:            kindRow[SessionTold](1, given),
	KindSessionClosed:          kindRow[SessionClosed](1, given),
	KindSessionGranted:         kindRow[SessionGranted](1, given),
	KindSessionOverlaid:        kindRow[SessionOverlaid](1, given),
	KindSessionExtended:        kindRow[SessionExtended](1, given),
	KindSessionExtensionsSet:   kindRow[SessionExtensionsSet](1, given),
	KindBodyStored:             kindRow[BodyStored](1, given),
	KindGraphAppended:          kindRow[GraphAppended](1, decided),
	KindGraphBranched:          kindRow[GraphBranched](1, decided),
	KindFrameOpened:            kindRow[FrameOpened](1, decided),
	KindTurnRequested:          kindRow[TurnRequested](1, decided|wakes),
	KindTurnScheduled:          kindRow[TurnScheduled](1, given|wakes),
	KindTurnStarted:            kindRow[TurnStarted](1, decided),
	KindTurnReleased:           kindRow[TurnReleased](1, given|progress),
	KindTurnAnnounced:          kindRow[TurnAnnounced](1, given),
	KindTurnTold:               kindRow[TurnTold](1, given),
	KindTurnCancelRequested:    kindRow[TurnCancelRequested](1, given|wakes),
	KindTurnCompleted:          kindRow[TurnCompleted](1, decided),
	KindTurnDiverted:           kindRow[TurnDiverted](1, either),
	KindModelReplied:           kindRow[ModelReplied](1, decided|progress),
	KindModelFailed:            kindRow[ModelFailed](1, decided|progress),
	KindModelInterrupted:       kindRow[ModelInterrupted](1, decided|progress),
	KindToolStateApplied:       kindRow[ToolStateApplied](1, decided),
	KindToolSourcesApplied:     kindRow[ToolSourcesApplied](1, given),
	KindToolCalled:             kindRow[ToolCalled](1, either),
	KindToolReturned:           kindRow[ToolReturned](1, decided|progress),
	KindToolLost:               kindRow[ToolLost](1, decided|progress),
	KindInputInjected:          kindRow[InputInjected](1, given|wakes),
	KindInputAccepted:          kindRow[InputAccepted](1, decided),
	KindInputCancelled:         kindRow[InputCancelled](1, given),
	KindSessionFirstInputTaken: kindRow[SessionFirstInputTaken](1, given),
	KindFrameConfigured:        kindRow[FrameConfigured](1, given),
	KindFrameStateSaved:        kindRow[FrameStateSaved](1, given),
	KindTurnPrepared:           kindRow[TurnPrepared](1, decided|progress),
	KindTurnCheckpointed:       kindRow[TurnCheckpointed](1, decided|progress),
	KindModelCompleted:         kindRow[ModelCompleted](1, given|progress),
	KindHookRan:                kindRow[HookRan](1, either|progress),
	KindPluginStateSaved:       kindRow[PluginStateSaved](1, given),
	KindToolApprovalAsked:      kindRow[ToolApprovalAsked](1, either|progress),
	KindToolApprovalGiven:      kindRow[ToolApprovalGiven](1, decided|progress|wakes),
	KindToolPended:             kindRow[ToolPended](1, decided|progress),
	KindToolResolved:           kindRow[ToolResolved](1, decided|progress|wakes),
	KindToolResultScheduled:    kindRow[ToolResultScheduled](1, given|wakes),
	KindToolNestedCalled:       kindRow[ToolNestedCalled](1, given),
	KindToolNestedReturned:     kindRow[ToolNestedReturned](1, given|progress),
	KindUsageCharged:           kindRow[UsageCharged](1, given),
	KindTaskRegistered:         kindRow[TaskRegistered](1, given),
	KindTaskStarted:            kindRow[TaskStarted](1, given),
	KindTaskStateChanged:       kindRow[TaskStateChanged](1, given),
	KindTaskProgressed:         kindRow[TaskProgressed](1, given),
	KindTaskCancelRequested:    kindRow[TaskCancelRequested](1, given),
	KindTaskHidden:             kindRow[TaskHidden](1, given),
	KindTaskPassedOn:           kindRow[TaskPassedOn](1, given),
	KindTaskEnded:              kindRow[TaskEnded](1, given),
	KindTaskRemoved:            kindRow[TaskRemoved](1, given),
	KindTaskTransferred:        kindRow[TaskTransferred](1, given),
	KindTaskLeaving:            kindRow[TaskLeaving](1, given),
	KindTaskStayed:             kindRow[TaskStayed](1, given),
	KindMonitorRegistered:      kindRow[MonitorRegistered](1, given),
	KindMonitorArmed:           kindRow[MonitorArmed](1, given),
	KindMonitorStarted:         kindRow[MonitorStarted](1, given),
	KindMonitorReported:        kindRow[MonitorReported](1, given),
	KindMonitorEnded:           kindRow[MonitorEnded](1, given),
	KindMonitorUpdatesTaken:    kindRow[MonitorUpdatesTaken](1, given),
	KindAuditHeadSigned:        kindRow[AuditHeadSigned](1, given),
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
	KindSessionTold            Kind = "session.told"
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

// IsDecided reports whether the turn machine decides the events of a kind. Events of other kinds are its inputs, also those
// of unknown kinds. Of the kinds of [IsEither] the content says which; for these it is false.
func IsDecided(kind Kind) bool { return kinds[kind].about&decided != 0 }

// IsEither reports whether some events of a kind are decisions of the turn machine and some are its inputs.
func IsEither(kind Kind) bool { return kinds[kind].about&either != 0 }

// IsProgress reports whether an event of a kind resets the count of a turn's attempts: results of effects, approval
// requests and answers, and the end of an orderly stop. turn.started and tool.called are not progress: if a call kills
// its worker, the next worker records it as lost, which is progress.
func IsProgress(kind Kind) bool { return kinds[kind].about&progress != 0 }

// WakesWorker reports whether an event of a kind gives a worker new work, or information that the worker of the session
// needs immediately. The program that appends it wakes the session.
func WakesWorker(kind Kind) bool { return kinds[kind].about&wakes != 0 }
