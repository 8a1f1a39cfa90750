package workers

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
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
)

// errParked is a call that waits for an approval, of itself or of a call that
// it made. It has no result: once somebody answers it runs again, and the calls
// that it had made before answer from the history.
var errParked = errors.New("the call waits for an approval")

// parking is whether a call waits for an approval. Of calls beside each other
// one may wait while the others come to something.
type parking struct {
	atomic.Bool
	outer *parking // of the call that made this one
}

func (p *parking) park() {
	for ; p != nil; p = p.outer {
		p.Store(true)
	}
}

// nested makes a call inside this one, with the same pipeline: hooks,
// catalogue, arguments, attempts. n numbers the calls that this one makes. What
// must not run twice is durable before it starts; every result is durable
// before it is returned. Made again after a crash, a call answers what was
// recorded; one that was begun and did not return is lost.
//
// What the call itself comes to is the result's outcome. An error fails the
// call outside: it ended, it waits for an approval, or it is another call than
// the n-th was.
func (d *dispatch) nested(ctx context.Context, n int, tool string, args json.RawMessage) (plugin.Result, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	sum := sha256.Sum256(args)
	inner := &nested{
		dispatch: dispatch{
			w: d.w, session: d.session, turn: d.turn, seen: d.seen, stack: d.stack, tools: d.tools, facts: d.facts,
			parked: &parking{outer: d.parked}, inner: true,
			call: d.call,
		},
		digest: hex.EncodeToString(sum[:]),
	}
	inner.call.Effect = events.EffectID(fmt.Sprintf("%s/%d", d.call.Effect, n))
	inner.call.Tool, inner.call.Args, inner.call.Blob, inner.call.Answer, inner.call.Resolved = tool, args, events.BlobRef{}, nil, nil
	entry, known := d.seen.state.Catalog.Tool(tool)
	inner.callable = known && entry.Callable()
	inner.once = inner.callable && !entry.Effects.Repeatable()
	inner.fixed = d.fixed || d.runsOnce()
	return inner.result(ctx, args)
}

// runsOnce reports whether the call is of a tool that must not run twice.
func (d *dispatch) runsOnce() bool {
	entry, known := d.seen.state.Catalog.Tool(d.call.Tool)
	return known && !entry.Effects.Repeatable()
}

