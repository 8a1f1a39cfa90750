package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// dispatch runs one tool call: approval, catalogue, arguments, attempts,
// panics, and the hooks after it (host specification 6.6). The hooks before it
// have run: what they decided is part of the state.
type dispatch struct {
	w        *Worker
	session  events.SessionID
	turn     events.TurnID
	call     turn.Call
	seen     *seen
	stack    *plugin.Session
	tools    *plugin.CatalogEntry
	callable bool // as the session's catalogue says
	facts    func(context.Context, ...events.Payload) error
	beside   []events.Payload // lands with the result
	parked   *parking         // it ended without a result, see [errParked]
	inner    bool             // another call made it: the model does not read its result
	fixed    bool             // a call around it must not run twice
	stopped  *events.Issue    // the turn cannot go on
	unknown  bool             // no such tool is offered
}

// input is what the call came to, for the machine; nil when it was cancelled before there was anything.
func (d *dispatch) input(ctx context.Context, iteration int64) turn.Input {
	result, pending := d.run(ctx)
	switch {
	case pending:
		return turn.Results{Iteration: iteration, Pending: []int64{d.call.Index}, Beside: d.beside}
	case result == nil:
		return nil
	}
	return turn.Results{Iteration: iteration, Results: []events.ToolResult{*result}, Beside: d.beside, Stopped: d.stopped}
}

// run answers the result, or nil when it was cancelled before there was one, or pends.
func (d *dispatch) run(ctx context.Context) (result *events.ToolResult, pending bool) {
	began := time.Now()
	r, args, attempts, err := d.outcome(ctx)
	if d.parked.Load() {
		return nil, false // whoever answers makes it run again
	}
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil, false // whoever cancelled records it
		}
		r = failureOf(err)
	}
	if r.Pending {
		return nil, true
	}
	out := resultOf(d.call.Index, r)
	out.Attempts, out.Millis = manyOnly(max(attempts, 1)), time.Since(began).Milliseconds()
	if d.hooked(err) {
		out = d.after(ctx, args, r, out)
		if ctx.Err() != nil {
			return nil, false
		}
	}
	if out.Control == events.ControlSwitch {
		out = d.switches(ctx, out)
	}
	return &out, false
}

// switches makes a result's frame switch fit for the history, or a failure of one that cannot be.
func (d *dispatch) switches(ctx context.Context, out events.ToolResult) events.ToolResult {
	to, err := d.w.spilled(ctx, out.Switch)
	if err != nil {
		failure := asFailure(err)
		refused := failed(out.Call, failure.Class, failure.Code, failure)
		refused.Attempts, refused.Millis = out.Attempts, out.Millis
		return *refused
	}
	out.Switch = to
	return out
}

// hooked reports whether the hooks after a call see it: not one that was refused.
func (d *dispatch) hooked(err error) bool {
	failure, failed := errors.AsType[*plugin.Failure](err)
	return d.stack.SeesResults() && !d.unknown && (!failed || failure.Code != plugin.CodeDenied)
}

// outcome is what the tool itself came to, or whoever resolved the call in its place.
func (d *dispatch) outcome(ctx context.Context) (plugin.Result, []byte, int, error) {
	args, err := session.Body(ctx, d.w.blobs, d.call.Args, d.call.Blob)
	if err != nil {
		return plugin.Result{}, nil, 0, err
	}
	switch r := d.call.Resolved; {
	case d.call.Answer != nil && !d.call.Answer.Granted:
		return plugin.Result{}, args, 0, &plugin.Failure{
			Class: plugin.ClassPermissionDenied, Code: plugin.CodeDenied, Message: deniedText(d.call.Answer),
		}
	case r != nil:
		got, err := d.w.recorded(ctx, r)
		return got, args, 1, err
	case d.call.Tool == plugin.ToolCode && d.tools.Preamble.Read != nil && !d.inner:
		r, err := d.execute(ctx, args)
		return r, args, 1, err
	}
	return d.attempt(ctx, args)
}

func deniedText(a *events.ToolApprovalGiven) string {
	if a.Reason == "" {
		return "the call was not approved"
	}
	return "the call was not approved: " + a.Reason
}

// resultOf records what a tool gave.
func resultOf(index int64, r plugin.Result) events.ToolResult {
	return events.ToolResult{
		Call: index, Outcome: r.Outcome, Text: strings.ToValidUTF8(r.Text, "\uFFFD"), Attachments: r.Attachments,
		Control: r.Control, Switch: r.Switch, Class: clip(r.Class), Code: clip(r.Code),
	}
}

// given is the inverse of [resultOf]. A text in a blob stays there.
func given(r *events.ToolResult) plugin.Result {
	return plugin.Result{
		Text: r.Text, Attachments: r.Attachments, Outcome: r.Outcome, Control: r.Control, Switch: r.Switch, Class: r.Class, Code: r.Code,
	}
}

