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
	Create = register(write, Row{
		Name: "create", ID: "createSession", Repeat: ByKey, Route: post + "/v1/sessions",
		Summary: "Create a session. It returns its id",
	}, create)
	Fork = register(write, Row{
		ID: "forkSession", Repeat: ByKey, Route: post + "/fork",
		Summary: "Create a session with the active branch of this one. It returns the new id",
	}, func(ctx context.Context, h Host, from events.SessionID, in api.CreateArgs) (events.SessionID, error) {
		return h.Fork(ctx, from, in.Request)
	})
	Configure = register(configure, Row{
		Name: "configure", ID: "configureSession", Repeat: ByKey, Route: patch,
		Summary: "Change the model and settings of later turns",
	}, replaceConfig)
	CloseSession = withoutResult(write, Row{
		Name: "close", ID: "closeSession", Repeat: ByKey, Route: remove,
		Summary: "Close a session. A repeat changes nothing, and neither does a close of an unknown session",
	}, Host.CloseSession)
	Grant = withoutResult(grant, Row{
		Name: "grant", ID: "grant", Repeat: ByKey, Route: put + "/grants/{caller}",
		Summary: "Set another caller's rights in this session. An empty list revokes them",
	}, Host.Grant)

	SetProtocolOptions = register(configure, Row{
		Name: "set_protocol_options", ID: "setProtocolOptions", Repeat: ByKey, Route: put + "/options",
		Summary: "Replace the protocol's options of the current frame, or of all frames",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.ProtocolOptionsArgs) (None, error) {
		return None{}, h.SetProtocolOptions(ctx, id, in.Options, in.All)
	})
	ApplyExtension = withoutResult(configure, Row{
		Name: "apply_extension", ID: "applyExtension", Repeat: ByKey, Route: post + "/extensions",
		Summary: "Pass an extension object to the session's protocol",
	}, Host.ApplyExtension)
	ReplaceExtensions = withoutResult(configure, Row{
		Name: "replace_extensions", ID: "replaceExtensions", Repeat: ByKey, Route: put + "/extensions",
		Summary: "Replace all extensions of the session, for example to drop one that the protocol refuses",
	}, Host.ReplaceExtensions)

	State = withoutInput(read, Row{
		ID: "getSession", Repeat: ReadOnly, Route: get,
		Summary: "Return a session's state, without its messages",
	}, Host.State)
	Snapshot = httpOnly(read, Row{
		ID: "getSnapshot", Repeat: ReadOnly, Route: get + "/snapshot",
		Summary: "Return a session's whole state, which a new session can start from. Go programs have it from State",
	})
	View = httpOnly(read, Row{
		ID: "getView", Repeat: ReadOnly, Route: get + "/view",
		Summary: "Return the conversation in the current frame, with the settings and plugin state of its turns",
	})
	Observe = httpOnly(read, Row{
		ID: "watchEvents", Repeat: ReadOnly, Route: get + "/events",
		Summary: "Stream the commits after a cursor, and the pieces of the reply that the model writes",
	})
	Sessions = register(read, Row{
		ID: "listSessions", Repeat: ReadOnly, Route: get + "/v1/sessions",
		Summary: "List the sessions that the caller may read. The list lags by about a second",
	}, func(ctx context.Context, h Host, _ events.SessionID, q api.SessionQuery) (api.SessionPage, error) {
		return h.Sessions(ctx, q)
	})
	Search = register(read, Row{
		ID: "search", Repeat: ReadOnly, Route: get + "/v1/search",
		Summary: "Find turns by their texts, tools, actors and outcomes, in all sessions that the caller may read. The index lags by up to five seconds",
	}, func(ctx context.Context, h Host, _ events.SessionID, q api.SearchQuery) (api.SearchPage, error) {
		return h.Search(ctx, q)
	})
)

