package call

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// errAwaitsApproval reports a call that waits for an approval, of itself or of a nested call. It has no result. The
// approval's answer runs it again; its earlier nested calls then return their results from the history.
var errAwaitsApproval = errors.New("the call waits for an approval")

// approvalWait records whether a call waits for an approval. Of concurrent calls one may wait while the others end.
type approvalWait struct {
	atomic.Bool
	outer *approvalWait // of the call that made this one
}

func (p *approvalWait) begin() {
	for ; p != nil; p = p.outer {
		p.Store(true)
	}
}

// nestedCall makes a call inside this one, with the same hooks, catalogue, arguments and attempts. n numbers the
// nested calls. A call that must not run twice is in the log before it starts; every result is in the log before it
// is returned. When the outer call runs again after a crash, the n-th call returns its result from the log; a call
// that started and did not return is lost.
//
// A failure of the inner call is the outcome of the result. An error fails the outer call: ctx ended, a call waits
// for an approval, or the n-th call differs from the one of the earlier run.
func (d *dispatch) nestedCall(ctx context.Context, n int, tool string, args json.RawMessage) (plugin.Result, error) {
	if d.record == nil {
		return plugin.Result{}, errNoNesting
	}
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	if len(args) > events.MaxBlobBytes {
		return plugin.Result{}, &plugin.Failure{Class: plugin.ClassResourceLimit, Code: codeArgsTooLarge, Message: fmt.Sprintf(
			"args of %s: has %d bytes, limit is %d", tool, len(args), events.MaxBlobBytes)}
	}
	sum := sha256.Sum256(args)
	inner := &nested{dispatch: newDispatch(d.at, d.stack, d.catalog, d.innerCall(n, tool, args)), digest: hex.EncodeToString(sum[:])}
	inner.record, inner.waits, inner.inner = d.record, &approvalWait{outer: d.waits}, true
	inner.cannotWait = d.cannotWait || d.at.runsOnce(d.call.Tool)
	inner.runsOnce = inner.callable && d.at.runsOnce(tool)
	inner.ofCode = d.call.Tool == plugin.ToolCode
	return inner.result(ctx, args)
}

// codeArgsTooLarge is the code of a nested call whose arguments cannot be kept.
const codeArgsTooLarge = "tool_args_too_large"

// innerCall is the n-th nested call.
func (d *dispatch) innerCall(n int, tool string, args json.RawMessage) turn.Call {
	return turn.Call{
		Index: d.call.Index, ID: d.call.ID, Effect: events.EffectID(fmt.Sprintf("%s/%d", d.call.Effect, n)), Tool: tool, Args: args,
	}
}

// nestedAll makes the parallel calls at the same time, and then the serial ones one by one. It makes none where this
// call waits for an approval, because that runs again. first is the number of the first call.
func (d *dispatch) nestedAll(ctx context.Context, first int, list []plugin.NestedCall) []plugin.NestedResult {
	results := make([]plugin.NestedResult, len(list))
	if d.waits.Load() {
		for i := range results {
			results[i].Err = errAwaitsApproval
		}
		return results
	}
	run := func(i int) {
		results[i].Result, results[i].Err = d.nestedCall(ctx, first+i, list[i].Tool, list[i].Args)
	}
	var serial []int
	var wait sync.WaitGroup
	for i := range list {
		if entry, known := d.at.state.Catalog.Tool(list[i].Tool); known && entry.Serial {
			serial = append(serial, i)
			continue
		}
		wait.Go(func() { run(i) })
	}
	wait.Wait()
	for _, i := range serial {
		run(i)
	}
	return results
}

// nested is a call inside another.
type nested struct {
	*dispatch
	digest   string // of the arguments before defaults and hooks
	runsOnce bool   // must not run twice
	ofCode   bool   // code makes the call
}

func (d *nested) result(ctx context.Context, args json.RawMessage) (plugin.Result, error) {
	if err := ctx.Err(); err != nil {
		return plugin.Result{}, context.Cause(ctx)
	}
	if old := d.at.state.Turn().NestedCall(d.call.Effect); old != nil {
		return d.replay(ctx, old, args)
	}
	out, err := d.before(ctx)
	if err == nil && out == nil {
		out, err = d.perform(ctx)
	}
	if err != nil {
		return plugin.Result{}, err
	}
	return d.returned(ctx, args, *out)
}

