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
	waitParam   = seconds("wait", "how long to wait for the turn's end, in seconds or as 1m30s; a caller that may not read the session gets 202 at once")
	preferParam = text("Prefer", "wait=SECONDS is the same as the parameter wait")
	keyParam    = param{name: keyHeader, schema: idSchema(), about: "the same request again, with the same key, is done once, and another one with it refused; it is the id of a session, turn or input that is made"}
	limitParam  = param{name: "limit", schema: object{"type": "integer", "minimum": 1, "maximum": api.MaxPage}, about: "entries of the page, 1 to " + strconv.Itoa(api.MaxPage) + "; defaults to " + strconv.Itoa(api.DefaultPage)}
	cursorParam = text("cursor", "next of the page before; opaque")
)

const labelParam = "label"

func text(name, about string) param {
	return param{name: name, schema: object{"type": "string"}, about: about}
}

// seconds is a parameter that is a number of seconds, or a duration.
func seconds(name, about string) param {
	return param{name: name, schema: object{"oneOf": []object{{"type": "integer", "minimum": 0}, {"type": "string"}}}, about: about}
}

func number(name, about string) param {
	return param{name: name, schema: object{"type": "integer", "minimum": 0}, about: about}
}

// idSchema is the schema of an id.
func idSchema() object { return object{"type": "string", "pattern": tokenPattern} }

// routes returns the rows of the table of operations with an HTTP path. A row whose JSON differs from its Go types is
// one of [ownRoutes]. The others are [plain].
func routes() []route {
	document := route{
		name: "document", summary: "This document", method: http.MethodGet, path: "/v1/openapi.json",
		answers: ok[map[string]any](http.StatusOK), handle: getDocument,
	}
	return slices.Concat([]route{document}, ownRoutes(), plainRoutes())
}

func ownRoutes() []route {
	return slices.Concat(sessionRoutes(), turnRoutes(), graphRoutes(), toolRoutes(), taskRoutes())
}

// plainRoutes returns the routes of the rows without one of [ownRoutes].
func plainRoutes() (list []route) {
	own, named := ownRoutes(), operation.Named()
	for _, row := range operation.All() {
		if op := named[row.Name]; op != nil && row.Route != "" && !slices.ContainsFunc(own, func(r route) bool { return r.name == row.ID }) {
			list = append(list, plain(op))
		}
	}
	return list
}

func sessionRoutes() []route {
	return []route{
		makes(operation.Create, NewSession.args, madeSession, sessionPath).refusing(http.StatusNotFound),
		makes(operation.Fork, NewSession.fork, madeSession, sessionPath),
		bodiless(operation.State, nothing, sessionOf),
		from(&operation.Configure.Row, route{request: of[ConfigChange](), answers: none(), handle: body(configureSession)}),
		empty(operation.Close, (*call).reason).taking(text("reason", "kept in the history")).ofAny(),
		tell(operation.Grant, Grant.args),
		tell(operation.ProtocolOptions, ProtocolOptions.args),
		tell(operation.ApplyExtension, Extension.args),
		tell(operation.ReplaceExtensions, Extensions.args),
		from(operation.View, route{answers: ok[View](http.StatusOK), handle: getView}).
			taking(number("at", "sequence up to which the history counts, or its end where that comes before; defaults to the end. It costs a fold from the beginning")),
		from(operation.Observe, route{handle: watchEvents, header: []param{number("Last-Event-ID", "likewise, of a reconnect: it wins")}}).
			taking(number("cursor", "sequence of the last commit seen, of a first connect; defaults to 0")).refusing(http.StatusConflict).
			streaming(map[string]reflect.Type{"commit": of[Commit](), "delta": of[Delta](), "gap": of[Gap](), "problem": of[problem]()}),
		bodiless(operation.Sessions, (*call).sessionQuery, sessions).taking(sessionParams()...).repeating(labelParam),
	}
}

// sessionParams are the parameters of the list of sessions.
func sessionParams() []param {
	from, to := "in milliseconds since 1970: not before", "in milliseconds since 1970: before"
	return []param{
		{name: "status", schema: object{"type": "string", "enum": words()[of[projector.Status]()]}, about: "defaults to opening, open and closed"},
		{name: labelParam, schema: object{"type": "array", "items": object{"type": "string"}}, about: "NAME=VALUE, a label that the session has; may be given up to " + strconv.Itoa(api.MaxQueryLabels) + " times"},
		{name: "parent", schema: idSchema(), about: "session"},
		text("owner", "caller"),
		number("created_from_ms", from),
		number("created_to_ms", to),
		number("updated_from_ms", from),
		number("updated_to_ms", to),
		limitParam, cursorParam,
	}
}

