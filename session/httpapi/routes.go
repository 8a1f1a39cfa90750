package httpapi

import (
	"net/http"
	"reflect"

	"github.com/lash-go/lash/session/api"
)

// What several operations take.
//
//nolint:gochecknoglobals // read-only
var (
	waitParam   = param{"wait", "how long to wait for the turn's end, in seconds or as 1m30s"}
	preferParam = param{"Prefer", "wait=SECONDS is the same as the parameter wait"}
	keyParam    = param{keyHeader, "the same request again, with the same key, is done once, and another one with it refused; it is the id of a session, turn or input that is made"}
)

// routes is the one table of operations.
func routes() []route {
	const session = "/v1/sessions/{session}"
	list := []route{
		{
			name: "document", summary: "This document", method: http.MethodGet, path: "/v1/openapi.json",
			answers: ok[map[string]any](http.StatusOK), handle: getDocument,
		},
		{
			name: "createSession", summary: "Open a session", method: http.MethodPost, path: "/v1/sessions", needs: api.OpCreate.Needs(),
			request: of[NewSession](), answers: ok[Made](http.StatusCreated), refuses: []int{http.StatusNotFound}, handle: body(createSession),
		},
		{
			name: "getSession", summary: "How a session stands", method: http.MethodGet, path: session, needs: api.RightRead,
			answers: ok[Session](http.StatusOK), handle: getSession,
		},
		{
			name: "configureSession", summary: "Change with what turns run", method: http.MethodPatch, path: session, needs: api.OpConfigure.Needs(),
			request: of[ConfigChange](), answers: none(), handle: body(configureSession),
		},
		{
			name: "closeSession", summary: "End a session; again, or of none, does nothing", method: http.MethodDelete, path: session, needs: api.OpClose.Needs(),
			query: []param{{"reason", "kept in the history"}}, answers: none(), lenient: true, handle: closeSession,
		},
		{
			name: "forkSession", summary: "Open a session with the active branch of this one", method: http.MethodPost, path: session + "/fork", needs: api.OpCreate.Needs(),
			request: of[NewSession](), answers: ok[Made](http.StatusCreated), handle: body(forkSession),
		},
		{
			name: "grant", summary: "Say what another caller may do in this session; no rights takes back what was granted", method: http.MethodPut, path: session + "/grants/{caller}", needs: api.OpGrant.Needs(),
			request: of[Grant](), answers: none(), handle: body(grantSession),
		},
		{
			name: "getView", summary: "The conversation in the current frame", method: http.MethodGet, path: session + "/view", needs: api.RightRead,
			query: []param{{"at", "sequence up to which the history counts, or its end where that comes before; defaults to the end. It costs a fold from the beginning"}}, answers: ok[View](http.StatusOK), handle: getView,
		},
		{
			name: "watchEvents", summary: "Commits after a cursor, and the reply in flight", method: http.MethodGet, path: session + "/events", needs: api.RightRead,
			query: []param{{"cursor", "sequence of the last commit seen, of a first connect; defaults to 0"}}, header: []param{{"Last-Event-ID", "likewise, of a reconnect: it wins"}},
			events: map[string]reflect.Type{"commit": of[Commit](), "delta": of[Delta](), "gap": of[Gap](), "problem": of[problem]()}, held: true,
			refuses: []int{http.StatusConflict}, handle: watchEvents,
		},
	}
	list = append(list, findRoutes(session)...)
	list = append(list, blobRoutes(session)...)
	list = append(list, turnRoutes(session)...)
	list = append(list, graphRoutes(session)...)
	list = append(list, toolRoutes(session)...)
	list = append(list, taskRoutes(session)...)
	return append(list, outsideRoutes(session)...)
}

func turnRoutes(session string) []route {
	return []route{
		{
			name: "submitTurn", summary: "Ask for a turn", method: http.MethodPost, path: session + "/turns", needs: api.OpSubmit.Needs(),
			query: []param{waitParam}, header: []param{preferParam}, held: true, request: of[NewTurn](),
			answers: map[int]reflect.Type{http.StatusOK: of[api.AssembledTurn](), http.StatusAccepted: of[PendingTurn]()},
			handle:  body(submitTurn),
		},
		{
			name: "getTurn", summary: "A turn as a whole, once it has ended", method: http.MethodGet, path: session + "/turns/{turn}", needs: api.RightRead,
			query: []param{waitParam}, header: []param{preferParam}, held: true,
			answers: map[int]reflect.Type{http.StatusOK: of[api.AssembledTurn](), http.StatusAccepted: of[PendingTurn]()}, handle: getTurn,
		},
		{
			name: "cancelTurn", summary: "Ask a turn to stop", method: http.MethodPost, path: session + "/turns/{turn}/cancel", needs: api.OpCancel.Needs(),
			request: of[CancelTurn](), answers: ok[Cancelled](http.StatusOK), handle: body(cancelTurn),
		},
		{
			name: "watchTurn", summary: "A turn's events from its first to done", method: http.MethodGet, path: session + "/turns/{turn}/stream", needs: api.RightRead,
			events: map[string]reflect.Type{"event": of[api.SessionEvent](), "problem": of[problem]()}, held: true, handle: watchTurn,
		},
		{
			name: "injectInput", summary: "Put a message into the running turn, or before the next", method: http.MethodPost, path: session + "/inputs", needs: api.OpInject.Needs(),
			request: of[NewInput](), answers: ok[Made](http.StatusCreated), handle: body(injectInput),
		},
		{
			name: "cancelInput", summary: "Take an input back", method: http.MethodDelete, path: session + "/inputs/{input}", needs: api.OpCancelInputs.Needs(),
			query: []param{{"following", "true: with all that were injected after it"}}, answers: ok[CancelledInput](http.StatusOK), handle: cancelInput,
		},
	}
}

