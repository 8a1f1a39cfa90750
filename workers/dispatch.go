package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// dispatch runs one tool call: catalogue, arguments, attempts, panics.
type dispatch struct {
	w        *Worker
	session  events.SessionID
	turn     events.TurnID
	call     turn.Call
	tools    *plugin.Tools
	callable bool // as the session's catalogue says
}

// run answers the result, or nil when it was cancelled before there was one.
func (d *dispatch) run(ctx context.Context) *events.ToolResult {
	began := time.Now()
	result, attempts, err := d.execute(ctx)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // whoever cancelled records it
		}
		failure := asFailure(err)
		result = plugin.Result{Outcome: events.OutcomeFailure, Text: "[failed] " + failure.Message}
		return d.result(result, failure, attempts, began)
	}
	return d.result(result, &plugin.Failure{}, attempts, began)
}

func (d *dispatch) result(r plugin.Result, f *plugin.Failure, attempts int, began time.Time) *events.ToolResult {
	return &events.ToolResult{
		Call: d.call.Index, Outcome: r.Outcome, Text: strings.ToValidUTF8(r.Text, "\uFFFD"), Attachments: r.Attachments, Control: r.Control,
		Class: f.Class, Code: f.Code, Attempts: manyOnly(max(attempts, 1)), Millis: time.Since(began).Milliseconds(),
	}
}

// asFailure gives an error that says nothing of itself the usual class.
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

func (d *dispatch) execute(ctx context.Context) (plugin.Result, int, error) {
	tool, ok := d.tools.Find(d.call.Tool)
	if !ok || !d.callable {
		return plugin.Result{}, 0, &plugin.Failure{
			Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
			Message: fmt.Sprintf("tool %q is not available in this session", d.call.Tool),
		}
	}
	args := d.call.Args
	if !d.call.Blob.IsZero() {
		var err error
		if args, err = d.w.blobs.Blob(ctx, d.call.Blob); err != nil {
			return plugin.Result{}, 0, err
		}
	}
	checked, err := tool.Check(args)
	if err != nil {
		return plugin.Result{}, 0, err
	}
	return d.attempts(ctx, tool, checked)
}

func (d *dispatch) attempts(ctx context.Context, tool *plugin.Registered, args []byte) (plugin.Result, int, error) {
	call := plugin.Call{
		Session: d.session, Turn: d.turn, Effect: d.call.Effect, ID: d.call.ID,
		// The effect stands where the design's sources have the call's id: models reuse those.
		Key: fmt.Sprintf("lash-tool:%s:%s:%s", d.session, d.call.Effect, d.call.Tool),
	}
	for n := 1; ; n++ {
		call.Attempt = n
		result, err := d.once(ctx, tool, call, args)
		var failure *plugin.Failure
		if err == nil || ctx.Err() != nil || n >= tool.Retry.Attempts || !errors.As(err, &failure) || !failure.Safe {
			return result, n, err
		}
		if !sleep(ctx, retryWait(tool.Retry, failure, n)) {
			return result, n, context.Canceled
		}
	}
}

// retryWait is the wait after try n, from 1.
func retryWait(policy plugin.Retry, failure *plugin.Failure, n int) time.Duration {
	wait := policy.Base << (n - 1)
	if failure.After > 0 {
		wait = failure.After
	}
	if policy.Max > 0 {
		wait = min(wait, policy.Max)
	}
	return wait
}

// once contains the tool: its panic, its time.
func (d *dispatch) once(ctx context.Context, tool *plugin.Registered, call plugin.Call, args []byte) (result plugin.Result, err error) {
	if tool.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tool.Timeout)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			d.w.log.Error("tool panicked", zap.String("session", string(call.Session)), zap.String("call", string(call.Effect)), zap.ByteString("stack", debug.Stack()))
			err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("tool panicked: %v", p)}
		}
	}()
	return tool.Handler(ctx, call, args)
}