func turnRoutes() []route {
	ended := map[int]reflect.Type{http.StatusOK: of[api.AssembledTurn](), http.StatusAccepted: of[PendingTurn]()}
	return []route{
		from(&operation.Submit.Row, route{header: []param{preferParam}, held: true, request: of[NewTurn](), answers: ended, handle: body(submitTurn)}).taking(waitParam),
		from(operation.Turn, route{header: []param{preferParam}, held: true, answers: ended, handle: getTurn}).taking(waitParam),
		bodiless(operation.Turns, (*call).page, turns).taking(limitParam, cursorParam),
		ask(operation.Cancel, CancelTurn.args, cancelled),
		from(operation.WatchTurn, route{handle: watchTurn}).
			taking(text("as", "activity: as an app shows them, with correlation ids; left out: the events themselves")).
			streaming(map[string]reflect.Type{"event": of[api.SessionEvent](), "activity": of[api.TurnActivity](), "problem": of[problem]()}),
		makes(operation.Inject, NewInput.args, madeInput, inputPath),
		from(&operation.CancelInputs.Row, route{answers: ok[CancelledInput](http.StatusOK), handle: cancelInput}).taking(param{name: "following", schema: object{"type": "boolean"}, about: "with all that were injected after it"}),
		bodiless(operation.TakeFirstInput, nothing, firstInput).ofAny(),
		ask(operation.Complete, NewCompletion.args, completed).slow().refusing(http.StatusUnprocessableEntity),
		from(operation.StreamCompletion, route{request: of[NewCompletion](), handle: body(streamCompletion)}).slow().refusing(http.StatusUnprocessableEntity).
			streaming(map[string]reflect.Type{"delta": of[CompletionDelta](), "result": of[Completed](), "problem": of[problem]()}),
	}
}

func graphRoutes() []route {
	return []route{
		ask(operation.AppendNodes, NewNodes.args, appended),
		tell(operation.Branch, Branch.args),
		ask(operation.OpenFrame, NewFrame.args, opened),
		tell(operation.Rewrite, Rewritten.args),
		bodiless(operation.Compact, nothing, opened),
		from(&operation.PutBlob.Row, route{given: true, answers: ok[Blob](http.StatusCreated), handle: storeBlob}),
		from(operation.ReadBlob, route{gives: true, answers: map[int]reflect.Type{http.StatusOK: nil}, handle: getBlob}),
	}
}

func toolRoutes() []route {
	return []route{
		bodiless(operation.Approvals, nothing, approvals),
		bodiless(operation.PendingApprovals, (*call).page, pendingApprovals).taking(limitParam, cursorParam),
		tell(operation.Approve, Answer.args),
		tell(operation.ResolveTool, CallResult.args),
		outputRoute(),
		bodiless(operation.ToolState, nothing, tools),
		ask(operation.ApplyToolState, Tools.args, generation),
		ask(operation.SetAvailability, ToolLevel.args, generation),
		bodiless(operation.ToolCatalog, nothing, toolCatalog),
		bodiless(operation.ToolSources, nothing, toolSources),
		bodiless(operation.AddToolSource, always((*call).source), generation),
		bodiless(operation.RemoveToolSource, always((*call).source), generation),
		bodiless(operation.RefreshCatalog, nothing, generation),
		bodiless(operation.Actions, nothing, actions),
		ask(operation.InvokeAction, Invocation.args, actionResult).slow().refusing(http.StatusUnprocessableEntity),
	}
}

func taskRoutes() []route {
	return []route{
		bodiless(operation.Tasks, nothing, tasks).ofAny(),
		bodiless(operation.Task, always((*call).task), taskOf),
		makes(operation.RegisterTask, NewTask.args, taskOf, taskPath),
		ask(operation.ProgressTask, TaskProgress.args, taskOf),
		ask(operation.EndTask, TaskEnd.args, taskOf),
		ask(operation.RequestCancel, StopTask.args, taskOf),
		bodiless(operation.CancelTask, always((*call).task), taskOf),
		ask(operation.CancelTasks, CancelTasks.args, cancelledTasks),
		tell(operation.TransferTasks, TransferTasks.args),
		bodiless(operation.MonitorSnapshot, nothing, monitors),
		tell(operation.StartMonitor, MonitorSpec.args),
		empty(operation.StopMonitor, (*call).monitor),
		from(&operation.TakeUpdates.Row, route{answers: ok[MonitorUpdates](http.StatusOK), handle: takeUpdates}),
	}
}

// outputRoute responds with the call and its output.
func outputRoute() route {
	r := bound(operation.ToolOutput, (*call).outputOf, func(c *call, text string) reply {
		name, _ := c.outputOf()
		return reply{status: http.StatusOK, body: CallOutput{Call: name, Output: text}}
	})
	r.answers = ok[CallOutput](http.StatusOK)
	return r.taking(param{name: "call", schema: text("", "").schema, about: "a call that has returned, TURN/ITERATION/INDEX as an approval names it: indexes count the calls of one reply, both from 0", needed: true})
}
