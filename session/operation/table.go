package operation

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Sessions.
//
//nolint:gochecknoglobals // read-only
var (
	Create = register(Row{"create", "createSession", write, ByKey, post + "/v1/sessions", "Open a session"}, create)
	Fork   = register(Row{"", "forkSession", write, ByKey, post + "/fork", "Open a session with the active branch of this one"},
		func(ctx context.Context, h Host, from events.SessionID, in api.CreateArgs) (events.SessionID, error) {
			return h.Fork(ctx, from, in.Request)
		})
	Configure = register(Row{"configure", "configureSession", configure, ByKey, patch, "Change with what turns run"}, replaceConfig)
	Close     = withoutResult(Row{"close", "closeSession", write, ByKey, remove, "End a session; again, or of none, does nothing"}, Host.CloseSession)
	Grant     = withoutResult(Row{"grant", "grant", grant, ByKey, put + "/grants/{caller}", "Say what another caller may do in this session; no rights takes back what was granted"}, Host.Grant)

	ProtocolOptions = register(Row{"set_protocol_options", "setProtocolOptions", configure, ByKey, put + "/options", "Set the protocol's options for turns"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ProtocolOptionsArgs) (None, error) {
			return None{}, h.SetProtocolOptions(ctx, id, in.Options, in.All)
		})
	ApplyExtension    = withoutResult(Row{"apply_extension", "applyExtension", configure, ByKey, post + "/extensions", "Hand the protocol an object of its own"}, Host.ApplyExtension)
	ReplaceExtensions = withoutResult(Row{"replace_extensions", "replaceExtensions", configure, ByKey, put + "/extensions", "Put extensions, or none, in place of all that the session keeps, as where its protocol refuses one"}, Host.ReplaceExtensions)

	State    = withoutInput(Row{"", "getSession", read, ReadOnly, get, "A session's state"}, Host.State)
	View     = httpOnly(Row{"", "getView", read, ReadOnly, get + "/view", "The conversation in the current frame, and what else turns depend on"})
	Observe  = httpOnly(Row{"", "watchEvents", read, ReadOnly, get + "/events", "Commits after a cursor, and the reply in flight"})
	Sessions = register(Row{"", "listSessions", read, ReadOnly, get + "/v1/sessions", "Sessions that the caller may read, from the directory, which lags by about a second"},
		func(ctx context.Context, h Host, _ events.SessionID, q api.SessionQuery) (api.SessionPage, error) {
			return h.Sessions(ctx, q)
		})
)

// Turns, and what goes into them.
//
//nolint:gochecknoglobals // read-only
var (
	Submit   = withInput(Row{"submit", "submitTurn", write, ByID, post + "/turns", "Ask for a turn"}, Host.SubmitTurn)
	SubmitAt = register(Row{"submit_at", "", write, ByID, "", "Ask for a turn at a time"},
		func(ctx context.Context, h Host, id events.SessionID, in api.SubmitAtArgs) (events.TurnID, error) {
			return h.SubmitAt(ctx, id, in.At.Time(), in.Request)
		})
	Cancel = register(Row{"cancel", "cancelTurn", write, ByKey, post + "/turns/{turn}/cancel", "Ask a turn to stop"},
		func(ctx context.Context, h Host, id events.SessionID, in api.CancelArgs) (a api.CancelResponse, err error) {
			a.Receipt, a.Evidence, err = h.Cancel(ctx, id, in.Turn, in.Request)
			return a, err
		})
	Turn      = httpOnly(Row{"", "getTurn", read, ReadOnly, get + "/turns/{turn}", "A turn as a whole, once it has ended"})
	Turns     = withInput(Row{"", "listTurns", read, ReadOnly, get + "/turns", "A session's turns"}, Host.Turns)
	WatchTurn = httpOnly(Row{"", "watchTurn", read, ReadOnly, get + "/turns/{turn}/stream", "A turn's events from its first to done"})

	Inject       = withInput(Row{"inject", "injectInput", write, ByID, post + "/inputs", "Put a message into the running turn, or before the next"}, Host.Inject)
	CancelInputs = register(Row{"cancel_inputs", "cancelInput", write, ByKey, remove + "/inputs/{input}", "Take an input back"},
		func(ctx context.Context, h Host, id events.SessionID, inputs []events.InputID) ([]api.InputReceipt, error) {
			return h.CancelInputs(ctx, id, inputs...)
		})
	CancelInputsFrom = register(Row{"cancel_inputs_from", "", write, ByKey, "", "Take an input back, and all that were injected after it"},
		func(ctx context.Context, h Host, id events.SessionID, first events.InputID) (a api.CancelFromResponse, err error) {
			a.Receipt, a.Cancelled, err = h.CancelInputsFrom(ctx, id, first)
			return a, err
		})
	TakeFirstInput = register(Row{"take_first_input", "takeFirstInput", write, ByKey, post + "/first-input", "Take the first turn's input, which is there once; empty for an unknown session"}, takeFirstInput)
	Complete       = longRunning(streamed(register(Row{"complete", "complete", write, ByKey, post + "/completions", "Ask the session's model outside of turns, however long that takes; with a key it is paid for once"},
		func(ctx context.Context, h Host, id events.SessionID, in CompleteArgs) (plugin.Completion, error) {
			in.Request.Stream = StreamOf(ctx)
			return h.Complete(ctx, id, in.Request, in.Source)
		})))
	// StreamCompletion is Complete over HTTP, as a stream. Over NATS Complete streams by itself, where the client
	// requests that.
	StreamCompletion = httpOnly(Row{"", "streamCompletion", write, ByKey, post + "/completions/stream", "The same as it comes: deltas, and at last the result or the problem; a client that goes away stops it"})
)