// Turns, and what goes into them.
//
//nolint:gochecknoglobals // read-only
var (
	Submit = withInput(write, Row{
		Name: "submit", ID: "submitTurn", Repeat: ByID, Route: post + "/turns",
		Summary: "Request a turn. Without wait it returns at once, with status pending",
	}, Host.SubmitTurn)
	SubmitAt = register(write, Row{
		Name: "submit_at", Repeat: ByID,
		Summary: "Request a turn at a later time",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.SubmitAtArgs) (events.TurnID, error) {
		return h.SubmitAt(ctx, id, in.At.Time(), in.Request)
	})
	Cancel = register(write, Row{
		Name: "cancel", ID: "cancelTurn", Repeat: ByKey, Route: post + "/turns/{turn}/cancel",
		Summary: "Request that a turn stops. It returns the receipt, and the cancel request that took effect",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.CancelArgs) (a api.CancelResponse, err error) {
		a.Receipt, a.Evidence, err = h.Cancel(ctx, id, in.Turn, in.Request)
		return a, err
	})
	Turn = httpOnly(read, Row{
		ID: "getTurn", Repeat: ReadOnly, Route: get + "/turns/{turn}",
		Summary: "Return a turn with its replies, calls, usage and outcome, after it has ended",
	})
	Turns = withInput(read, Row{
		ID: "listTurns", Repeat: ReadOnly, Route: get + "/turns",
		Summary: "List a session's turns, the newest first",
	}, Host.Turns)
	WatchTurn = httpOnly(read, Row{
		ID: "watchTurn", Repeat: ReadOnly, Route: get + "/turns/{turn}/stream",
		Summary: "Stream a turn's events from its first one to done",
	})

	Inject = withInput(write, Row{
		Name: "inject", ID: "injectInput", Repeat: ByID, Route: post + "/inputs",
		Summary: "Inject a message into the running turn, or before the next one",
	}, Host.Inject)
	CancelInputs = register(write, Row{
		Name: "cancel_inputs", ID: "cancelInput", Repeat: ByKey, Route: remove + "/inputs/{input}",
		Summary: "Cancel an injected message that no turn has taken",
	}, func(ctx context.Context, h Host, id events.SessionID, inputs []events.InputID) ([]api.InputReceipt, error) {
		return h.CancelInputs(ctx, id, inputs...)
	})
	CancelInputsFrom = register(write, Row{
		Name: "cancel_inputs_from", Repeat: ByKey,
		Summary: "Cancel an injected message, and all that were injected after it",
	}, func(ctx context.Context, h Host, id events.SessionID, first events.InputID) (a api.CancelFromResponse, err error) {
		a.Receipt, a.Cancelled, err = h.CancelInputsFrom(ctx, id, first)
		return a, err
	})
	TakeFirstTurnInput = register(write, Row{
		Name: "take_first_input", ID: "takeFirstInput", Repeat: ByKey, Route: post + "/first-input",
		Summary: "Return the first turn's input, once. Later requests, and those for an unknown session, get none",
	}, takeFirstInput)
	Complete = register(write, Row{
		Name: "complete", ID: "complete", Repeat: ByKey, Route: post + "/completions", Long: true, Streams: true,
		Summary: "Request a completion from the session's model outside of turns. The response waits for the reply. Repeats with the same key are paid for once",
	}, func(ctx context.Context, h Host, id events.SessionID, in CompleteArgs) (plugin.Completion, error) {
		in.Request.Stream = StreamOf(ctx)
		return h.Complete(ctx, id, in.Request, in.Source)
	})
	// StreamCompletion is Complete over HTTP, as a stream. Over NATS Complete streams by itself, where the client
	// requests that.
	StreamCompletion = httpOnly(write, Row{
		ID: "streamCompletion", Repeat: ByKey, Route: post + "/completions/stream",
		Summary: "Request a completion as a stream of deltas, then the result or a problem. Disconnecting cancels it",
	})
)

// The conversation.
//
//nolint:gochecknoglobals // read-only
var (
	AppendNodes = withInput(write, Row{
		Name: "append_nodes", ID: "appendNodes", Repeat: ByID, Route: post + "/nodes",
		Summary: "Append nodes to the active branch",
	}, Host.AppendNodes)
	BranchTo = withoutResult(write, Row{
		Name: "branch", ID: "branchTo", Repeat: ByKey, Route: post + "/branch",
		Summary: "Make a node of the graph the leaf: the branch that ends there becomes the active one",
	}, Host.BranchTo)
	OpenFrame = withInput(write, Row{
		Name: "open_frame", ID: "openFrame", Repeat: ByKey, Route: post + "/frames",
		Summary: "Open a frame: later prompts start empty, or with the nodes that it keeps",
	}, Host.OpenFrame)
	Rewrite = withoutResult(write, Row{
		Name: "rewrite", ID: "rewriteMessages", Repeat: ByKey, Route: put + "/messages",
		Summary: "Replace the conversation's messages with these, on a new branch",
	}, Host.Rewrite)
	Compact = withoutInput(write, Row{
		Name: "compact", ID: "compact", Repeat: ByKey, Route: post + "/compact", Long: true,
		Summary: "Open a frame with a summary of the conversation, if a plugin makes one",
	}, Host.Compact)

	StoreBlob = withInput(write, Row{
		Name: "put_blob", ID: "storeBlob", Repeat: ByKey, Route: post + "/blobs",
		Summary: "Store a body of up to 64 MiB, for parts of messages in this session. It returns the digest and the size in bytes",
	}, Host.StoreBlob)
	ReadBlob = httpOnly(read, Row{
		ID: "getBlob", Repeat: ReadOnly, Route: get + "/blobs/{digest}",
		Summary: "Return a body that the session's history refers to. If no message refers to it, the whole history is read",
	})
)

