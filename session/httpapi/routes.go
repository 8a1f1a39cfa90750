package httpapi

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"

	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
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

// routes returns the rows of the table of operations with an HTTP path. A row whose JSON differs from its Go types is
// one of [ownRoutes]. The others are [plain].
func routes() []route {
	document := route{
		name: "document", summary: "This document", method: http.MethodGet, path: "/v1/openapi.json",
		responses: response[map[string]any](http.StatusOK), handle: getDocument,
	}
	return slices.Concat([]route{document}, ownRoutes(), jsonRoutes())
}

func ownRoutes() []route {
	return slices.Concat(sessionRoutes(), turnRoutes(), graphRoutes(), toolRoutes(), taskRoutes())
}

// jsonRoutes returns the routes of the rows without one of [ownRoutes].
func jsonRoutes() (list []route) {
	own, named := ownRoutes(), operation.Named()
	for _, row := range operation.All() {
		if op := named[row.Name]; op != nil && row.Route != "" && !slices.ContainsFunc(own, func(r route) bool { return r.name == row.ID }) {
			list = append(list, jsonRoute(op))
		}
	}
	return list
}

func sessionRoutes() []route {
	return []route{
		createRoute(operation.Create, newSessionJSON.args, madeSession, sessionPath).withErrors(http.StatusNotFound),
		createRoute(operation.Fork, newSessionJSON.fork, madeSession, sessionPath),
		plainRoute(operation.State, noArgs, sessionOf),
		fromRow(operation.Snapshot, route{responses: response[snapshotJSON](http.StatusOK), handle: getSnapshot}),
		fromRow(&operation.Configure.Row, route{request: typeOf[configChangeJSON](), responses: noContent(), handle: withBody(configureSession)}),
		plainRouteNoReply(operation.CloseSession, (*httpRequest).reason).withQuery(text("reason", "kept in the history")).allowUnknown(),
		bodyRouteNoReply(operation.Grant, grantJSON.args),
		bodyRouteNoReply(operation.SetProtocolOptions, protocolOptionsJSON.args),
		bodyRouteNoReply(operation.ApplyExtension, extensionJSON.args),
		bodyRouteNoReply(operation.ReplaceExtensions, extensionsJSON.args),
		fromRow(operation.View, route{responses: response[viewJSON](http.StatusOK), handle: getView}).
			withQuery(number("at", "sequence of the view, from 1 to that of the last commit; an omitted one is the end. With it the server folds the history from its beginning"),
				number("from", "index of the page's first message; defaults to 0"), number("limit", "largest number of messages; defaults to as many as have 4 MiB"),
				number("last", "the last so many messages, in place of from and limit")),
		fromRow(operation.Observe, route{handle: watchEvents, header: []param{number("Last-Event-ID", "sequence of the last commit received, on a reconnect; takes precedence over cursor")}}).
			withQuery(number("cursor", "sequence of the last commit received; defaults to 0: all commits")).
			withEvents(map[string]reflect.Type{"commit": typeOf[commitJSON](), "delta": typeOf[deltaJSON](), "gap": typeOf[gapJSON](), "problem": typeOf[problem]()}),
		plainRoute(operation.Sessions, (*httpRequest).sessionQuery, sessions).withQuery(sessionParams()...).withRepeated(labelParam),
		plainRoute(operation.Search, (*httpRequest).searchQuery, searched).withQuery(searchParams()...).withRepeated(textParam, labelParam),
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

func turnRoutes() []route {
	ended := map[int]reflect.Type{http.StatusOK: typeOf[api.AssembledTurn](), http.StatusAccepted: typeOf[pendingTurnJSON]()}
	return []route{
		fromRow(&operation.Submit.Row, route{header: []param{preferParam}, mayWait: true, request: typeOf[newTurnJSON](), responses: ended, handle: withBody(submitTurn)}).withQuery(waitParam),
		fromRow(operation.Turn, route{header: []param{preferParam}, mayWait: true, responses: ended, handle: getTurn}).withQuery(waitParam),
		plainRoute(operation.Turns, (*httpRequest).page, turns).withQuery(limitParam, cursorParam),
		bodyRoute(operation.Cancel, cancelTurnJSON.args, cancelled),
		fromRow(operation.WatchTurn, route{handle: watchTurn}).
			withQuery(text("as", "activity: events in the form that apps display, with correlation ids; omitted: the events themselves")).
			withEvents(map[string]reflect.Type{"event": typeOf[api.SessionEvent](), "activity": typeOf[api.TurnActivity](), "problem": typeOf[problem]()}),
		createRoute(operation.Inject, newInputJSON.args, madeInput, inputPath),
		fromRow(&operation.CancelInputs.Row, route{responses: response[cancelledInputJSON](http.StatusOK), handle: cancelInput}).withQuery(param{name: "following", schema: object{"type": "boolean"}, description: "true: cancel also all that were injected after it"}),
		plainRoute(operation.TakeFirstTurnInput, noArgs, firstInput).allowUnknown(),
		bodyRoute(operation.Complete, newCompletionJSON.args, completed).takesLong().withErrors(http.StatusUnprocessableEntity),
		fromRow(operation.StreamCompletion, route{request: typeOf[newCompletionJSON](), handle: withBody(streamCompletion)}).takesLong().withErrors(http.StatusUnprocessableEntity).
			withEvents(map[string]reflect.Type{"delta": typeOf[completionDeltaJSON](), "result": typeOf[completedJSON](), "problem": typeOf[problem]()}),
	}
}

func graphRoutes() []route {
	return []route{
		bodyRoute(operation.AppendNodes, newNodesJSON.args, appended),
		bodyRouteNoReply(operation.BranchTo, branchJSON.args),
		bodyRoute(operation.OpenFrame, newFrameJSON.args, opened),
		bodyRouteNoReply(operation.Rewrite, rewrittenJSON.args),
		plainRoute(operation.Compact, noArgs, opened),
		fromRow(&operation.StoreBlob.Row, route{rawRequest: true, responses: response[blobJSON](http.StatusCreated), handle: storeBlob}),
		fromRow(operation.ReadBlob, route{rawResponse: true, responses: map[int]reflect.Type{http.StatusOK: nil}, handle: getBlob}),
	}
}

func toolRoutes() []route {
	return []route{
		plainRoute(operation.Approvals, noArgs, approvals),
		plainRoute(operation.PendingApprovals, (*httpRequest).page, pendingApprovals).withQuery(limitParam, cursorParam),
		bodyRouteNoReply(operation.Approve, answerJSON.args),
		bodyRouteNoReply(operation.ResolveTool, callResultJSON.args),
		outputRoute(),
		plainRoute(operation.ToolState, noArgs, tools),
		bodyRoute(operation.ApplyToolState, toolsJSON.args, generation),
		bodyRoute(operation.SetToolsAvailability, toolLevelJSON.args, generation),
		plainRoute(operation.ToolCatalog, noArgs, toolCatalog),
		plainRoute(operation.ToolSources, noArgs, toolSources),
		plainRoute(operation.AddToolSource, infallible((*httpRequest).source), generation),
		plainRoute(operation.RemoveToolSource, infallible((*httpRequest).source), generation),
		plainRoute(operation.RefreshCatalog, noArgs, generation),
		plainRoute(operation.ExternalPlugins, noArgs, externalPlugins),
		plainRoute(operation.Actions, noArgs, actions),
		bodyRoute(operation.InvokeAction, invocationJSON.args, actionResult).takesLong().withErrors(http.StatusUnprocessableEntity),
	}
}

func taskRoutes() []route {
	return []route{
		plainRoute(operation.Tasks, noArgs, tasks).allowUnknown(),
		plainRoute(operation.Task, infallible((*httpRequest).task), taskOf),
		createRoute(operation.RegisterTask, newTaskJSON.args, taskOf, taskPath),
		bodyRoute(operation.ProgressTask, taskProgressJSON.args, taskOf),
		bodyRoute(operation.EndOwnTask, taskEndJSON.args, taskOf),
		bodyRoute(operation.TransitionOwnTask, taskMoveJSON.args, taskOf),
		plainRouteNoReply(operation.UnregisterOwnTask, (*httpRequest).task),
		bodyRoute(operation.RequestCancelTask, stopTaskJSON.args, taskOf),
		plainRoute(operation.CancelTask, infallible((*httpRequest).task), taskOf),
		bodyRoute(operation.CancelTasks, cancelTasksJSON.args, cancelledTasks),
		bodyRouteNoReply(operation.TransferTasks, transferTasksJSON.args),
		plainRoute(operation.MonitorSnapshot, noArgs, monitors),
		bodyRouteNoReply(operation.StartMonitor, monitorSpecJSON.args),
		plainRouteNoReply(operation.StopMonitor, (*httpRequest).monitor),
		fromRow(&operation.TakeMonitorUpdates.Row, route{responses: response[monitorUpdatesJSON](http.StatusOK), handle: takeUpdates}),
	}
}

// outputRoute responds with the call and its output.
func outputRoute() route {
	r := operationRoute(operation.ToolOutput, (*httpRequest).outputOf, func(c *httpRequest, text string) reply {
		name, _ := c.outputOf()
		return reply{status: http.StatusOK, body: callOutputJSON{Call: name, Output: text}}
	})
	r.responses = response[callOutputJSON](http.StatusOK)
	return r.withQuery(param{name: "call", schema: text("", "").schema, description: "id of a call that has returned, TURN/ITERATION/INDEX: iterations of the turn and calls of one reply, both from 0", required: true})
}
