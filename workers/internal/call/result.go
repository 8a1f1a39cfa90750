package call

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// resultOf converts the result of a tool, or of a hook that replaces it, to its recorded form.
func resultOf(index int64, r plugin.Result) events.ToolResult {
	return bounded(events.ToolResult{
		Call: index, Outcome: r.Outcome, Text: strings.ToValidUTF8(r.Text, "\uFFFD"), Attachments: r.Attachments,
		Control: r.Control, Switch: r.Switch, Class: clip(r.Class), Code: clip(r.Code),
	})
}

// pluginResult is the inverse of [resultOf].
func pluginResult(r *events.ToolResult) plugin.Result {
	return plugin.Result{
		Text: r.Text, Attachments: r.Attachments, Outcome: r.Outcome, Control: r.Control, Switch: r.Switch, Class: r.Class, Code: r.Code,
	}
}

// Failed is the result of a call that fails.
func Failed(index int64, class, code string, err error) events.ToolResult {
	return events.ToolResult{Call: index, Outcome: events.OutcomeFailure, Class: class, Code: code, Text: "[failed] " + clip(err.Error())}
}

// failureOf is the result of a tool that returned an error.
func failureOf(err error) plugin.Result {
	failure := asFailure(err)
	return plugin.Result{Outcome: events.OutcomeFailure, Text: "[failed] " + failure.Message, Class: failure.Class, Code: failure.Code}
}

// asFailure returns an error that is not a [*plugin.Failure] as one of the matching class.
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

// codeResultTooLarge is the code of a call whose result has a body that is too large to store.
const codeResultTooLarge = "tool_result_too_large"

// bounded returns a result whose bodies can be stored outside the log: the result itself, or the failure of its call
// where a body is larger than [events.MaxBlobBytes]. The commit of such a result would fail at every try, and a tool
// that may run twice would run again each time.
func bounded(r events.ToolResult) events.ToolResult {
	if err := checkBodies(&r, events.MaxBlobBytes); err != nil {
		return replaced(r, Failed(0, plugin.ClassResourceLimit, codeResultTooLarge, err))
	}
	return r
}

// checkBodies reports the first body of a result that is larger than limit, in bytes.
func checkBodies(r *events.ToolResult, limit int) error {
	list := append([]bodySize{{"text", len(r.Text)}, {"full", len(r.Full)}}, partBodies("attachments", r.Attachments)...)
	list = append(list, partBodies("unseen", r.Unseen)...)
	for i := range r.Switch.Nodes {
		n, field := &r.Switch.Nodes[i], fmt.Sprintf("switch.nodes[%d]", i)
		list = append(list, bodySize{field + ".body", len(n.Body)})
		list = append(list, partBodies(field+".message.parts", n.Message.Parts)...)
	}
	for _, b := range list {
		if b.size > limit {
			return &events.FieldError{Field: b.field, Reason: fmt.Sprintf("has %d bytes, limit is %d", b.size, limit), Err: events.ErrTooLarge}
		}
	}
	return nil
}

// bodySize is a part of a result that may be kept outside the log.
type bodySize struct {
	field string
	size  int // in bytes
}

func partBodies(field string, parts []events.Part) []bodySize {
	list := make([]bodySize, len(parts))
	for i := range parts {
		list[i] = bodySize{fmt.Sprintf("%s[%d]", field, i), max(len(parts[i].Text), len(parts[i].Args))}
	}
	return list
}
