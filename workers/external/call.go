package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/callback"
	"github.com/lash-go/lash/workers/external/internal/rate"
	"github.com/lash-go/lash/workers/external/internal/result"
)

// silence is how long an instance may send nothing about a call before the node sends the call again.
const silence = wire.SignEvery * 3 / 2

// askPause is the wait before a call is sent again that found no instance, or whose outcome is incomplete.
const askPause = 100 * time.Millisecond

// maxHops is the number of instances that receive a repeatable call, maxTried that of those that it is sent to.
const (
	maxHops  = 3
	maxTried = 16
)

// maxRepeats is how often a call is sent again for an outcome whose pieces are not all there.
const maxRepeats = 3

var (
	errGone      = errors.New("the instance is gone")
	errSilent    = errors.New("the instance is silent")
	errForgotten = errors.New("the instance has dropped the outcome")
	errAsks      = errors.New("the call waits for an answer of people")
	errForced    = errors.New("the tool did not return within the grace")
)

// codeInvalid is the code of a call whose instance broke the protocol.
const codeInvalid = "invalid_outcome"

// handler runs the calls of a tool. placed is the plugin of a session that one instance serves; nil: any instance does.
func (p *Plugins) handler(name, tool string, repeatable bool, placed *sessionPlugin) plugin.Handler {
	return func(ctx context.Context, call plugin.Call, args json.RawMessage) (plugin.Result, error) {
		if ctx.Err() != nil {
			return plugin.Result{}, context.Cause(ctx)
		}
		if len(args) > wire.MaxArgsBytes {
			return plugin.Result{}, &plugin.Failure{
				Class: plugin.ClassResourceLimit, Code: plugin.CodeInvalidArgs,
				Message: fmt.Sprintf("the arguments have %d bytes, limit is %d for tools of plugin %s", len(args), wire.MaxArgsBytes, name),
			}
		}
		single := !repeatable || call.Once || call.Holder != "" // the history decides, whatever this node's settings say of the tool
		o := &instanceCall{p: p, plugin: name, call: call, single: single, limits: rate.NewCall(), in: &wire.Call{
			CallID: wire.CallID{Session: call.Session, Call: call.Effect}, Turn: call.Turn, Model: call.ID,
			Key: call.Key, Tool: tool, Args: args,
			Again: call.Again && single && !call.Inner, // no worker sends such an inner call twice
			Once:  single,
		}}
		o.ctx, o.end = p.patience(ctx)
		defer o.bodies.Close()
		defer o.callbacks.Wait()
		defer o.end(nil)
		switch {
		case placed != nil:
			return placed.run(ctx, o)
		case !single:
			o.any = true
			return o.repeat(ctx, func(tried []string) (string, error) { return p.registry.Pick(name, o.in.CallID, tried...), nil })
		case call.Inner:
			return o.inner(ctx)
		}
		return o.once(ctx, call.Holder)
	}
}

// instanceCall is a call that an instance runs.
type instanceCall struct {
	p         *Plugins
	plugin    string
	call      plugin.Call
	in        *wire.Call
	ctx       context.Context //nolint:containedctx // of the wait for the outcome, see patience
	end       context.CancelCauseFunc
	callbacks callback.Ledger
	bodies    callback.Bodies
	limits    *rate.Call
	single    bool     // must not run twice
	tried     []string // instances that a repeatable call was sent to
	any       bool     // any other instance may get it
}

// patience is the context of the wait for an outcome. Where the turn is cancelled, or the time of the tool is over, the
// tool has the grace to return. Where the node stops or was overtaken, the wait ends at once: the next node joins.
func (p *Plugins) patience(ctx context.Context) (wait context.Context, end context.CancelCauseFunc) {
	wait, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	grace := time.NewTimer(math.MaxInt64)
	stop := context.AfterFunc(ctx, func() {
		if !ended(ctx) {
			cancel(context.Cause(ctx))
			return
		}
		grace.Reset(p.grace)
		select {
		case <-grace.C:
			cancel(errForced)
		case <-wait.Done():
		}
	})
	return wait, func(cause error) {
		stop()
		cancel(cause)
		grace.Stop()
	}
}

// ended reports whether the turn was cancelled, or the time of the tool is over.
func ended(ctx context.Context) bool {
	cause := context.Cause(ctx)
	return cause == context.Canceled || cause == context.DeadlineExceeded //nolint:errorlint // the causes of other ends may wrap these
}

