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
	Create = row(Row{"create", "createSession", write, ByKey, post + "/v1/sessions", "Open a session"}, create)
	Fork   = row(Row{"", "forkSession", write, ByKey, post + "/fork", "Open a session with the active branch of this one"},
		func(ctx context.Context, h Host, from events.SessionID, in api.CreateArgs) (events.SessionID, error) {
			return h.Fork(ctx, from, in.Request)
		})
	Configure = row(Row{"configure", "configureSession", configure, ByKey, patch, "Change with what turns run"}, replaceConfig)
	Close     = tells(Row{"close", "closeSession", write, ByKey, remove, "End a session; again, or of none, does nothing"}, Host.CloseSession)
	Grant     = tells(Row{"grant", "grant", grant, ByKey, put + "/grants/{caller}", "Say what another caller may do in this session; no rights takes back what was granted"}, Host.Grant)

	ProtocolOptions = row(Row{"set_protocol_options", "setProtocolOptions", configure, ByKey, put + "/options", "Set the protocol's options for turns"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ProtocolOptionsArgs) (None, error) {
			return None{}, h.SetProtocolOptions(ctx, id, in.Options, in.All)
		})
	ApplyExtension    = tells(Row{"apply_extension", "applyExtension", configure, ByKey, post + "/extensions", "Hand the protocol an object of its own"}, Host.ApplyExtension)
	ReplaceExtensions = tells(Row{"replace_extensions", "replaceExtensions", configure, ByKey, put + "/extensions", "Put extensions, or none, in place of all that the session keeps, as where its protocol refuses one"}, Host.ReplaceExtensions)

	State    = takesNone(Row{"", "getSession", read, Looks, get, "A session's state"}, Host.State)
	View     = webOnly(Row{"", "getView", read, Looks, get + "/view", "The conversation in the current frame, and what else turns depend on"})
	Observe  = webOnly(Row{"", "watchEvents", read, Looks, get + "/events", "Commits after a cursor, and the reply in flight"})
	Sessions = row(Row{"", "listSessions", read, Looks, get + "/v1/sessions", "Sessions that the caller may read, from the directory, which lags by about a second"},
		func(ctx context.Context, h Host, _ events.SessionID, q api.SessionQuery) (api.SessionPage, error) {
			return h.Sessions(ctx, q)
		})
)

// Turns, and what goes into them.
//
//nolint:gochecknoglobals // read-only
var (
	Submit   = asks(Row{"submit", "submitTurn", write, ByID, post + "/turns", "Ask for a turn"}, Host.SubmitTurn)
	SubmitAt = row(Row{"submit_at", "", write, ByID, "", "Ask for a turn at a time"},
		func(ctx context.Context, h Host, id events.SessionID, in api.SubmitAtArgs) (events.TurnID, error) {
			return h.SubmitAt(ctx, id, in.At.Time(), in.Request)
		})
	Cancel = row(Row{"cancel", "cancelTurn", write, ByKey, post + "/turns/{turn}/cancel", "Ask a turn to stop"},
		func(ctx context.Context, h Host, id events.SessionID, in api.CancelArgs) (a api.CancelAnswer, err error) {
			a.Receipt, a.Evidence, err = h.Cancel(ctx, id, in.Turn, in.Request)
			return a, err
		})
	Turn      = webOnly(Row{"", "getTurn", read, Looks, get + "/turns/{turn}", "A turn as a whole, once it has ended"})
	Turns     = asks(Row{"", "listTurns", read, Looks, get + "/turns", "A session's turns"}, Host.Turns)
	WatchTurn = webOnly(Row{"", "watchTurn", read, Looks, get + "/turns/{turn}/stream", "A turn's events from its first to done"})

	Inject       = asks(Row{"inject", "injectInput", write, ByID, post + "/inputs", "Put a message into the running turn, or before the next"}, Host.Inject)
	CancelInputs = row(Row{"cancel_inputs", "cancelInput", write, ByKey, remove + "/inputs/{input}", "Take an input back"},
		func(ctx context.Context, h Host, id events.SessionID, inputs []events.InputID) ([]api.InputReceipt, error) {
			return h.CancelInputs(ctx, id, inputs...)
		})
	CancelInputsFrom = row(Row{"cancel_inputs_from", "", write, ByKey, "", "Take an input back, and all that were injected after it"},
		func(ctx context.Context, h Host, id events.SessionID, first events.InputID) (a api.CancelFromAnswer, err error) {
			a.Receipt, a.Cancelled, err = h.CancelInputsFrom(ctx, id, first)
			return a, err
		})
	TakeFirstInput = row(Row{"take_first_input", "takeFirstInput", write, ByKey, post + "/first-input", "Take the first turn's input, which is there once; empty for an unknown session"}, takeFirstInput)
	Complete       = long(inPieces(row(Row{"complete", "complete", write, ByKey, post + "/completions", "Ask the session's model outside of turns, however long that takes; with a key it is paid for once"},
		func(ctx context.Context, h Host, id events.SessionID, in CompleteArgs) (plugin.Completion, error) {
			in.Request.Stream = StreamOf(ctx)
			return h.Complete(ctx, id, in.Request, in.Source)
		})))
	// StreamCompletion is Complete over HTTP, as a stream. Over NATS Complete streams by itself, where the client
	// requests that.
	StreamCompletion = webOnly(Row{"", "streamCompletion", write, ByKey, post + "/completions/stream", "The same as it comes: deltas, and at last the result or the problem; a client that goes away stops it"})
)