// failed is a call that came to nothing.
func failed(index int64, class, code string, err error) *events.ToolResult {
	return &events.ToolResult{Call: index, Outcome: events.OutcomeFailure, Class: class, Code: code, Text: "[failed] " + clip(err.Error())}
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

// failureOf is what a tool gave that ended with an error.
func failureOf(err error) plugin.Result {
	failure := asFailure(err)
	return plugin.Result{Outcome: events.OutcomeFailure, Text: "[failed] " + failure.Message, Class: failure.Class, Code: failure.Code}
}

func (d *dispatch) attempt(ctx context.Context, args []byte) (plugin.Result, []byte, int, error) {
	tool, ok := d.tools.Find(d.call.Tool)
	if !ok || !d.callable {
		d.unknown = true
		return plugin.Result{}, args, 0, &plugin.Failure{
			Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
			Message: fmt.Sprintf("tool %q is not available in this session", d.call.Tool),
		}
	}
	checked, err := tool.Check(args)
	if err != nil {
		return plugin.Result{}, args, 0, err
	}
	r, n, err := d.attempts(ctx, tool, checked)
	return r, checked, n, err
}

// plain is the call as its tool and its hooks see it.
func (d *dispatch) plain() plugin.Call {
	return plugin.Call{
		Session: d.session, Turn: d.turn, Effect: d.call.Effect, ID: d.call.ID, Host: d.seen.host(d.call.Effect),
		// The effect stands where the design's sources have the call's id: models reuse those.
		Key: fmt.Sprintf("lash-tool:%s:%s:%s", d.session, d.call.Effect, d.call.Tool),
	}
}

func (d *dispatch) attempts(ctx context.Context, tool *plugin.Registered, args []byte) (plugin.Result, int, error) {
	if tool.Portable && !d.inner && !slices.Contains(d.w.cfg.Roles, RoleTool) {
		err := d.handOut(ctx, tool, args)
		return plugin.Result{Pending: err == nil}, 1, err
	}
	call := d.plain().Nesting(d.nestedAll)
	for n := 1; ; n++ {
		call.Attempt = n
		result, err := d.once(ctx, tool, call, args)
		var failure *plugin.Failure
		if err == nil || ctx.Err() != nil || n >= tool.Retry.Attempts || !errors.As(err, &failure) || !failure.Safe {
			return result, n, err
		}
		if !bus.Sleep(ctx, retryWait(tool.Retry, failure, n)) {
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
	promised := false
	result, err = tool.Handler(ctx, call.Track(&promised), args)
	if bad := result.Check(); err == nil && bad != nil {
		err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("the tool returned garbage: %v", bad)}
	}
	if err == nil && result.Pending && !promised {
		err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodePendingKey, Message: "the tool returned a pending result and asked for no completion key"}
	}
	return result, err
}

// after lets the hooks after a call and the result projector see what it came to.
func (d *dispatch) after(ctx context.Context, args []byte, r plugin.Result, out events.ToolResult) events.ToolResult {
	in := plugin.ToolResultContext{Call: d.plain(), Tool: d.call.Tool, Args: args, Result: r, Millis: out.Millis, Host: d.seen.host(d.call.Effect)}
	if in.Args == nil {
		in.Args = []byte("{}")
	}
	out = d.askAfter(ctx, in, out)
	if d.inner || ctx.Err() != nil {
		return out
	}
	in.Result = given(&out)
	if text, attachments, projected := d.stack.ProjectToolResult(ctx, in); projected && text != out.Text {
		out.Full, out.Text = out.Text, strings.ToValidUTF8(text, "\uFFFD")
		out.Attachments = append(out.Attachments, attachments...)
	}
	return out
}

func (d *dispatch) askAfter(ctx context.Context, in plugin.ToolResultContext, out events.ToolResult) events.ToolResult {
	replaced := func(r *events.ToolResult) events.ToolResult {
		r.Call, r.Attempts, r.Millis = out.Call, out.Attempts, out.Millis
		return *r
	}
	list, err := d.stack.AfterToolCall(ctx, in)
	if err != nil {
		return replaced(failed(0, plugin.ClassExecution, plugin.CodeAfter, err))
	}
	c, err := d.seen.carryOut(ctx, d.call.Effect, list)
	if err != nil {
		return replaced(failed(0, plugin.ClassExecution, plugin.CodeCreate, err))
	}
	if r := c.instead(plugin.ClassExecution); r != nil {
		out = replaced(r)
	}
	if len(c.decisions) == 0 {
		return out
	}
	ran := &events.HookRan{Point: events.PointAfterTool, Decisions: c.decisions}
	for i := range ran.Decisions {
		ran.Decisions[i].Call = d.call.Index
	}
	for i := range ran.Decisions {
		if ran.Decisions[i].Kind == events.DirectiveEnqueue {
			ran.Decisions[i].Messages = c.messages // all of them, with the first
			break
		}
	}
	if err := tooLarge(ran); err != nil {
		return replaced(failed(0, plugin.ClassResourceLimit, plugin.CodeAfter, err))
	}
	d.beside = append(d.beside, ran)
	return out
}
