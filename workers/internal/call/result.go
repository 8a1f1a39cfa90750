package call

import (
	"context"
	"errors"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// resultOf is the result of a tool, or of a hook in its place, as it is recorded.
func resultOf(index int64, r plugin.Result) events.ToolResult {
	return events.ToolResult{
		Call: index, Outcome: r.Outcome, Text: strings.ToValidUTF8(r.Text, "\uFFFD"), Attachments: r.Attachments,
		Control: r.Control, Switch: r.Switch, Class: Clip(r.Class), Code: Clip(r.Code),
	}
}

// pluginResult is the inverse of [resultOf]. A text in a blob stays there.
func pluginResult(r *events.ToolResult) plugin.Result {
	return plugin.Result{
		Text: r.Text, Attachments: r.Attachments, Outcome: r.Outcome, Control: r.Control, Switch: r.Switch, Class: r.Class, Code: r.Code,
	}
}

// Failed is the result of a call that fails.
func Failed(index int64, class, code string, err error) events.ToolResult {
	return events.ToolResult{Call: index, Outcome: events.OutcomeFailure, Class: class, Code: code, Text: "[failed] " + Clip(err.Error())}
}

// failureOf is the result of a tool that returned an error.
func failureOf(err error) plugin.Result {
	failure := asFailure(err)
	return plugin.Result{Outcome: events.OutcomeFailure, Text: "[failed] " + failure.Message, Class: failure.Class, Code: failure.Code}
}

// asFailure gives an error that is no [*plugin.Failure] the class that fits.
func asFailure(err error) *plugin.Failure {
	var f *plugin.Failure
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, context.DeadlineExceeded):
		return &plugin.Failure{Class: plugin.ClassTimeout, Code: "tool_timeout", Message: err.Error()}
	}
	return &plugin.Failure{Class: plugin.ClassExecution, Message: err.Error()}
}
