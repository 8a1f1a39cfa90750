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
	Create = register(Row{"create", "createSession", write, ByKey, post + "/v1/sessions", "Create a session. It returns its id"}, create)
	Fork   = register(Row{"", "forkSession", write, ByKey, post + "/fork", "Create a session with the active branch of this one. It returns the new id"},
		func(ctx context.Context, h Host, from events.SessionID, in api.CreateArgs) (events.SessionID, error) {
			return h.Fork(ctx, from, in.Request)
		})
	Configure = register(Row{"configure", "configureSession", configure, ByKey, patch, "Change the model and settings of later turns"}, replaceConfig)
	Close     = withoutResult(Row{"close", "closeSession", write, ByKey, remove, "Close a session. A repeat changes nothing, and neither does a close of an unknown session"}, Host.CloseSession)
	Grant     = withoutResult(Row{"grant", "grant", grant, ByKey, put + "/grants/{caller}", "Set another caller's rights in this session. An empty list revokes them"}, Host.Grant)

	ProtocolOptions = register(Row{"set_protocol_options", "setProtocolOptions", configure, ByKey, put + "/options", "Replace the protocol's options of the current frame, or of all frames"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ProtocolOptionsArgs) (None, error) {
			return None{}, h.SetProtocolOptions(ctx, id, in.Options, in.All)
		})
	ApplyExtension    = withoutResult(Row{"apply_extension", "applyExtension", configure, ByKey, post + "/extensions", "Pass an extension object to the session's protocol"}, Host.ApplyExtension)
	ReplaceExtensions = withoutResult(Row{"replace_extensions", "replaceExtensions", configure, ByKey, put + "/extensions", "Replace all extensions of the session, for example to drop one that the protocol refuses"}, Host.ReplaceExtensions)

	State    = withoutInput(Row{"", "getSession", read, ReadOnly, get, "Return a session's state, without its messages"}, Host.State)
	View     = httpOnly(Row{"", "getView", read, ReadOnly, get + "/view", "Return the conversation in the current frame, with the settings and plugin state of its turns"})
	Observe  = httpOnly(Row{"", "watchEvents", read, ReadOnly, get + "/events", "Stream the commits after a cursor, and the pieces of the reply that the model writes"})
	Sessions = register(Row{"", "listSessions", read, ReadOnly, get + "/v1/sessions", "List the sessions that the caller may read. The list lags by about a second"},
		func(ctx context.Context, h Host, _ events.SessionID, q api.SessionQuery) (api.SessionPage, error) {
			return h.Sessions(ctx, q)
		})
)

// Turns, and what goes into them.
//
//nolint:gochecknoglobals // read-only
var (
	Submit   = withInput(Row{"submit", "submitTurn", write, ByID, post + "/turns", "Request a turn. Without wait it returns at once, with status pending"}, Host.SubmitTurn)
	SubmitAt = register(Row{"submit_at", "", write, ByID, "", "Request a turn at a later time"},
		func(ctx context.Context, h Host, id events.SessionID, in api.SubmitAtArgs) (events.TurnID, error) {
			return h.SubmitAt(ctx, id, in.At.Time(), in.Request)
		})
	Cancel = register(Row{"cancel", "cancelTurn", write, ByKey, post + "/turns/{turn}/cancel", "Request that a turn stops. It returns the receipt, and the cancel request that took effect"},
		func(ctx context.Context, h Host, id events.SessionID, in api.CancelArgs) (a api.CancelResponse, err error) {
			a.Receipt, a.Evidence, err = h.Cancel(ctx, id, in.Turn, in.Request)
			return a, err
		})
	Turn      = httpOnly(Row{"", "getTurn", read, ReadOnly, get + "/turns/{turn}", "Return a turn with its replies, calls, usage and outcome, after it has ended"})
	Turns     = withInput(Row{"", "listTurns", read, ReadOnly, get + "/turns", "List a session's turns, the newest first"}, Host.Turns)
	WatchTurn = httpOnly(Row{"", "watchTurn", read, ReadOnly, get + "/turns/{turn}/stream", "Stream a turn's events from its first one to done"})

	Inject       = withInput(Row{"inject", "injectInput", write, ByID, post + "/inputs", "Inject a message into the running turn, or before the next one"}, Host.Inject)
	CancelInputs = register(Row{"cancel_inputs", "cancelInput", write, ByKey, remove + "/inputs/{input}", "Cancel an injected message that no turn has taken"},
		func(ctx context.Context, h Host, id events.SessionID, inputs []events.InputID) ([]api.InputReceipt, error) {
			return h.CancelInputs(ctx, id, inputs...)
		})
	CancelInputsFrom = register(Row{"cancel_inputs_from", "", write, ByKey, "", "Cancel an injected message, and all that were injected after it"},
		func(ctx context.Context, h Host, id events.SessionID, first events.InputID) (a api.CancelFromResponse, err error) {
			a.Receipt, a.Cancelled, err = h.CancelInputsFrom(ctx, id, first)
			return a, err
		})
	TakeFirstInput = register(Row{"take_first_input", "takeFirstInput", write, ByKey, post + "/first-input", "Return the first turn's input, once. Later requests, and those for an unknown session, get none"}, takeFirstInput)
	Complete       = longRunning(streamed(register(Row{"complete", "complete", write, ByKey, post + "/completions", "Request a completion from the session's model outside of turns. The response waits for the reply. Repeats with the same key are paid for once"},
		func(ctx context.Context, h Host, id events.SessionID, in CompleteArgs) (plugin.Completion, error) {
			in.Request.Stream = StreamOf(ctx)
			return h.Complete(ctx, id, in.Request, in.Source)
		})))
	// StreamCompletion is Complete over HTTP, as a stream. Over NATS Complete streams by itself, where the client
	// requests that.
	StreamCompletion = httpOnly(Row{"", "streamCompletion", write, ByKey, post + "/completions/stream", "Request a completion as a stream of deltas, then the result or a problem. Disconnecting cancels it"})
)