// Calls of tools, and tools.
//
//nolint:gochecknoglobals // read-only
var (
	Approvals = withoutInput(read, Row{
		ID: "getApprovals", Repeat: ReadOnly, Route: get + "/approvals",
		Summary: "List the calls that wait for an approval, of the session and of the agents that work for it",
	}, Host.Approvals)
	PendingApprovals = register(read, Row{
		ID: "listApprovals", Repeat: ReadOnly, Route: get + "/v1/approvals",
		Summary: "List the calls that wait for an approval, in all sessions that the caller may read",
	}, func(ctx context.Context, h Host, _ events.SessionID, p api.Page) (api.ApprovalPage, error) {
		return h.PendingApprovals(ctx, p)
	})
	Approve = withoutResult(approve, Row{
		Name: "approve", ID: "approve", Repeat: ByKey, Route: post + "/approvals",
		Summary: "Grant or refuse a call that waits for an approval",
	}, Host.Approve)
	ResolveTool = register(approve, Row{
		Name: "resolve_tool", ID: "resolveCall", Repeat: ByKey, Route: post + "/results",
		Summary: "Set the result of a call that waits for an outside program. The first result counts",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.ResolveArgs) (None, error) {
		return None{}, h.ResolveTool(ctx, id, in.Key, in.Result)
	})
	ToolOutput = withInput(read, Row{
		ID: "getOutput", Repeat: ReadOnly, Route: get + "/output",
		Summary: "Return the whole output of a call as text",
	}, Host.ToolOutput)

	ToolState = withoutInput(read, Row{
		Name: "tool_state", ID: "getTools", Repeat: ReadOnly, Route: get + "/tools",
		Summary: "List the session's tools, with their generation",
	}, Host.ToolState)
	ApplyToolState = withInput(configure, Row{
		Name: "apply_tool_state", ID: "applyTools", Repeat: ByKey, Route: put + "/tools",
		Summary: "Replace the tools, if the generation is current. Omitted tools are switched off; of each tool only the override is used",
	}, Host.ApplyToolState)
	SetToolsAvailability = register(configure, Row{
		Name: "set_availability", ID: "setTools", Repeat: ByKey, Route: patch + "/tools",
		Summary: "Override the availability of tools. It returns the new generation",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.AvailabilityArgs) (int64, error) {
		return h.SetToolsAvailability(ctx, id, in.Names, in.Level)
	})
	ToolCatalog = withoutInput(read, Row{
		Name: "tool_catalog", ID: "getToolCatalog", Repeat: ReadOnly, Route: get + "/tools/catalog",
		Summary: "List the tools that a model can search",
	}, Host.ToolCatalog)

	ToolSources = withoutInput(read, Row{
		Name: "tool_sources", ID: "getToolSources", Repeat: ReadOnly, Route: get + "/tools/sources",
		Summary: "List the session's sources of tools, and those that the answering node can add",
	}, Host.ToolSources)
	AddToolSource = withInput(configure, Row{
		Name: "add_tool_source", ID: "addToolSource", Repeat: ByKey, Route: put + "/tools/sources/{source}",
		Summary: "Add the tools of a source, from the next model call on. If the session has the source, read its tools again",
	}, Host.AddToolSource)
	RemoveToolSource = withInput(configure, Row{
		Name: "remove_tool_source", ID: "removeToolSource", Repeat: ByKey, Route: remove + "/tools/sources/{source}",
		Summary: "Remove the tools of a source, from the next model call on",
	}, Host.RemoveToolSource)
	RefreshCatalog = withoutInput(configure, Row{
		Name: "refresh_catalog", ID: "refreshCatalog", Repeat: ByKey, Route: post + "/tools/refresh",
		Summary: "Make every node read its tools again",
	}, Host.RefreshCatalog)

	ExternalPlugins = withoutInput(read, Row{
		Name: "external_plugins", ID: "listPlugins", Repeat: ReadOnly, Route: get + "/v1/plugins",
		Summary: "List the plugins that run as programs of their own, with the instances that live",
	}, func(h Host, ctx context.Context, _ events.SessionID) ([]api.ExternalPlugin, error) {
		return h.ExternalPlugins(ctx)
	})
	Actions = withoutInput(read, Row{
		Name: "actions", ID: "getActions", Repeat: ReadOnly, Route: get + "/actions",
		Summary: "List the actions of the session's plugins",
	}, Host.Actions)
	InvokeAction = register(write, Row{
		Name: "invoke_action", ID: "invokeAction", Repeat: Once, Route: post + "/actions", Long: true,
		Summary: "Run an action of a plugin. The response waits for its result. A repeat of a key gets 504 if the action ran, because results are not stored",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.ActionArgs) (plugin.Result, error) {
		return h.InvokeAction(ctx, id, in.Name, in.Args)
	})
)

