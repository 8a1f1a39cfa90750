package external

import (
	"context"
	"math"
	"net/http"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/callback"
	"github.com/lash-go/lash/workers/external/internal/registry"
)

// APIConfig is the input of [Plugins.ServeAPI]: the host of the node, which is required, its memory for requests, and a function that
// receives a record of each callback at its end.
type APIConfig = callback.Config

// ServeAPI makes the node perform the callbacks of its plugins. Before it, they are answered with 503. Errors: those of
// [httpapi.New].
func (p *Plugins) ServeAPI(cfg APIConfig) error {
	a, err := callback.New(cfg, p.log)
	if err == nil {
		p.api.Store(a)
	}
	return err
}

// callback performs a callback of the instance that has the call, and answers it. Only the node that waits for the
// call receives callbacks: an instance that lost the call has no reader.
// A callback that asks people ends the wait for the outcome: the answer sends the call again, and the instance the callback.
func (o *instanceCall) callback(instance string, in *wire.Callback) {
	if err := events.CheckToken("id", in.ID); err != nil {
		o.answer(instance, in.ID, callback.InvalidField(err))
		return
	}
	limited := o.limits.Callback(&o.p.registry.Limits(o.plugin).Traffic)
	if limited != nil && (o.call.Again || o.callbacks.Knows(in.ID)) {
		o.p.registry.Drop(o.plugin, registry.CallbackRate)
		return // it is, or may be, performed: the instance repeats it
	}
	if limited != nil {
		o.answer(instance, in.ID, callback.Problem(http.StatusTooManyRequests, wire.CodeRateLimited, "callbacks", limited.Error()))
		return
	}
	run, answer := o.callbacks.Begin(in.ID)
	if answer != nil {
		o.answer(instance, in.ID, answer)
	}
	if !run {
		return
	}
	o.callbacks.Go(func() {
		ctx, end := outlive(o.ctx, callbackGrace)
		defer end()
		if answer := o.perform(ctx, in); answer != nil {
			o.callbacks.End(in.ID, answer, time.Now())
			o.answer(instance, in.ID, answer)
		}
	})
}

// callbackGrace is how long a callback may run after its call has ended. It is less than [wire.CallbackLate]: the end of a call must not
// leave it unknown whether its last callback was performed.
const callbackGrace = 2 * time.Second

// outlive is a context that ends a time after ctx does.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	late := time.AfterFunc(math.MaxInt64, func() { cancel(context.Cause(ctx)) })
	stop := context.AfterFunc(ctx, func() { late.Reset(grace) })
	return longer, func() {
		stop()
		late.Stop()
		cancel(nil)
	}
}

func (o *instanceCall) answer(instance, id string, answer *wire.CallbackAnswer) {
	a := *answer
	a.CallID, a.ID = o.in.CallID, events.Clip(id, events.MaxIDBytes, "")
	data, err := wire.Encode(&a)
	if err != nil {
		a.Status, a.Body = http.StatusRequestEntityTooLarge, callback.Problem(http.StatusRequestEntityTooLarge, "too_large", "answer", "the answer is too large for a message").Body
		data, err = wire.Encode(&a)
	}
	if err == nil {
		_ = o.p.bus.TellInstance(o.plugin, instance, wire.VerbCallback, data) // the instance repeats the callback
	}
}

// perform performs a callback; nil: there is no answer now.
func (o *instanceCall) perform(ctx context.Context, in *wire.Callback) *wire.CallbackAnswer {
	a := o.p.api.Load()
	var answer *wire.CallbackAnswer
	operation := ""
	switch {
	case in.Path == wire.AskPath:
		operation, answer = wire.AskOperation, o.ask(in)
	case in.Path == wire.TracePath:
		operation, answer = wire.TraceOperation, o.trace(ctx, in)
	case a == nil:
		return callback.Problem(http.StatusServiceUnavailable, "unavailable", "", "this node performs no callbacks")
	}
	if operation == "" {
		return a.Perform(ctx, o.caller(), in)
	}
	if a != nil {
		a.Record(o.caller(), operation, answer)
	}
	return answer
}

// caller is the call as the API knows it.
func (o *instanceCall) caller() *callback.Call {
	return &callback.Call{CallID: o.in.CallID, Plugin: o.p.registry.Settings(o.plugin), Bodies: &o.bodies}
}