// The conversation.
//
//nolint:gochecknoglobals // read-only
var (
	AppendNodes = withInput(Row{"append_nodes", "appendNodes", write, ByID, post + "/nodes", "Append nodes to the active branch"}, Host.AppendNodes)
	Branch      = withoutResult(Row{"branch", "branchTo", write, ByKey, post + "/branch", "Make a node of the graph the leaf: the branch that ends there becomes the active one"}, Host.BranchTo)
	OpenFrame   = withInput(Row{"open_frame", "openFrame", write, ByKey, post + "/frames", "Open a frame: later prompts start empty, or with the nodes that it keeps"}, Host.OpenFrame)
	Rewrite     = withoutResult(Row{"rewrite", "rewriteMessages", write, ByKey, put + "/messages", "Replace the conversation's messages with these, on a new branch"}, Host.Rewrite)
	Compact     = longRunning(withoutInput(Row{"compact", "compact", write, ByKey, post + "/compact", "Open a frame with a summary of the conversation, if a plugin makes one"}, Host.Compact))

	PutBlob  = withInput(Row{"put_blob", "storeBlob", write, ByKey, post + "/blobs", "Store a body of up to 64 MiB, for parts of messages in this session. It returns the digest and the size in bytes"}, Host.StoreBlob)
	ReadBlob = httpOnly(Row{"", "getBlob", read, ReadOnly, get + "/blobs/{digest}", "Return a body that the session's history refers to. If no message refers to it, the whole history is read"})
)

// Calls of tools, and tools.
//
//nolint:gochecknoglobals // read-only
var (
	Approvals        = withoutInput(Row{"", "getApprovals", read, ReadOnly, get + "/approvals", "List the session's calls that wait for an approval"}, Host.Approvals)
	PendingApprovals = register(Row{"", "listApprovals", read, ReadOnly, get + "/v1/approvals", "List the calls that wait for an approval, in all sessions that the caller may read"},
		func(ctx context.Context, h Host, _ events.SessionID, p api.Page) (api.ApprovalPage, error) {
			return h.PendingApprovals(ctx, p)
		})
	Approve     = withoutResult(Row{"approve", "approve", approve, ByKey, post + "/approvals", "Grant or refuse a call that waits for an approval"}, Host.Approve)
	ResolveTool = register(Row{"resolve_tool", "resolveCall", approve, ByKey, post + "/results", "Set the result of a call that waits for an outside program. The first result counts"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ResolveArgs) (None, error) {
			return None{}, h.ResolveTool(ctx, id, in.Key, in.Result)
		})
	ToolOutput = withInput(Row{"", "getOutput", read, ReadOnly, get + "/output", "Return the whole output of a call as text"}, Host.ToolOutput)

	ToolState       = withoutInput(Row{"tool_state", "getTools", read, ReadOnly, get + "/tools", "List the session's tools, with their generation"}, Host.ToolState)
	ApplyToolState  = withInput(Row{"apply_tool_state", "applyTools", configure, ByKey, put + "/tools", "Replace the tools, if the generation is current. Omitted tools are switched off; of each tool only the override is used"}, Host.ApplyToolState)
	SetAvailability = register(Row{"set_availability", "setTools", configure, ByKey, patch + "/tools", "Override the availability of tools. It returns the new generation"},
		func(ctx context.Context, h Host, id events.SessionID, in api.AvailabilityArgs) (int64, error) {
			return h.SetToolsAvailability(ctx, id, in.Names, in.Level)
		})
	ToolCatalog = withoutInput(Row{"tool_catalog", "getToolCatalog", read, ReadOnly, get + "/tools/catalog", "List the tools that a model can search"}, Host.ToolCatalog)

	ToolSources      = withoutInput(Row{"tool_sources", "getToolSources", read, ReadOnly, get + "/tools/sources", "List the session's sources of tools, and those that the answering node can add"}, Host.ToolSources)
	AddToolSource    = withInput(Row{"add_tool_source", "addToolSource", configure, ByKey, put + "/tools/sources/{source}", "Add the tools of a source, from the next model call on. If the session has the source, read its tools again"}, Host.AddToolSource)
	RemoveToolSource = withInput(Row{"remove_tool_source", "removeToolSource", configure, ByKey, remove + "/tools/sources/{source}", "Remove the tools of a source, from the next model call on"}, Host.RemoveToolSource)
	RefreshCatalog   = withoutInput(Row{"refresh_catalog", "refreshCatalog", configure, ByKey, post + "/tools/refresh", "Make every node read its tools again"}, Host.RefreshCatalog)

	ExternalPlugins = withoutInput(Row{"external_plugins", "listPlugins", read, ReadOnly, get + "/v1/plugins", "List the plugins that run as programs of their own, with the instances that live"},
		func(h Host, ctx context.Context, _ events.SessionID) ([]api.ExternalPlugin, error) {
			return h.ExternalPlugins(ctx)
		})
	Actions      = withoutInput(Row{"actions", "getActions", read, ReadOnly, get + "/actions", "List the actions of the session's plugins"}, Host.Actions)
	InvokeAction = longRunning(register(Row{"invoke_action", "invokeAction", write, Once, post + "/actions", "Run an action of a plugin. The response waits for its result. A repeat of a key gets 504 if the action ran, because results are not stored"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ActionArgs) (plugin.Result, error) {
			return h.InvokeAction(ctx, id, in.Name, in.Args)
		}))
)