// The conversation.
//
//nolint:gochecknoglobals // read-only
var (
	AppendNodes = asks(Row{"append_nodes", "appendNodes", write, ByID, post + "/nodes", "Append under the leaf"}, Host.AppendNodes)
	Branch      = tells(Row{"branch", "branchTo", write, ByKey, post + "/branch", "Move the leaf"}, Host.BranchTo)
	OpenFrame   = asks(Row{"open_frame", "openFrame", write, ByKey, post + "/frames", "Begin a fresh prompt"}, Host.OpenFrame)
	Rewrite     = tells(Row{"rewrite", "rewriteMessages", write, ByKey, put + "/messages", "Make the conversation's messages equal to these, on a new branch"}, Host.Rewrite)
	Compact     = long(takesNone(Row{"compact", "compact", write, ByKey, post + "/compact", "Begin a fresh prompt with a summary, where a compactor gives one"}, Host.Compact))

	PutBlob  = asks(Row{"put_blob", "storeBlob", write, ByKey, post + "/blobs", "Store a body, of up to 64 MiB, for parts of messages in this session that refer to it"}, Host.StoreBlob)
	ReadBlob = webOnly(Row{"", "getBlob", read, Looks, get + "/blobs/{digest}", "A body that the session's history names; one that no message names costs a read of the history"})
)

// Calls of tools, and tools.
//
//nolint:gochecknoglobals // read-only
var (
	Approvals        = takesNone(Row{"", "getApprovals", read, Looks, get + "/approvals", "Calls that wait for an answer"}, Host.Approvals)
	PendingApprovals = row(Row{"", "listApprovals", read, Looks, get + "/v1/approvals", "Calls that wait for an answer, in all sessions that the caller may read"},
		func(ctx context.Context, h Host, _ events.SessionID, p api.Page) (api.ApprovalPage, error) {
			return h.PendingApprovals(ctx, p)
		})
	Approve     = tells(Row{"approve", "approve", approve, ByKey, post + "/approvals", "Let a call run that waits, or refuse it"}, Host.Approve)
	ResolveTool = row(Row{"resolve_tool", "resolveCall", approve, ByKey, post + "/results", "Give the result of a call that waits for an outside program"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ResolveArgs) (None, error) {
			return None{}, h.ResolveTool(ctx, id, in.Key, in.Result)
		})
	ToolOutput = asks(Row{"", "getOutput", read, Looks, get + "/output", "The whole output of a call"}, Host.ToolOutput)

	ToolState       = takesNone(Row{"tool_state", "getTools", read, Looks, get + "/tools", "The session's tools"}, Host.ToolState)
	ApplyToolState  = asks(Row{"apply_tool_state", "applyTools", configure, ByKey, put + "/tools", "Replace the tools, as of the generation that they were read at; those left out are off. Of each the override counts: the rest its source declares"}, Host.ApplyToolState)
	SetAvailability = row(Row{"set_availability", "setTools", configure, ByKey, patch + "/tools", "Override how far tools are offered"},
		func(ctx context.Context, h Host, id events.SessionID, in api.AvailabilityArgs) (int64, error) {
			return h.SetToolsAvailability(ctx, id, in.Names, in.Level)
		})
	ToolCatalog = takesNone(Row{"tool_catalog", "getToolCatalog", read, Looks, get + "/tools/catalog", "The tools that a model can search"}, Host.ToolCatalog)

	ToolSources      = takesNone(Row{"tool_sources", "getToolSources", read, Looks, get + "/tools/sources", "Sources of tools that the session has, and those that it can have at the node that answers"}, Host.ToolSources)
	AddToolSource    = asks(Row{"add_tool_source", "addToolSource", configure, ByKey, put + "/tools/sources/{source}", "Add the tools of a source, from the next model call on; of one that the session has, look at them anew"}, Host.AddToolSource)
	RemoveToolSource = asks(Row{"remove_tool_source", "removeToolSource", configure, ByKey, remove + "/tools/sources/{source}", "Take the tools of a source away, from the next call on"}, Host.RemoveToolSource)
	RefreshCatalog   = takesNone(Row{"refresh_catalog", "refreshCatalog", configure, ByKey, post + "/tools/refresh", "Have every node look at its tools anew"}, Host.RefreshCatalog)

	Actions      = takesNone(Row{"actions", "getActions", read, Looks, get + "/actions", "Actions of plugins"}, Host.Actions)
	InvokeAction = long(row(Row{"invoke_action", "invokeAction", write, Once, post + "/actions", "Ask a plugin for an action, however long that takes. A key whose action was done gives 504: results are not kept"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ActionArgs) (plugin.Result, error) {
			return h.InvokeAction(ctx, id, in.Name, in.Args)
		}))
)