// Background tasks, and monitors.
//
//nolint:gochecknoglobals // read-only
var (
	Tasks = withoutInput(read, Row{
		ID: "getTasks", Repeat: ReadOnly, Route: get + "/tasks",
		Summary: "List the session's background tasks, in order of creation, ended ones too",
	}, Host.Tasks)
	Task = withInput(read, Row{
		ID: "getTask", Repeat: ReadOnly, Route: get + "/tasks/{task}",
		Summary: "Return a background task",
	}, Host.Task)
	RegisterTask = register(write, Row{
		Name: "register_task", ID: "registerTask", Repeat: ByKey, Route: put + "/tasks/{task}",
		Summary: "Register a task that the caller's own program runs",
	}, registerTask)
	ProgressTask = register(write, Row{
		Name: "progress_task", ID: "progressTask", Repeat: ByKey, Route: post + "/tasks/{task}/progress",
		Summary: "Report the progress of a task that the caller's own program runs. The returned state says whether the task should stop",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.ProgressArgs) (projector.Task, error) {
		return h.ProgressTask(ctx, id, in.Task, in.Message)
	})
	EndOwnTask = register(write, Row{
		Name: "end_task", ID: "endTask", Repeat: ByKey, Route: post + "/tasks/{task}/end",
		Summary: "Report the end of a task that the caller's own program runs. It returns the task",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.EndOwnTaskArgs) (projector.Task, error) {
		return h.EndOwnTask(ctx, id, in.Task, in.State, in.Summary)
	})
	TransitionOwnTask = register(write, Row{
		Name: "transition_task", ID: "transitionTask", Repeat: ByKey, Route: post + "/tasks/{task}/state",
		Summary: "Move a task that the caller's own program runs to running or waiting. It returns the task, whose state says whether it should stop",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.TransitionArgs) (projector.Task, error) {
		return h.TransitionOwnTask(ctx, id, in.Task, in.State)
	})
	UnregisterOwnTask = withoutResult(write, Row{
		Name: "unregister_task", ID: "unregisterTask", Repeat: ByKey, Route: remove + "/tasks/{task}",
		Summary: "Remove a task that the caller's own program runs, in any state, without cancelling it. An unknown task changes nothing",
	}, Host.UnregisterOwnTask)
	RequestCancelTask = register(write, Row{
		Name: "request_cancel_task", ID: "stopTask", Repeat: ByKey, Route: post + "/tasks/{task}/stop",
		Summary: "Request that a background task stops by itself",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.RequestCancelTaskArgs) (projector.Task, error) {
		return h.RequestCancelTask(ctx, id, in.Task, in.Reason)
	})
	CancelTask = withInput(write, Row{
		Name: "cancel_task", ID: "cancelTask", Repeat: ByKey, Route: post + "/tasks/{task}/cancel",
		Summary: "Cancel a background task at once. It returns the task",
	}, Host.CancelTask)
	CancelTasks = withInput(write, Row{
		Name: "cancel_tasks", ID: "cancelTasks", Repeat: ByKey, Route: post + "/tasks/cancel",
		Summary: "Cancel all background tasks but the kept ones. It returns the ids of the cancelled ones",
	}, Host.CancelTasks)
	TransferTasks = register(write, Row{
		Name: "transfer_tasks", ID: "transferTasks", Repeat: ByKey, Route: post + "/tasks/transfer",
		Summary: "Move background tasks to another session",
	}, func(ctx context.Context, h Host, id events.SessionID, in api.TransferArgs) (None, error) {
		return None{}, h.TransferTasks(ctx, id, in.To, in.Tasks)
	})

	StartMonitor = withoutResult(command, Row{
		Name: "start_monitor", ID: "startMonitor", Repeat: ByKey, Route: put + "/monitors/{monitor}",
		Summary: "Run a command on a node, and record its lines of output",
	}, Host.StartMonitor)
	StopMonitor = withoutResult(write, Row{
		Name: "stop_monitor", ID: "stopMonitor", Repeat: ByKey, Route: remove + "/monitors/{monitor}",
		Summary: "Stop a monitor",
	}, Host.StopMonitor)
	MonitorSnapshot = withoutInput(read, Row{
		Name: "monitor_snapshot", ID: "getMonitors", Repeat: ReadOnly, Route: get + "/monitors",
		Summary: "List the session's monitors, by id, with the revision of the list",
	}, Host.MonitorSnapshot)
	TakeMonitorUpdates = withInput(write, Row{
		Name: "take_updates", ID: "takeUpdates", Repeat: ByKey, Route: post + "/monitors/updates",
		Summary: "Return and remove the recorded output of monitors, and start the monitors that are armed",
	}, Host.TakeMonitorUpdatesTo)
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
	if err := in.CheckOwn(); err != nil {
		return t, err
	}
	return h.RegisterTask(ctx, id, in)
}
