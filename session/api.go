package session

import "github.com/lash-go/lash/session/api"

// The service's types, under this package's name for those who use only the host.
//
//nolint:revive // documented in package api
type (
	SessionEvent       = api.SessionEvent
	TokenUsage         = api.TokenUsage
	TurnOutcome        = api.TurnOutcome
	AppendNode         = api.AppendNode
	AppendNodesRequest = api.AppendNodesRequest
	RewriteMessage     = api.RewriteMessage
	CreateRequest      = api.CreateRequest
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
	AssistantOutput    = api.AssistantOutput
	TaskRequest        = api.TaskRequest
	MonitorEvent       = api.MonitorEvent
	StaleBranchError   = api.StaleBranchError
	Observed           = api.Observed
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
	EventApprovalAsked      = api.EventApprovalAsked
	EventApprovalGiven      = api.EventApprovalGiven
	OutcomeAssistantMessage = api.OutcomeAssistantMessage
	OutcomeSubmittedValue   = api.OutcomeSubmittedValue
	OutcomeFrameSwitch      = api.OutcomeFrameSwitch
	OutcomeStopped          = api.OutcomeStopped
	OutcomeDiverted         = api.OutcomeDiverted
	WhenBusyEnqueue         = api.WhenBusyEnqueue
	WhenBusyInject          = api.WhenBusyInject
	WhenBusyReject          = api.WhenBusyReject
	WhenBusyInterrupt       = api.WhenBusyInterrupt
	WhenBusyBranch          = api.WhenBusyBranch
	StartCurrent            = api.StartCurrent
	StartExisting           = api.StartExisting
	StartSnapshot           = api.StartSnapshot
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
)

// Errors.
var (
	ErrExists      = api.ErrExists
	ErrClosed      = api.ErrClosed
	ErrOpening     = api.ErrOpening
	ErrTurnRunning = api.ErrTurnRunning
	ErrUnknownTurn = api.ErrUnknownTurn
	ErrUnknownNode = api.ErrUnknownNode
	ErrDifferent   = api.ErrDifferent
)