// The conversation.
//
//nolint:gochecknoglobals // read-only
var (
	AppendNodes = withInput(Row{"append_nodes", "appendNodes", write, ByID, post + "/nodes", "Append under the leaf"}, Host.AppendNodes)
	Branch      = withoutResult(Row{"branch", "branchTo", write, ByKey, post + "/branch", "Move the leaf"}, Host.BranchTo)
	OpenFrame   = withInput(Row{"open_frame", "openFrame", write, ByKey, post + "/frames", "Begin a fresh prompt"}, Host.OpenFrame)
	Rewrite     = withoutResult(Row{"rewrite", "rewriteMessages", write, ByKey, put + "/messages", "Make the conversation's messages equal to these, on a new branch"}, Host.Rewrite)
	Compact     = longRunning(withoutInput(Row{"compact", "compact", write, ByKey, post + "/compact", "Begin a fresh prompt with a summary, where a compactor gives one"}, Host.Compact))

	PutBlob  = withInput(Row{"put_blob", "storeBlob", write, ByKey, post + "/blobs", "Store a body, of up to 64 MiB, for parts of messages in this session that refer to it"}, Host.StoreBlob)
	ReadBlob = httpOnly(Row{"", "getBlob", read, ReadOnly, get + "/blobs/{digest}", "A body that the session's history names; one that no message names costs a read of the history"})
)

// Calls of tools, and tools.
//
//nolint:gochecknoglobals // read-only
var (
	Approvals        = withoutInput(Row{"", "getApprovals", read, ReadOnly, get + "/approvals", "Calls that wait for an answer"}, Host.Approvals)
	PendingApprovals = register(Row{"", "listApprovals", read, ReadOnly, get + "/v1/approvals", "Calls that wait for an answer, in all sessions that the caller may read"},
		func(ctx context.Context, h Host, _ events.SessionID, p api.Page) (api.ApprovalPage, error) {
			return h.PendingApprovals(ctx, p)
		})
	Approve     = withoutResult(Row{"approve", "approve", approve, ByKey, post + "/approvals", "Let a call run that waits, or refuse it"}, Host.Approve)
	ResolveTool = register(Row{"resolve_tool", "resolveCall", approve, ByKey, post + "/results", "Give the result of a call that waits for an outside program"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ResolveArgs) (None, error) {
			return None{}, h.ResolveTool(ctx, id, in.Key, in.Result)
		})
	ToolOutput = withInput(Row{"", "getOutput", read, ReadOnly, get + "/output", "The whole output of a call"}, Host.ToolOutput)

	ToolState       = withoutInput(Row{"tool_state", "getTools", read, ReadOnly, get + "/tools", "The session's tools"}, Host.ToolState)
	ApplyToolState  = withInput(Row{"apply_tool_state", "applyTools", configure, ByKey, put + "/tools", "Replace the tools, as of the generation that they were read at; those left out are off. Of each the override counts: the rest its source declares"}, Host.ApplyToolState)
	SetAvailability = register(Row{"set_availability", "setTools", configure, ByKey, patch + "/tools", "Override how far tools are offered"},
		func(ctx context.Context, h Host, id events.SessionID, in api.AvailabilityArgs) (int64, error) {
			return h.SetToolsAvailability(ctx, id, in.Names, in.Level)
		})
	ToolCatalog = withoutInput(Row{"tool_catalog", "getToolCatalog", read, ReadOnly, get + "/tools/catalog", "The tools that a model can search"}, Host.ToolCatalog)

	ToolSources      = withoutInput(Row{"tool_sources", "getToolSources", read, ReadOnly, get + "/tools/sources", "Sources of tools that the session has, and those that it can have at the node that answers"}, Host.ToolSources)
	AddToolSource    = withInput(Row{"add_tool_source", "addToolSource", configure, ByKey, put + "/tools/sources/{source}", "Add the tools of a source, from the next model call on; of one that the session has, look at them anew"}, Host.AddToolSource)
	RemoveToolSource = withInput(Row{"remove_tool_source", "removeToolSource", configure, ByKey, remove + "/tools/sources/{source}", "Take the tools of a source away, from the next call on"}, Host.RemoveToolSource)
	RefreshCatalog   = withoutInput(Row{"refresh_catalog", "refreshCatalog", configure, ByKey, post + "/tools/refresh", "Have every node look at its tools anew"}, Host.RefreshCatalog)

	Actions      = withoutInput(Row{"actions", "getActions", read, ReadOnly, get + "/actions", "Actions of plugins"}, Host.Actions)
	InvokeAction = longRunning(register(Row{"invoke_action", "invokeAction", write, Once, post + "/actions", "Ask a plugin for an action, however long that takes. A key whose action was done gives 504: results are not kept"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ActionArgs) (plugin.Result, error) {
			return h.InvokeAction(ctx, id, in.Name, in.Args)
		}))
)

