package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// ToolCall is one tool call of a turn. The hooks before it have run: their decisions are part of the state.
type ToolCall struct {
	At        *Snapshot
	Stack     *plugin.Stack
	Catalog   *plugin.CatalogEntry // the tools of the stack
	Iteration int64
	Call      turn.Call // the call that the state needs
	// Record appends events of the running turn. It returns when they are in the log; after an error the call must
	// not continue.
	Record recordFunc
}

// recordFunc appends events of the running turn, and the changed states of plugins; nil outside of a running turn.
type recordFunc func(context.Context, ...events.Payload) error

// saving is the context of hooks, which can record the states of plugins where record can.
func (record recordFunc) saving(ctx context.Context) context.Context {
	if record == nil {
		return ctx
	}
	return plugin.WithSave(ctx, func(ctx context.Context) error { return record(ctx) })
}

// Run makes the call: catalogue, arguments, attempts, and the hooks after it. It
// returns [turn.Results] with the result, or with the call as pending; nil where
// ctx ended before there was a result, and where the call waits for an approval
// of a call that it made: its answer runs this one again.
func (t ToolCall) Run(ctx context.Context) turn.Input {
	d := newDispatch(t.At, t.Stack, t.Catalog, t.Call)
	d.record = t.Record
	result, pending := d.run(ctx)
	switch {
	case pending:
		return turn.Results{Iteration: t.Iteration, Pending: []int64{t.Call.Index}, Extra: d.extra}
	case result == nil:
		return nil
	}
	return turn.Results{Iteration: t.Iteration, Results: []events.ToolResult{*result}, Extra: d.extra, Stopped: d.stopIssue}
}

// Grace is how long a stopped turn waits for the result.
func (t ToolCall) Grace() time.Duration {
	tool, ok := t.Catalog.Find(t.Call.Tool)
	if !ok {
		return 0
	}
	return tool.Grace
}

// OnRecorded returns what to call when the log has the result; nil if the tool needs no such call.
func (t ToolCall) OnRecorded() func() {
	tool, ok := t.Catalog.Find(t.Call.Tool)
	if !ok || tool.Recorded == nil {
		return nil
	}
	d := newDispatch(t.At, t.Stack, t.Catalog, t.Call)
	return d.tellRecorded
}

// OnAbandoned returns what to call when the turn has ended the call as cancelled, and no effect of this node runs it; nil
// if the tool needs no such call.
func (t ToolCall) OnAbandoned() func() {
	tool, ok := t.Catalog.Find(t.Call.Tool)
	if !ok || tool.Abandoned == nil {
		return nil
	}
	d := newDispatch(t.At, t.Stack, t.Catalog, t.Call)
	return func() { tool.Abandoned(d.pluginCall()) }
}

// tellRecorded tells the tool that no worker asks for the result again.
func (d *dispatch) tellRecorded() {
	if tool, ok := d.catalog.Find(d.call.Tool); ok && tool.Recorded != nil {
		tool.Recorded(d.pluginCall())
	}
}

// dispatch is a tool call that runs: one of the model, one inside another, a background tool, or one of a turn that
// another node runs.
type dispatch struct {
	env        *Env
	at         *Snapshot
	stack      *plugin.Stack
	catalog    *plugin.CatalogEntry
	call       turn.Call
	callable   bool // the catalogue of the state offers the tool
	record     recordFunc
	extra      []events.Payload // additional events, in the commit of the result
	waits      *approvalWait    // see [errAwaitsApproval]
	inner      bool             // another call, or another node, receives the result; the model never reads it
	cannotWait bool             // an outer call must not run twice
	stopIssue  *events.Issue    // the turn cannot continue
	unknown    bool             // the catalogue has no such tool
}

// newDispatch makes a call of a snapshot's session. Code that calls it sets the rest: the record function of a running
// turn, and for a call without a turn on this node inner and cannotWait.
func newDispatch(at *Snapshot, stack *plugin.Stack, catalog *plugin.CatalogEntry, c turn.Call) *dispatch {
	return &dispatch{
		env: at.env, at: at, stack: stack, catalog: catalog, call: c, callable: at.callable(c.Tool), waits: new(approvalWait),
	}
}

