package httpapi

import (
	"net/http"

	"github.com/lash-go/lash/session/api"
)

func outsideRoutes(session string) []route {
	return append([]route{
		{
			name: "rewriteMessages", summary: "Make the conversation's messages equal to these, on a new branch", method: http.MethodPut, path: session + "/messages", needs: api.OpRewrite.Needs(),
			request: of[Rewritten](), answers: none(), handle: body(rewriteMessages),
		},
		{
			name: "takeFirstInput", summary: "Take the first turn's input, which is there once; of no session there is none", method: http.MethodPost, path: session + "/first-input", needs: api.OpTakeFirstInput.Needs(),
			answers: ok[FirstInput](http.StatusOK), lenient: true, handle: takeFirstInput,
		},
		{
			name: "setProtocolOptions", summary: "Set the protocol's options for turns", method: http.MethodPut, path: session + "/options", needs: api.OpProtocolOptions.Needs(),
			request: of[ProtocolOptions](), answers: none(), handle: body(setProtocolOptions),
		},
		{
			name: "applyExtension", summary: "Hand the protocol an object of its own", method: http.MethodPost, path: session + "/extensions", needs: api.OpApplyExtension.Needs(),
			request: of[Extension](), answers: none(), handle: body(applyExtension),
		},
		{
			name: "getToolCatalog", summary: "The tools that a model can search", method: http.MethodGet, path: session + "/tools/catalog", needs: api.OpToolCatalog.Needs(),
			answers: ok[ToolCatalog](http.StatusOK), handle: getToolCatalog,
		},
		{
			name: "applyTools", summary: "Replace the tools, as of the generation that they were read at; those left out are off", method: http.MethodPut, path: session + "/tools", needs: api.OpApplyToolState.Needs(),
			request: of[Tools](), answers: ok[Generation](http.StatusOK), handle: body(applyTools),
		},
		{
			name: "getActions", summary: "What plugins offer", method: http.MethodGet, path: session + "/actions", needs: api.OpActions.Needs(),
			answers: ok[Actions](http.StatusOK), handle: getActions,
		},
		{
			name: "invokeAction", summary: "Ask a plugin for an action, however long that takes. A key whose action was done gives 504: results are not kept", method: http.MethodPost,
			path: session + "/actions", needs: api.OpInvokeAction.Needs(), long: true, refuses: []int{http.StatusUnprocessableEntity}, request: of[Invocation](), answers: ok[ActionResult](http.StatusOK), handle: body(invokeAction),
		},
		{
			name: "complete", summary: "Ask the session's model outside of turns, however long that takes; with a key it is paid for once", method: http.MethodPost, path: session + "/completions",
			needs: api.OpComplete.Needs(), long: true, refuses: []int{http.StatusUnprocessableEntity}, request: of[NewCompletion](), answers: ok[Completed](http.StatusOK), handle: body(complete),
		},
	}, outsideTaskRoutes(session+"/tasks")...)
}

func outsideTaskRoutes(tasks string) []route {
	return []route{
		{
			name: "registerTask", summary: "Register a task that the caller's own program runs", method: http.MethodPut, path: tasks + "/{task}", needs: api.OpRegisterTask.Needs(),
			request: of[NewTask](), answers: ok[Task](http.StatusCreated), handle: body(registerTask),
		},
		{
			name: "progressTask", summary: "Say how such a task goes; the answer tells whether it should stop", method: http.MethodPost, path: tasks + "/{task}/progress", needs: api.OpProgressTask.Needs(),
			request: of[TaskProgress](), answers: ok[Task](http.StatusOK), handle: body(progressTask),
		},
		{
			name: "endTask", summary: "Say how such a task ended", method: http.MethodPost, path: tasks + "/{task}/end", needs: api.OpEndTask.Needs(),
			request: of[TaskEnd](), answers: ok[Task](http.StatusOK), handle: body(endTask),
		},
		{
			name: "stopTask", summary: "Ask a background task to stop by itself", method: http.MethodPost, path: tasks + "/{task}/stop", needs: api.OpRequestCancel.Needs(),
			request: of[StopTask](), answers: ok[Task](http.StatusOK), handle: body(stopTask),
		},
		{
			name: "cancelTasks", summary: "Cancel all background tasks", method: http.MethodPost, path: tasks + "/cancel", needs: api.OpCancelTasks.Needs(),
			request: of[CancelTasks](), answers: ok[CancelledTasks](http.StatusOK), handle: body(cancelTasks),
		},
		{
			name: "transferTasks", summary: "Move background tasks to another session", method: http.MethodPost, path: tasks + "/transfer", needs: api.OpTransferTasks.Needs(),
			request: of[TransferTasks](), answers: none(), handle: body(transferTasks),
		},
	}
}