// replay returns the result of a nested call of an earlier run.
func (d *nested) replay(ctx context.Context, old *projector.NestedCall, args json.RawMessage) (plugin.Result, error) {
	switch {
	case old.Tool != d.call.Tool || old.Digest != d.digest:
		return plugin.Result{}, &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeNestedChanged, Message: fmt.Sprintf(
			"call %s was %s with arguments of digest %.12s before, and is %s with %.12s now", d.call.Effect, old.Tool, old.Digest, d.call.Tool, d.digest)}
	case old.Done:
		return d.env.pluginResultOf(ctx, &old.Result)
	}
	return d.returned(ctx, args, events.ToolResult{Call: d.call.Index, Outcome: events.OutcomeLost, Text: projector.LostText})
}

// before runs the hooks before the call, unless an earlier run of the outer call did: then their approval has its
// answer. The result is nil where the call runs.
func (d *nested) before(ctx context.Context) (*events.ToolResult, error) {
	if a := d.at.state.Turn().Approval(d.call.Effect); a != nil && a.Answered {
		args, err := blob.Body(ctx, d.env.Blobs, a.Args, a.Blob)
		d.call.Answer, d.call.Args, d.call.Places = &a.Answer, args, a.Places
		return nil, err
	}
	if !d.callable {
		return nil, nil //nolint:nilnil // the call fails, for any decision of the hooks
	}
	got := d.at.hooksBefore(d.record.saving(ctx), d.stack, d.pluginCall(), d.call.Tool, d.call.Args)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d.call.Places = got.places
	if got.args != nil {
		d.call.Args = got.args
	}
	if len(got.decisions) > 0 {
		// Hooks around a nested call are part of the outer call: their own point would have to run inside it.
		ran := &events.HookRan{Point: events.PointAfterTool, Iteration: d.at.state.Turn().Iteration, Decisions: got.decisions}
		for i := range ran.Decisions {
			ran.Decisions[i].Call = d.call.Index
		}
		if err := tooLarge(ran); err != nil {
			return d.failed(plugin.ClassResourceLimit, plugin.CodeBefore, err), nil
		}
		d.extra = append(d.extra, ran)
	}
	switch {
	case got.result != nil:
		got.result.Call = d.call.Index
		return got.result, nil
	case got.question == "":
		return nil, nil //nolint:nilnil // the call runs
	}
	if r := invalidCall(d.catalog, d.call.Index, d.call.Tool, d.call.Args); r != nil {
		return r, nil
	}
	if d.cannotWait {
		return d.failed(plugin.ClassPermissionDenied, plugin.CodeDenied, errNoApproval), nil
	}
	return nil, d.waitForApproval(ctx, got.approvalRequest(&d.call, d.env.Bus.Now()))
}

var errNoApproval = errors.New("the call needs an approval, which cannot be had inside a call that must not run twice")

// waitForApproval records the approval request; the outer call waits for the answer too.
func (d *nested) waitForApproval(ctx context.Context, ask *events.ToolApprovalAsked) error {
	if err := d.record(ctx, append(d.extra, ask)...); err != nil {
		return err
	}
	d.waits.begin()
	return errAwaitsApproval
}

// perform runs the call.
func (d *nested) perform(ctx context.Context) (*events.ToolResult, error) {
	if refused := d.call.Answer != nil && !d.call.Answer.Granted; d.runsOnce && !refused {
		err := d.record(ctx, &events.ToolNestedCalled{Effect: d.call.Effect, Tool: d.call.Tool, Digest: d.digest})
		if err != nil {
			return nil, err
		}
	}
	out, pending := d.run(ctx)
	switch {
	case pending:
		return d.failed(plugin.ClassInternal, plugin.CodePendingNested, errPendingNested), nil
	case out == nil && d.waits.Load():
		return nil, errAwaitsApproval
	case out == nil:
		return nil, context.Cause(ctx)
	}
	return out, nil
}

var errPendingNested = errors.New("the tool returned a pending result, which is not possible inside another call")

// returned records the result of the call, and returns it from the history.
func (d *nested) returned(ctx context.Context, args json.RawMessage, out events.ToolResult) (plugin.Result, error) {
	if d.ofCode {
		var err error
		if out.Attachments, err = byReference(ctx, d.env.Blobs.PutBlob, out.Attachments); err != nil {
			return plugin.Result{}, err
		}
	}
	fact := &events.ToolNestedReturned{Effect: d.call.Effect, Tool: d.call.Tool, Args: args, Digest: d.digest, Result: out}
	if err := d.record(ctx, append([]events.Payload{fact}, d.extra...)...); err != nil {
		return plugin.Result{}, err
	}
	d.tellRecorded()
	return d.env.pluginResultOf(ctx, &out)
}

// failed is the result of the call where it has no result of the tool, or that one is discarded.
func (d *nested) failed(class, code string, err error) *events.ToolResult {
	r := Failed(d.call.Index, class, code, err)
	return &r
}
