package httpbody

// Words of the format, whose empty value has a name in JSON.
type (
	// Outcome is the outcome of a call.
	Outcome string
	// Effects says whether a call may run again.
	Effects string
	// Level is the level at which a tool is offered.
	Level string
	// TaskKind is the kind of a background task.
	TaskKind string
	// TaskState is the state of a background task.
	TaskState string
	// CancelPolicy is the effect of a cancel on a background task.
	CancelPolicy string
	// ClosePolicy is the effect of the session's close on a background task.
	ClosePolicy string
	// MonitorState is the state of a monitor.
	MonitorState string
	// PendingStatus is the status of a turn that has not ended.
	PendingStatus string
	// GivenType is the type of a message part in a request.
	GivenType string
	// GivenOutcome is the outcome in a result from outside or of an action.
	GivenOutcome string
	// OwnKind is the kind of a task of the caller's own program.
	OwnKind string
	// EndState is the final state of such a task.
	EndState string
	// LiveState is a state that such a task moves to while it lives.
	LiveState string
)
