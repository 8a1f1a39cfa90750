package external

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/result"
)

func unavailable(name string) *plugin.Failure {
	return &plugin.Failure{
		Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
		Message: fmt.Sprintf("no instance of plugin %s runs: the call did not start", name),
	}
}

// broken is the failure of a call whose instance broke the protocol.
func (o *instanceCall) broken(err error) error {
	return &plugin.Failure{Class: plugin.ClassInternal, Code: codeInvalid, Message: result.Clip(fmt.Sprintf("plugin %s returned an invalid outcome: %v", o.plugin, err))}
}

// late is the result of a call whose turn was cancelled, or whose time is over. A tool that returned within the grace
// as if nothing had happened keeps its result.
func (o *instanceCall) late(ctx context.Context, outcome *wire.Outcome, err error) (plugin.Result, error) {
	text, timeout := "", context.Cause(ctx) == context.DeadlineExceeded //nolint:errorlint // see ended
	switch {
	case !ended(ctx):
		return plugin.Result{}, context.Cause(ctx) // the next node joins
	case outcome != nil && !outcome.Cancelled:
		return result.Of(outcome)
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
		r.Attachments = result.Parts(outcome.Attachments)
	}
	return r, nil
}