func graphRoutes(session string) []route {
	return []route{
		{
			name: "appendNodes", summary: "Append under the leaf", method: http.MethodPost, path: session + "/nodes", needs: api.OpAppendNodes.Needs(),
			request: of[NewNodes](), answers: ok[AppendedNodes](http.StatusOK), handle: body(appendNodes),
		},
		{
			name: "branchTo", summary: "Move the leaf", method: http.MethodPost, path: session + "/branch", needs: api.OpBranch.Needs(),
			request: of[Branch](), answers: none(), handle: body(branchTo),
		},
		{
			name: "openFrame", summary: "Begin a fresh prompt", method: http.MethodPost, path: session + "/frames", needs: api.OpOpenFrame.Needs(),
			request: of[NewFrame](), answers: ok[Opened](http.StatusOK), handle: body(openFrame),
		},
		{
			name: "compact", summary: "Begin a fresh prompt with a summary, where a compactor gives one", method: http.MethodPost, path: session + "/compact", needs: api.OpCompact.Needs(),
			answers: ok[Opened](http.StatusOK), handle: compact,
		},
	}
}

func toolRoutes(session string) []route {
	return []route{
		{
			name: "getApprovals", summary: "Calls that wait for an answer", method: http.MethodGet, path: session + "/approvals", needs: api.RightRead,
			answers: ok[Approvals](http.StatusOK), handle: getApprovals,
		},
		{
			name: "approve", summary: "Let a call run that waits, or refuse it", method: http.MethodPost, path: session + "/approvals", needs: api.OpApprove.Needs(),
			request: of[Answer](), answers: none(), handle: body(approve),
		},
		{
			name: "resolveCall", summary: "Give the result of a call that waits for somebody outside", method: http.MethodPost, path: session + "/results", needs: api.OpResolveTool.Needs(),
			request: of[CallResult](), answers: none(), handle: body(resolveCall),
		},
		{
			name: "getOutput", summary: "The whole output of a call", method: http.MethodGet, path: session + "/output", needs: api.RightRead,
			query: []param{{"call", "required"}}, answers: ok[CallOutput](http.StatusOK), handle: getOutput,
		},
		{
			name: "getTools", summary: "The session's tools", method: http.MethodGet, path: session + "/tools", needs: api.OpToolState.Needs(),
			answers: ok[Tools](http.StatusOK), handle: getTools,
		},
		{
			name: "setTools", summary: "Override how far tools are offered", method: http.MethodPatch, path: session + "/tools", needs: api.OpSetAvailability.Needs(),
			request: of[ToolLevel](), answers: ok[Generation](http.StatusOK), handle: body(setTools),
		},
	}
}

func taskRoutes(session string) []route {
	return []route{
		{
			name: "getTasks", summary: "Background tasks", method: http.MethodGet, path: session + "/tasks", needs: api.RightRead,
			answers: ok[Tasks](http.StatusOK), lenient: true, handle: getTasks,
		},
		{
			name: "getTask", summary: "A background task", method: http.MethodGet, path: session + "/tasks/{task}", needs: api.RightRead,
			answers: ok[Task](http.StatusOK), handle: getTask,
		},
		{
			name: "cancelTask", summary: "Cancel a background task", method: http.MethodPost, path: session + "/tasks/{task}/cancel", needs: api.OpCancelTask.Needs(),
			answers: ok[Task](http.StatusOK), handle: cancelTask,
		},
		{
			name: "getMonitors", summary: "Commands that are watched", method: http.MethodGet, path: session + "/monitors", needs: api.OpMonitorSnapshot.Needs(),
			answers: ok[Monitors](http.StatusOK), handle: getMonitors,
		},
		{
			name: "startMonitor", summary: "Run a command on a node and watch it", method: http.MethodPut, path: session + "/monitors/{monitor}", needs: api.OpStartMonitor.Needs(),
			request: of[MonitorSpec](), answers: none(), handle: body(startMonitor),
		},
		{
			name: "stopMonitor", summary: "Stop a monitor", method: http.MethodDelete, path: session + "/monitors/{monitor}", needs: api.OpStopMonitor.Needs(),
			answers: none(), handle: stopMonitor,
		},
		{
			name: "takeUpdates", summary: "Take what monitors said, and start those that are armed", method: http.MethodPost, path: session + "/monitors/updates", needs: api.OpTakeUpdates.Needs(),
			answers: ok[MonitorUpdates](http.StatusOK), handle: takeUpdates,
		},
	}
}

func ok[T any](status int) map[int]reflect.Type { return map[int]reflect.Type{status: of[T]()} }

func none() map[int]reflect.Type { return map[int]reflect.Type{http.StatusNoContent: nil} }