// Background tasks, and monitors.
//
//nolint:gochecknoglobals // read-only
var (
	Tasks        = takesNone(Row{"", "getTasks", read, Looks, get + "/tasks", "Background tasks"}, Host.Tasks)
	Task         = asks(Row{"", "getTask", read, Looks, get + "/tasks/{task}", "A background task"}, Host.Task)
	RegisterTask = row(Row{"register_task", "registerTask", write, ByKey, put + "/tasks/{task}", "Register a task that the caller's own program runs"}, registerTask)
	ProgressTask = row(Row{"progress_task", "progressTask", write, ByKey, post + "/tasks/{task}/progress", "Report the progress of such a task; the answer tells whether it should stop"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ProgressArgs) (projector.Task, error) {
			return h.ProgressTask(ctx, id, in.Task, in.Message)
		})
	EndTask = row(Row{"end_task", "endTask", write, ByKey, post + "/tasks/{task}/end", "Report the end of such a task"},
		func(ctx context.Context, h Host, id events.SessionID, in api.EndTaskArgs) (projector.Task, error) {
			return h.EndTask(ctx, id, in.Task, in.State, in.Summary)
		})
	RequestCancel = row(Row{"request_cancel_task", "stopTask", write, ByKey, post + "/tasks/{task}/stop", "Ask a background task to stop by itself"},
		func(ctx context.Context, h Host, id events.SessionID, in api.RequestCancelArgs) (projector.Task, error) {
			return h.RequestCancelTask(ctx, id, in.Task, in.Reason)
		})
	CancelTask    = asks(Row{"cancel_task", "cancelTask", write, ByKey, post + "/tasks/{task}/cancel", "Cancel a background task"}, Host.CancelTask)
	CancelTasks   = asks(Row{"cancel_tasks", "cancelTasks", write, ByKey, post + "/tasks/cancel", "Cancel all background tasks"}, Host.CancelTasks)
	TransferTasks = row(Row{"transfer_tasks", "transferTasks", write, ByKey, post + "/tasks/transfer", "Move background tasks to another session"},
		func(ctx context.Context, h Host, id events.SessionID, in api.TransferArgs) (None, error) {
			return None{}, h.TransferAsyncHandles(ctx, id, in.To, in.Tasks)
		})

	StartMonitor    = tells(Row{"start_monitor", "startMonitor", command, ByKey, put + "/monitors/{monitor}", "Run a command on a node and watch it"}, Host.StartMonitor)
	StopMonitor     = tells(Row{"stop_monitor", "stopMonitor", write, ByKey, remove + "/monitors/{monitor}", "Stop a monitor"}, Host.StopMonitor)
	MonitorSnapshot = takesNone(Row{"monitor_snapshot", "getMonitors", read, Looks, get + "/monitors", "Monitors"}, Host.MonitorSnapshot)
	TakeUpdates     = asks(Row{"take_updates", "takeUpdates", write, ByKey, post + "/monitors/updates", "Take the output of monitors, and start those that are armed"}, Host.TakeMonitorUpdatesTo)
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