// Background tasks, and monitors.
//
//nolint:gochecknoglobals // read-only
var (
	Tasks        = withoutInput(Row{"", "getTasks", read, ReadOnly, get + "/tasks", "Background tasks"}, Host.Tasks)
	Task         = withInput(Row{"", "getTask", read, ReadOnly, get + "/tasks/{task}", "A background task"}, Host.Task)
	RegisterTask = register(Row{"register_task", "registerTask", write, ByKey, put + "/tasks/{task}", "Register a task that the caller's own program runs"}, registerTask)
	ProgressTask = register(Row{"progress_task", "progressTask", write, ByKey, post + "/tasks/{task}/progress", "Report the progress of such a task; the answer tells whether it should stop"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ProgressArgs) (projector.Task, error) {
			return h.ProgressTask(ctx, id, in.Task, in.Message)
		})
	EndTask = register(Row{"end_task", "endTask", write, ByKey, post + "/tasks/{task}/end", "Report the end of such a task"},
		func(ctx context.Context, h Host, id events.SessionID, in api.EndTaskArgs) (projector.Task, error) {
			return h.EndTask(ctx, id, in.Task, in.State, in.Summary)
		})
	RequestCancel = register(Row{"request_cancel_task", "stopTask", write, ByKey, post + "/tasks/{task}/stop", "Ask a background task to stop by itself"},
		func(ctx context.Context, h Host, id events.SessionID, in api.RequestCancelArgs) (projector.Task, error) {
			return h.RequestCancelTask(ctx, id, in.Task, in.Reason)
		})
	CancelTask    = withInput(Row{"cancel_task", "cancelTask", write, ByKey, post + "/tasks/{task}/cancel", "Cancel a background task"}, Host.CancelTask)
	CancelTasks   = withInput(Row{"cancel_tasks", "cancelTasks", write, ByKey, post + "/tasks/cancel", "Cancel all background tasks"}, Host.CancelTasks)
	TransferTasks = register(Row{"transfer_tasks", "transferTasks", write, ByKey, post + "/tasks/transfer", "Move background tasks to another session"},
		func(ctx context.Context, h Host, id events.SessionID, in api.TransferArgs) (None, error) {
			return None{}, h.TransferTasks(ctx, id, in.To, in.Tasks)
		})

	StartMonitor    = withoutResult(Row{"start_monitor", "startMonitor", command, ByKey, put + "/monitors/{monitor}", "Run a command on a node and watch it"}, Host.StartMonitor)
	StopMonitor     = withoutResult(Row{"stop_monitor", "stopMonitor", write, ByKey, remove + "/monitors/{monitor}", "Stop a monitor"}, Host.StopMonitor)
	MonitorSnapshot = withoutInput(Row{"monitor_snapshot", "getMonitors", read, ReadOnly, get + "/monitors", "Monitors"}, Host.MonitorSnapshot)
	TakeUpdates     = withInput(Row{"take_updates", "takeUpdates", write, ByKey, post + "/monitors/updates", "Take the output of monitors, and start those that are armed"}, Host.TakeMonitorUpdatesTo)
)

func create(ctx context.Context, h Host, _ events.SessionID, in api.CreateArgs) (events.SessionID, error) {
	if len(in.Head) > 0 {
		var err error
		if in.Request.Snapshot, err = h.RestoreSnapshot(ctx, in.Head, in.Segments); err != nil {
			return "", err
		}
	}
	return h.Create(ctx, in.Request)
}

// CompleteArgs requests a direct completion, with the source of usage in the ledger.
type CompleteArgs struct {
	Request plugin.CompletionRequest `msgpack:"r"`
	Source  string                   `msgpack:"o"`
}

// replaceConfig replaces the configuration, if it is the one that the request was made from. Otherwise moved is true.
func replaceConfig(ctx context.Context, h Host, id events.SessionID, in api.ConfigureArgs) (moved bool, err error) {
	err = h.Configure(ctx, id, api.ConfigureRequest{IdempotencyKey: in.Key, Change: func(now events.Config) events.Config {
		if moved = !now.Equal(in.Previous); moved {
			return now
		}
		return in.Current
	}})
	return moved, err
}

func takeFirstInput(ctx context.Context, h Host, id events.SessionID, _ None) (m events.Message, err error) {
	first, err := h.TakeFirstTurnInput(ctx, id)
	if first != nil {
		m = *first
	}
	return m, err
}

func registerTask(ctx context.Context, h Host, id events.SessionID, in api.TaskRequest) (t projector.Task, err error) {
	if err := in.Outside(); err != nil {
		return t, err
	}
	return h.RegisterTask(ctx, id, in)
}