// nestedAll makes calls beside each other, the serial ones one by one after
// the others, unless this call is to run again anyway. first numbers the first of them.
func (d *dispatch) nestedAll(ctx context.Context, first int, list []plugin.Inner) []plugin.InnerResult {
	results := make([]plugin.InnerResult, len(list))
	if d.parked.Load() {
		for i := range results {
			results[i].Err = errParked
		}
		return results
	}
	run := func(i int) {
		results[i].Result, results[i].Err = d.nested(ctx, first+i, list[i].Tool, list[i].Args)
	}
	var serial []int
	var wait sync.WaitGroup
	for i := range list {
		if entry, known := d.seen.state.Catalog.Tool(list[i].Tool); known && entry.Serial {
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
	dispatch
	digest string // of the arguments as the call was made
	once   bool   // must not run twice
}

func (d *nested) result(ctx context.Context, made json.RawMessage) (plugin.Result, error) {
	if err := ctx.Err(); err != nil {
		return plugin.Result{}, context.Cause(ctx)
	}
	if old := d.seen.state.Turn().NestedCall(d.call.Effect); old != nil {
		return d.again(ctx, old, made)
	}
	out, err := d.before(ctx)
	if err == nil && out == nil {
		out, err = d.perform(ctx)
	}
	if err != nil {
		return plugin.Result{}, err
	}
	return d.returned(ctx, made, out)
}

// again answers a call that an earlier run of the outer one made.
func (d *nested) again(ctx context.Context, old *projector.NestedCall, made json.RawMessage) (plugin.Result, error) {
	switch {
	case old.Tool != d.call.Tool || old.Digest != d.digest:
		return plugin.Result{}, &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeNestedChanged, Message: fmt.Sprintf(
			"call %s was %s with arguments of digest %.12s before, and is %s with %.12s now", d.call.Effect, old.Tool, old.Digest, d.call.Tool, d.digest)}
	case old.Done:
		return d.w.recorded(ctx, &old.Result)
	}
	return d.returned(ctx, made, &events.ToolResult{Call: d.call.Index, Outcome: events.OutcomeLost, Text: projector.LostText})
}

// before asks the hooks, once: what was asked of somebody has his answer now.
func (d *nested) before(ctx context.Context) (*events.ToolResult, error) {
	if a := d.seen.state.Turn().Approval(d.call.Effect); a != nil && a.Answered {
		args, err := session.Body(ctx, d.w.blobs, a.Args, a.Blob)
		d.call.Answer, d.call.Args = &a.Answer, args
		return nil, err
	}
	if !d.callable {
		return nil, nil //nolint:nilnil // the call fails, whatever hooks say
	}
	got := d.seen.askBefore(ctx, d.stack, d.plain(), d.call.Tool, d.call.Args)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if got.args != nil {
		d.call.Args = got.args
	}
	if len(got.decisions) > 0 {
		// The hooks around a nested call are part of the outer one: a point of their own would be owed by it.
		ran := &events.HookRan{Point: events.PointAfterTool, Iteration: d.seen.state.Turn().Iteration, Decisions: got.decisions}
		for i := range ran.Decisions {
			ran.Decisions[i].Call = d.call.Index
		}
		if err := tooLarge(ran); err != nil {
			return failed(d.call.Index, plugin.ClassResourceLimit, plugin.CodeBefore, err), nil
		}
		d.beside = append(d.beside, ran)
	}
	switch {
	case got.result != nil:
		got.result.Call = d.call.Index
		return got.result, nil
	case got.ask == "":
		return nil, nil //nolint:nilnil // the call runs
	case d.fixed:
		return failed(d.call.Index, plugin.ClassPermissionDenied, plugin.CodeDenied, errNoApproval), nil
	}
	return nil, d.park(ctx, got.question(&d.call))
}

var errNoApproval = errors.New("the call needs an approval, which cannot be had inside a call that must not run twice")

// park records a question and lets the outer call wait for its answer.
func (d *nested) park(ctx context.Context, ask *events.ToolApprovalAsked) error {
	if err := d.facts(ctx, append(d.beside, ask)...); err != nil {
		return err
	}
	d.parked.park()
	return errParked
}

// perform runs the call.
func (d *nested) perform(ctx context.Context) (*events.ToolResult, error) {
	if refused := d.call.Answer != nil && !d.call.Answer.Granted; d.once && !refused {
		err := d.facts(ctx, &events.ToolNestedCalled{Effect: d.call.Effect, Tool: d.call.Tool, Digest: d.digest})
		if err != nil {
			return nil, err
		}
	}
	out, pending := d.run(ctx)
	switch {
	case pending:
		return failed(d.call.Index, plugin.ClassInternal, plugin.CodePendingNested, errPendingNested), nil
	case out == nil && d.parked.Load():
		return nil, errParked
	case out == nil:
		return nil, context.Cause(ctx)
	}
	return out, nil
}

var errPendingNested = errors.New("the tool returned a pending result, which is not possible inside another call")

// returned records what the call came to.
func (d *nested) returned(ctx context.Context, made json.RawMessage, out *events.ToolResult) (plugin.Result, error) {
	fact := &events.ToolNestedReturned{Effect: d.call.Effect, Tool: d.call.Tool, Args: made, Digest: d.digest, Result: *out}
	if err := d.facts(ctx, append([]events.Payload{fact}, d.beside...)...); err != nil {
		return plugin.Result{}, err
	}
	return d.w.recorded(ctx, out)
}

// recorded is a result as the history has it.
func (w *Worker) recorded(ctx context.Context, r *events.ToolResult) (plugin.Result, error) {
	text, err := session.Body(ctx, w.blobs, []byte(r.Text), r.Blob)
	got := given(r)
	got.Text = string(text)
	return got, err
}