// once sends a call to one instance, and to no other: to the one that the history names, or for an inner call to the one
// that was picked.
func (o *instanceCall) once(ctx context.Context, holder string) (plugin.Result, error) {
	if holder == "" {
		return plugin.Result{}, unavailable(o.plugin)
	}
	outcome, delivered, err := o.await(ctx, holder)
	r, err, done := o.concluded(ctx, outcome, err)
	switch refused, ok := errors.AsType[*wire.Error](err); {
	case done:
		return r, err
	case ok: // it has not run, and does not
		return r, &refusal{refused.Code, &plugin.Failure{
			Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "the instance refused the call: " + result.Clip(refused.Message),
		}}
	case !delivered && !o.in.Again:
		return r, &refusal{"", unavailable(o.plugin)}
	}
	return plugin.Result{Outcome: events.OutcomeLost, Text: projector.LostText}, nil
}

// inner sends a call whose instance no event names. It tries living instances one after the other. Once one of them may have
// received the call, no other gets it.
func (o *instanceCall) inner(ctx context.Context) (r plugin.Result, err error) {
	for o.any = true; ; {
		id := o.p.registry.Pick(o.plugin, o.in.CallID, o.tried...)
		r, err = o.once(ctx, id)
		if missed, ok := errors.AsType[*refusal](err); !ok || missed.code != "" || len(o.tried) >= maxTried || !o.hasOther(id) {
			return r, err
		}
		o.tried = append(o.tried, id)
	}
}

// refusal is the failure of a call that its instance refused, or did not receive.
type refusal struct {
	code string // of the instance's error; empty: it did not receive the call
	*plugin.Failure
}

// Unwrap returns the failure.
func (r *refusal) Unwrap() error { return r.Failure }

// repeat sends a call to one instance after the other, until one answers. next returns an empty one if there is none. A
// call that instances receive and die with ends: it may be what kills them. Those that were gone before do not count.
func (o *instanceCall) repeat(ctx context.Context, next func(tried []string) (string, error)) (plugin.Result, error) {
	received := 0
	for received < maxHops && len(o.tried) < maxTried {
		id, err := next(o.tried)
		if err != nil {
			return plugin.Result{}, err
		}
		if id == "" {
			break
		}
		outcome, delivered, err := o.await(ctx, id)
		if r, err, done := o.concluded(ctx, outcome, err); done {
			return r, err
		}
		if o.tried = append(o.tried, id); delivered {
			received++
		}
	}
	if received == 0 {
		return plugin.Result{}, unavailable(o.plugin)
	}
	return plugin.Result{}, &plugin.Failure{
		Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
		Message: fmt.Sprintf("instances of plugin %s that ended during the call: %d", o.plugin, received),
	}
}

// concluded is the result of a call after the end of await. done is false where the instance has no outcome: the tool's
// effects decide then.
func (o *instanceCall) concluded(ctx context.Context, outcome *wire.Outcome, err error) (r plugin.Result, failed error, done bool) {
	switch {
	case ctx.Err() != nil:
		r, err = o.late(ctx, outcome, err)
	case err == nil:
		r, err = result.Of(outcome)
	case errors.As(err, new(*events.FieldError)):
		err = o.broken(err)
	case errors.Is(err, errAsks):
		err = plugin.ErrWaits
	case errors.As(err, new(*plugin.Failure)):
	default:
		return r, err, false
	}
	return r, err, true
}

// cancelAbandoned cancels a call that no node waits for.
func (p *Plugins) cancelAbandoned(name string, call plugin.Call) {
	id := wire.CallID{Session: call.Session, Call: call.Effect}
	data, err := json.Marshal(wire.Cancel{CallID: id, Reason: "the turn was cancelled", GraceMS: p.grace.Milliseconds()})
	if at := cmp.Or(call.Holder, p.registry.Pick(name, id)); at != "" && err == nil {
		_ = p.bus.TellInstance(name, at, wire.VerbCancel, data) // a tool that misses it ends by itself, or with the instance
	}
}

// tellRecorded lets the instance drop the outcome of a call. The instance of a repeatable call is most likely the one that
// would get it now.
func (p *Plugins) tellRecorded(name string, call plugin.Call) {
	ended := wire.CallID{Session: call.Session, Call: call.Effect}
	id := cmp.Or(call.Holder, p.registry.Pick(name, ended))
	data, err := json.Marshal(ended)
	if id != "" && err == nil {
		_ = p.bus.TellInstance(name, id, wire.VerbRecorded, data) // the instance drops it later by itself
	}
}
