package session

import "github.com/lash-go/lash/session/api"

// The service's types, under this package's name for those who use only the host.
//
//nolint:revive // documented in package api
type (
	EventType          = api.EventType
	SessionEvent       = api.SessionEvent
	TokenUsage         = api.TokenUsage
	AcceptedInput      = api.AcceptedInput
	InputMessage       = api.InputMessage
	InputPart          = api.InputPart
	OutcomeType        = api.OutcomeType
	TurnOutcome        = api.TurnOutcome
	ErrorEnvelope      = api.ErrorEnvelope
	AppendNode         = api.AppendNode
	AppendNodesRequest = api.AppendNodesRequest
	AppendedNodes      = api.AppendedNodes
	RewriteMessage     = api.RewriteMessage
	CreateRequest      = api.CreateRequest
	Start              = api.Start
	PluginSource       = api.PluginSource
	Handle             = api.Handle
	ConfigureRequest   = api.ConfigureRequest
	FrameRequest       = api.FrameRequest
	TurnRequest        = api.TurnRequest
	TurnResult         = api.TurnResult
	WhenBusy           = api.WhenBusy
	TurnRejectedError  = api.TurnRejectedError
	CancelReceipt      = api.CancelReceipt
	CancelRequest      = api.CancelRequest
	InjectRequest      = api.InjectRequest
	InputReceipt       = api.InputReceipt
	AssembledTurn      = api.AssembledTurn
	OutputState        = api.OutputState
	AssistantOutput    = api.AssistantOutput
	ToolCallRecord     = api.ToolCallRecord
	ChildUsage         = api.ChildUsage
	TaskRequest        = api.TaskRequest
	MonitorSnapshot    = api.MonitorSnapshot
	MonitorEvent       = api.MonitorEvent
	MonitorUpdates     = api.MonitorUpdates
	StaleBranchError   = api.StaleBranchError
	Observed           = api.Observed
	Gap                = api.Gap
	CursorError        = api.CursorError
	Delta              = api.Delta
	SideMessage        = api.SideMessage
	RetryStatus        = api.RetryStatus
)

// Their values.
const (
	EventTextDelta          = api.EventTextDelta
	EventReasoningDelta     = api.EventReasoningDelta
	EventToolCallStart      = api.EventToolCallStart
	EventToolCall           = api.EventToolCall
	EventLLMRequest         = api.EventLLMRequest
	EventLLMResponse        = api.EventLLMResponse
	EventTokenUsage         = api.EventTokenUsage
	EventRetryStatus        = api.EventRetryStatus
	EventInputAccepted      = api.EventInputAccepted
	EventTurnOutcome        = api.EventTurnOutcome
	EventDone               = api.EventDone
	EventError              = api.EventError
	EventMessage            = api.EventMessage
	EventChildTokenUsage    = api.EventChildTokenUsage
	EventMessagesAdded      = api.EventMessagesAdded
	EventPlugin             = api.EventPlugin
	EventAttemptReset       = api.EventAttemptReset
	OutcomeAssistantMessage = api.OutcomeAssistantMessage
	OutcomeSubmittedValue   = api.OutcomeSubmittedValue
	OutcomeToolValue        = api.OutcomeToolValue
	OutcomeFrameSwitch      = api.OutcomeFrameSwitch
	OutcomeStopped          = api.OutcomeStopped
	OutcomeDiverted         = api.OutcomeDiverted
	WhenBusyEnqueue         = api.WhenBusyEnqueue
	WhenBusyInject          = api.WhenBusyInject
	WhenBusyReject          = api.WhenBusyReject
	WhenBusyInterrupt       = api.WhenBusyInterrupt
	WhenBusyBranch          = api.WhenBusyBranch
	StartEmpty              = api.StartEmpty
	StartCurrent            = api.StartCurrent
	StartExisting           = api.StartExisting
	StartSnapshot           = api.StartSnapshot
	PluginsFresh            = api.PluginsFresh
	PluginsFork             = api.PluginsFork
	CancelRequested         = api.CancelRequested
	CancelAlreadyRequested  = api.CancelAlreadyRequested
	CancelCompletionWon     = api.CancelCompletionWon
	InputCancelled          = api.InputCancelled
	InputAlreadyClaimed     = api.InputAlreadyClaimed
	InputAlreadyCompleted   = api.InputAlreadyCompleted
	InputAlreadyCancelled   = api.InputAlreadyCancelled
	InputNotFound           = api.InputNotFound
	OutputUsable            = api.OutputUsable
	OutputEmpty             = api.OutputEmpty
)
