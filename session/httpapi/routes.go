package httpapi

import (
	"net/http"
	"reflect"
	"strconv"

	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// Parameters that several operations share.
//
//nolint:gochecknoglobals // read-only
var (
	waitParam   = seconds("wait", "time to wait for the turn's end, in seconds or as 1m30s; a caller without the right to read the session gets 202 at once")
	preferParam = text("Prefer", "wait=SECONDS, equal to the parameter wait")
	keyParam    = param{name: keyHeader, schema: idSchema(), description: "key of the request: repeats with the key take effect once, and another request with the key is refused. A created session, turn or input has the key as its id"}
	limitParam  = param{name: "limit", schema: object{"type": "integer", "minimum": 1, "maximum": api.MaxPage}, description: "largest number of entries in a page, 1 to " + strconv.Itoa(api.MaxPage) + "; defaults to " + strconv.Itoa(api.DefaultPage)}
	cursorParam = text("cursor", "opaque: the field next of the previous page; omitted: the first page")
)

const labelParam = "label"

func text(name, about string) param {
	return param{name: name, schema: object{"type": "string"}, description: about}
}

// seconds is a parameter that is a number of seconds, or a duration.
func seconds(name, about string) param {
	return param{name: name, schema: object{"oneOf": []object{{"type": "integer", "minimum": 0}, {"type": "string"}}}, description: about}
}

func number(name, about string) param {
	return param{name: name, schema: object{"type": "integer", "minimum": 0}, description: about}
}

// idSchema is the schema of an id.
func idSchema() object { return object{"type": "string", "pattern": tokenPattern} }

// routes returns the rows of the table of operations with an HTTP path.
func routes() []route {
	list := []route{{
		name: "document", summary: "This document", method: http.MethodGet, path: "/v1/openapi.json",
		responses: response[map[string]any](http.StatusOK), handle: getDocument,
	}}
	own := ownRoutes()
	for _, row := range operation.All() {
		if row.Route != "" {
			list = append(list, own[row].of(row))
		}
	}
	return list
}

// ownRoutes has what the rows do not say: forms, parameters, and handlers of their own. A row whose JSON is that of its Go types is
// not here.
func ownRoutes() map[*operation.Row]route {
	ended := map[int]reflect.Type{http.StatusOK: typeOf[api.AssembledTurn](), http.StatusAccepted: typeOf[pendingTurnJSON]()}
	failed := []int{http.StatusUnprocessableEntity}
	return map[*operation.Row]route{
		&operation.Create.Row:            {in: typeOf[newSessionJSON](), out: typeOf[madeJSON](), made: "/v1/sessions/", extraErrors: []int{http.StatusNotFound}},
		&operation.Fork.Row:              {in: typeOf[newSessionJSON](), out: typeOf[madeJSON](), made: "/v1/sessions/"},
		&operation.State.Row:             {out: typeOf[sessionJSON]()},
		operation.Snapshot:               {responses: response[snapshotJSON](http.StatusOK), handle: getSnapshot},
		&operation.Configure.Row:         {request: typeOf[configChangeJSON](), responses: map[int]reflect.Type{http.StatusNoContent: nil}, handle: withBody(configureSession)},
		&operation.CloseSession.Row:      {in: typeOf[closeQuery](), query: []param{text("reason", "kept in the history")}, unknownAllowed: true},
		&operation.ApplyExtension.Row:    {in: typeOf[extensionJSON]()},
		&operation.ReplaceExtensions.Row: {in: typeOf[extensionsJSON]()},
		operation.View: {responses: response[viewJSON](http.StatusOK), handle: getView, query: []param{
			number("at", "sequence of the view, from 1 to that of the last commit; an omitted one is the end. With it the server folds the history from its beginning"),
			number("from", "index of the page's first message; defaults to 0"), number("limit", "largest number of messages; defaults to as many as have 4 MiB"),
			number("last", "the last so many messages, in place of from and limit"),
		}},
		operation.Observe: {
			handle: watchEvents, header: []param{number("Last-Event-ID", "sequence of the last commit received, on a reconnect; takes precedence over cursor")},
			query:  []param{number("cursor", "sequence of the last commit received; defaults to 0: all commits")},
			events: map[string]reflect.Type{"commit": typeOf[commitJSON](), "delta": typeOf[api.Delta](), "gap": typeOf[api.Gap](), "problem": typeOf[problem]()},
		},
		&operation.Sessions.Row: {query: sessionParams(), repeatable: []string{labelParam}},
		&operation.Search.Row:   {query: searchParams(), repeatable: []string{textParam, labelParam}},

		&operation.Submit.Row: {header: []param{preferParam}, query: []param{waitParam}, mayWait: true, request: typeOf[newTurnJSON](), responses: ended, handle: submitTurn},
		operation.Turn:        {header: []param{preferParam}, query: []param{waitParam}, mayWait: true, responses: ended, handle: getTurn},
		&operation.Turns.Row:  {out: typeOf[turnsJSON](), query: []param{limitParam, cursorParam}},
		&operation.Cancel.Row: {in: typeOf[cancelTurnJSON](), out: typeOf[cancelledJSON]()},
		operation.WatchTurn: {
			handle: watchTurn, query: []param{text("as", "activity: events in the form that apps display, with correlation ids; omitted: the events themselves")},
			events: map[string]reflect.Type{"event": typeOf[api.SessionEvent](), "activity": typeOf[api.TurnActivity](), "problem": typeOf[problem]()},
		},
		&operation.Inject.Row: {in: typeOf[newInputJSON](), out: typeOf[madeJSON](), made: "/inputs/"},
		&operation.CancelInputs.Row: {
			responses: response[cancelledInputJSON](http.StatusOK), handle: cancelInput,
			query: []param{{name: "following", schema: object{"type": "boolean"}, description: "true: cancel also all that were injected after it"}},
		},
		&operation.TakeFirstTurnInput.Row: {out: typeOf[firstInputJSON](), unknownAllowed: true},
		&operation.Complete.Row:           {in: typeOf[newCompletionJSON](), out: typeOf[completedJSON](), long: true, extraErrors: failed},
		operation.StreamCompletion: {
			request: typeOf[newCompletionJSON](), handle: streamCompletion, long: true, extraErrors: failed,
			events: map[string]reflect.Type{"delta": typeOf[plugin.CompletionDelta](), "result": typeOf[completedJSON](), "problem": typeOf[problem]()},
		},

		&operation.AppendNodes.Row: {in: typeOf[newNodesJSON]()},
		&operation.BranchTo.Row:    {in: typeOf[branchJSON]()},
		&operation.OpenFrame.Row:   {in: typeOf[newFrameJSON](), out: typeOf[openedJSON]()},
		&operation.Rewrite.Row:     {in: typeOf[rewrittenJSON]()},
		&operation.Compact.Row:     {out: typeOf[openedJSON]()},
		&operation.StoreBlob.Row:   {rawRequest: true, responses: response[blobJSON](http.StatusCreated), handle: storeBlob},
		operation.ReadBlob:         {rawResponse: true, responses: map[int]reflect.Type{http.StatusOK: nil}, handle: getBlob},

		&operation.Approvals.Row:        {out: typeOf[approvalsJSON]()},
		&operation.PendingApprovals.Row: {out: typeOf[pendingApprovalsJSON](), query: []param{limitParam, cursorParam}},
		&operation.Approve.Row:          {in: typeOf[answerJSON]()},
		&operation.ResolveTool.Row:      {in: typeOf[callResultJSON]()},
		&operation.ToolOutput.Row: {responses: response[callOutputJSON](http.StatusOK), handle: getOutput, query: []param{{
			name: "call", schema: object{"type": "string"}, required: true,
			description: "id of a call that has returned, TURN/ITERATION/INDEX: iterations of the turn and calls of one reply, both from 0",
		}}},
		&operation.ToolState.Row:            {out: typeOf[toolsJSON]()},
		&operation.ApplyToolState.Row:       {in: typeOf[toolsJSON](), out: typeOf[generationJSON]()},
		&operation.SetToolsAvailability.Row: {out: typeOf[generationJSON]()},
		&operation.ToolCatalog.Row:          {out: typeOf[toolCatalogJSON]()},
		&operation.ToolSources.Row:          {out: typeOf[toolSourcesJSON]()},
		&operation.AddToolSource.Row:        {in: typeOf[toolSourcePath](), out: typeOf[generationJSON]()},
		&operation.RemoveToolSource.Row:     {in: typeOf[toolSourcePath](), out: typeOf[generationJSON]()},
		&operation.RefreshCatalog.Row:       {out: typeOf[generationJSON]()},
		&operation.ExternalPlugins.Row:      {out: typeOf[externalPluginsJSON]()},
		&operation.Actions.Row:              {out: typeOf[actionsJSON]()},
		&operation.InvokeAction.Row:         {out: typeOf[actionResultJSON](), long: true, extraErrors: failed},

		&operation.Tasks.Row:              {out: typeOf[tasksJSON](), unknownAllowed: true},
		&operation.Task.Row:               {in: typeOf[taskPath](), out: typeOf[taskJSON]()},
		&operation.RegisterTask.Row:       {in: typeOf[newTaskJSON](), out: typeOf[taskJSON](), made: "/tasks/"},
		&operation.ProgressTask.Row:       {out: typeOf[taskJSON]()},
		&operation.EndOwnTask.Row:         {in: typeOf[taskEndJSON](), out: typeOf[taskJSON]()},
		&operation.TransitionOwnTask.Row:  {in: typeOf[taskMoveJSON](), out: typeOf[taskJSON]()},
		&operation.UnregisterOwnTask.Row:  {in: typeOf[taskPath]()},
		&operation.RequestCancelTask.Row:  {out: typeOf[taskJSON]()},
		&operation.CancelTask.Row:         {in: typeOf[taskPath](), out: typeOf[taskJSON]()},
		&operation.CancelTasks.Row:        {in: typeOf[cancelTasksJSON](), out: typeOf[cancelledTasksJSON]()},
		&operation.MonitorSnapshot.Row:    {out: typeOf[monitorsJSON]()},
		&operation.StartMonitor.Row:       {in: typeOf[monitorSpecJSON]()},
		&operation.StopMonitor.Row:        {in: typeOf[monitorPath]()},
		&operation.TakeMonitorUpdates.Row: {responses: response[api.MonitorUpdates](http.StatusOK), handle: takeUpdates},
	}
}

// sessionParams are the parameters of the list of sessions.
func sessionParams() []param {
	from, to := "earliest time, in milliseconds since 1970", "end of the range, exclusive, in milliseconds since 1970"
	return []param{
		{name: "status", schema: object{"type": "string", "enum": words()[typeOf[projector.Status]()]}, description: "status of the sessions; defaults to opening, open and closed"},
		{name: labelParam, schema: object{"type": "array", "items": object{"type": "string"}}, description: "NAME=VALUE, a label of the sessions; at most " + strconv.Itoa(api.MaxQueryLabels) + " times"},
		{name: "parent", schema: idSchema(), description: "id of the parent session"},
		text("owner", "name of the caller that owns the sessions"),
		number("created_from_ms", from),
		number("created_to_ms", to),
		number("updated_from_ms", from),
		number("updated_to_ms", to),
		limitParam, cursorParam,
	}
}