// Background tasks, and monitors.
//
//nolint:gochecknoglobals // read-only
var (
	Tasks        = withoutInput(Row{"", "getTasks", read, ReadOnly, get + "/tasks", "List the session's background tasks, in order of creation, ended ones too"}, Host.Tasks)
	Task         = withInput(Row{"", "getTask", read, ReadOnly, get + "/tasks/{task}", "Return a background task"}, Host.Task)
	RegisterTask = register(Row{"register_task", "registerTask", write, ByKey, put + "/tasks/{task}", "Register a task that the caller's own program runs"}, registerTask)
	ProgressTask = register(Row{"progress_task", "progressTask", write, ByKey, post + "/tasks/{task}/progress", "Report the progress of a task that the caller's own program runs. The returned state says whether the task should stop"},
		func(ctx context.Context, h Host, id events.SessionID, in api.ProgressArgs) (projector.Task, error) {
			return h.ProgressTask(ctx, id, in.Task, in.Message)
		})
	EndTask = register(Row{"end_task", "endTask", write, ByKey, post + "/tasks/{task}/end", "Report the end of a task that the caller's own program runs. It returns the task"},
		func(ctx context.Context, h Host, id events.SessionID, in api.EndTaskArgs) (projector.Task, error) {
			return h.EndTask(ctx, id, in.Task, in.State, in.Summary)
		})
	RequestCancel = register(Row{"request_cancel_task", "stopTask", write, ByKey, post + "/tasks/{task}/stop", "Request that a background task stops by itself"},
		func(ctx context.Context, h Host, id events.SessionID, in api.RequestCancelArgs) (projector.Task, error) {
			return h.RequestCancelTask(ctx, id, in.Task, in.Reason)
		})
	CancelTask    = withInput(Row{"cancel_task", "cancelTask", write, ByKey, post + "/tasks/{task}/cancel", "Cancel a background task at once. It returns the task"}, Host.CancelTask)
	CancelTasks   = withInput(Row{"cancel_tasks", "cancelTasks", write, ByKey, post + "/tasks/cancel", "Cancel all background tasks but the kept ones. It returns the ids of the cancelled ones"}, Host.CancelTasks)
	TransferTasks = register(Row{"transfer_tasks", "transferTasks", write, ByKey, post + "/tasks/transfer", "Move background tasks to another session"},
		func(ctx context.Context, h Host, id events.SessionID, in api.TransferArgs) (None, error) {
			return None{}, h.TransferTasks(ctx, id, in.To, in.Tasks)
		})

	StartMonitor    = withoutResult(Row{"start_monitor", "startMonitor", command, ByKey, put + "/monitors/{monitor}", "Run a command on a node, and record its lines of output"}, Host.StartMonitor)
	StopMonitor     = withoutResult(Row{"stop_monitor", "stopMonitor", write, ByKey, remove + "/monitors/{monitor}", "Stop a monitor"}, Host.StopMonitor)
	MonitorSnapshot = withoutInput(Row{"monitor_snapshot", "getMonitors", read, ReadOnly, get + "/monitors", "List the session's monitors, by id, with the revision of the list"}, Host.MonitorSnapshot)
	TakeUpdates     = withInput(Row{"take_updates", "takeUpdates", write, ByKey, post + "/monitors/updates", "Return and remove the recorded output of monitors, and start the monitors that are armed"}, Host.TakeMonitorUpdatesTo)
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
