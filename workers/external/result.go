package external

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

func unavailable(name string) *plugin.Failure {
	return &plugin.Failure{
		Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
		Message: fmt.Sprintf("no instance of plugin %s runs: the call did not start", name),
	}
}

// broken is the failure of a call whose instance broke the protocol.
func (o *instanceCall) broken(err error) error {
	return &plugin.Failure{Class: plugin.ClassInternal, Code: codeInvalid, Message: clip(fmt.Sprintf("plugin %s returned an invalid outcome: %v", o.plugin, err))}
}

func clip(s string) string { return events.Clip(strings.ToValidUTF8(s, "?"), 1<<10, "...") }

// result is the tool's result of an outcome.
func result(o *wire.Outcome) (plugin.Result, error) {
	if f := o.Failure; f != nil {
		return plugin.Result{}, &plugin.Failure{Class: cmp.Or(f.Class, plugin.ClassExecution), Code: f.Code, Message: f.Message, Safe: f.Safe}
	}
	r := plugin.Result{Text: o.Text, Attachments: parts(o.Attachments), Control: o.Control, Emit: o.Emit}
	if o.Cancelled { // by itself, as when the instance stops
		r.Outcome, r.Control, r.Emit = events.OutcomeCancelled, "", nil
	}
	return r, nil
}

// late is the result of a call whose turn was cancelled, or whose time is over. A tool that returned within the grace
// as if nothing had happened keeps its result.
func (o *instanceCall) late(ctx context.Context, outcome *wire.Outcome, err error) (plugin.Result, error) {
	text, timeout := "", context.Cause(ctx) == context.DeadlineExceeded //nolint:errorlint // see ended
	switch {
	case !ended(ctx):
		return plugin.Result{}, context.Cause(ctx) // the next node joins
	case outcome != nil && !outcome.Cancelled:
		return result(outcome)
	case outcome != nil && outcome.Failure != nil:
		text = outcome.Failure.Message
	case outcome != nil:
		text = outcome.Text
	case errors.Is(err, errForced):
		text = fmt.Sprintf("[cancelled] The tool did not stop within %v. It may still have effects.", o.p.grace)
	default:
		text = "[cancelled] " + err.Error()
	}
	if timeout {
		return plugin.Result{}, &plugin.Failure{Class: plugin.ClassTimeout, Code: "tool_timeout", Message: strings.TrimSpace("the time of the tool is over\n" + text)}
	}
	r := plugin.Result{Outcome: events.OutcomeCancelled, Text: text}
	if outcome != nil {
		r.Attachments = parts(outcome.Attachments)
	}
	return r, nil
}