// run returns the result; or nil where ctx ended before there was one, or the
// call waits for an approval; or pending.
func (d *dispatch) run(ctx context.Context) (result *events.ToolResult, pending bool) {
	started := time.Now()
	r, args, attempts, err := d.outcome(ctx)
	if d.waits.Load() {
		return nil, false // the approval's answer runs it again
	}
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil, false // the run that cancelled it records the cancellation
		}
		r = failureOf(err)
	}
	if r.Pending {
		return nil, true
	}
	if err := d.checkRefs(ctx, r.Attachments); err != nil {
		r = failureOf(err)
	}
	out := resultOf(d.call.Index, r)
	out.Attempts, out.Millis = exceptOne(max(attempts, 1)), time.Since(started).Milliseconds()
	if r.Outcome == events.OutcomeSuccess {
		out = d.emitted(&r, out)
	}
	if d.hasResultHooks(err) {
		last, end := outlasting(ctx, hooksGrace)
		defer end()
		out = d.afterCall(last, args, out)
		if last.Err() != nil {
			return nil, false
		}
	}
	out = d.env.switchable(ctx, out)
	return &out, false
}

// hooksGrace is the time that the hooks after a call have where the turn is cancelled: a tool may still return a result
// then, which is recorded as they leave it.
const hooksGrace = 500 * time.Millisecond

// outlasting is a context that ends with its cause a while after ctx.
func outlasting(ctx context.Context, grace time.Duration) (last context.Context, end func()) {
	last, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) }) })
	return last, func() {
		stop()
		cancel(nil)
	}
}

// hasResultHooks reports whether the hooks after a call run: they do not for a refused call.
func (d *dispatch) hasResultHooks(err error) bool {
	failure, failed := errors.AsType[*plugin.Failure](err)
	return d.stack.HasResultHooks() && !d.unknown && (!failed || failure.Code != plugin.CodeDenied)
}

// outcome is the tool's own result, or the one that resolved the call from outside.
func (d *dispatch) outcome(ctx context.Context) (plugin.Result, []byte, int, error) {
	args, err := blob.Body(ctx, d.env.Blobs, d.call.Args, d.call.Blob)
	if err != nil {
		return plugin.Result{}, nil, 0, err
	}
	switch r := d.call.Resolved; {
	case d.call.Answer != nil && !d.call.Answer.Granted:
		return plugin.Result{}, args, 0, &plugin.Failure{
			Class: plugin.ClassPermissionDenied, Code: plugin.CodeDenied, Message: deniedText(d.call.Answer),
		}
	case r != nil:
		got, err := d.env.pluginResultOf(ctx, r)
		return got, args, 1, err
	case d.call.Tool == plugin.ToolCode && d.catalog.Preamble.Read != nil && !d.inner:
		r, err := d.execute(ctx, args)
		return r, args, 1, err
	}
	return d.tool(ctx, args)
}

func deniedText(a *events.ToolApprovalGiven) string {
	if a.Reason == "" {
		return "the call was not approved"
	}
	return "the call was not approved: " + a.Reason
}

// tool runs the tool. The bytes are its checked arguments.
func (d *dispatch) tool(ctx context.Context, args []byte) (plugin.Result, []byte, int, error) {
	tool, ok := d.catalog.Find(d.call.Tool)
	if !ok || !d.callable {
		d.unknown = true
		return plugin.Result{}, args, 0, notOffered(d.call.Tool)
	}
	checked, err := tool.Check(args)
	if err != nil {
		return plugin.Result{}, args, 0, err
	}
	r, n, err := d.attempts(ctx, tool, checked)
	return r, checked, n, err
}

func notOffered(tool string) error {
	return &plugin.Failure{
		Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: fmt.Sprintf("tool %q is not available in this session", tool),
	}
}

// pluginCall is the call in the form for its tool and its hooks.
func (d *dispatch) pluginCall() plugin.Call { return d.at.pluginCall(&d.call, d.inner) }

// pluginCall is a call in the form for its tool and its hooks, see [plugin.Call.Inner] for inner.
func (s *Snapshot) pluginCall(c *turn.Call, inner bool) plugin.Call {
	var places map[string]string
	_ = json.Unmarshal(c.Places, &places) // empty where no rule judged them
	return plugin.Call{
		Session: s.session, Turn: s.turn, Effect: c.Effect, ID: c.ID, Host: s.host(c.Effect),
		Holder: c.Holder, Term: c.Term, Again: s.takenOver() || s.asked(c.Effect), Inner: inner, Once: s.runsOnce(c.Tool), Places: places,
		// The effect makes the key unique. The call's id does not, because models reuse ids.
		Key: fmt.Sprintf("lash-tool:%s:%s:%s", s.session, c.Effect, c.Tool),
		Run: plugin.Running{Environment: s.environment},
	}
}
