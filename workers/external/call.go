package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// silence is how long an instance may send nothing about a call before the node sends the call again.
const silence = wire.SignEvery * 3 / 2

// maxHops is the number of instances that a repeatable call is sent to.
const maxHops = 3

var (
	errGone      = errors.New("the instance is gone")
	errSilent    = errors.New("the instance is silent")
	errForgotten = errors.New("the instance has dropped the outcome")
)

// handler runs the calls of a tool.
func (p *Plugins) handler(name, tool string, repeatable bool) plugin.Handler {
	return func(ctx context.Context, call plugin.Call, args json.RawMessage) (plugin.Result, error) {
		in := &wire.Call{
			CallID: wire.CallID{Session: call.Session, Call: call.Effect}, Turn: call.Turn, Model: call.ID,
			Key: call.Key, Attempt: call.Attempt, Tool: tool, Args: args, Again: call.Again,
		}
		if repeatable {
			return p.repeat(ctx, name, in)
		}
		return p.once(ctx, name, call.Holder, in)
	}
}

// once sends a call to the instance that the history names, and to no other.
func (p *Plugins) once(ctx context.Context, name, holder string, in *wire.Call) (plugin.Result, error) {
	if holder == "" {
		return plugin.Result{}, unavailable(name)
	}
	answer, delivered, err := p.ask(ctx, name, holder, in)
	switch {
	case err == nil:
		return result(answer)
	case ctx.Err() != nil:
		return plugin.Result{}, err
	case !delivered && !in.Again:
		return plugin.Result{}, unavailable(name)
	}
	if refused, ok := errors.AsType[*wire.Error](err); ok { // it has not run, and does not
		return plugin.Result{}, &plugin.Failure{Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "the instance refused the call: " + refused.Message}
	}
	return plugin.Result{Outcome: events.OutcomeLost, Text: projector.LostText}, nil
}

// repeat sends a call to one instance after the other, until one answers.
func (p *Plugins) repeat(ctx context.Context, name string, in *wire.Call) (plugin.Result, error) {
	var tried []string
	for range maxHops {
		id := p.pick(name, string(in.Call), tried...)
		if id == "" {
			break
		}
		answer, _, err := p.ask(ctx, name, id, in)
		if err == nil {
			return result(answer)
		}
		if ctx.Err() != nil {
			return plugin.Result{}, err
		}
		tried = append(tried, id)
	}
	if len(tried) == 0 {
		return plugin.Result{}, unavailable(name)
	}
	return plugin.Result{}, &plugin.Failure{
		Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
		Message: fmt.Sprintf("%d instances of plugin %s ended during the call", len(tried), name),
	}
}

func unavailable(name string) error {
	return &plugin.Failure{
		Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable,
		Message: fmt.Sprintf("no instance of plugin %s runs: the call did not start", name),
	}
}

// result is the tool's result in an instance's last answer.
func result(answer *wire.Progress) (plugin.Result, error) {
	switch f := answer.Outcome.Failure; {
	case f != nil:
		return plugin.Result{}, &plugin.Failure{Class: cmp.Or(f.Class, plugin.ClassExecution), Code: f.Code, Message: f.Message, Safe: f.Safe}
	default:
		return plugin.Result{Text: answer.Outcome.Text}, nil
	}
}

// ask sends a call to an instance until that has an outcome. An instance that sends nothing gets the call again: it
// knows the id. delivered: the instance may have received the call. Errors: the cause of ctx's end, and others if the
// instance has no outcome.
func (p *Plugins) ask(ctx context.Context, name, id string, in *wire.Call) (answer *wire.Progress, delivered bool, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, false, err
	}
	heard := time.Now()
	for {
		answer, err = p.send(ctx, name, id, body, func() { heard, delivered = time.Now(), true })
		switch {
		case ctx.Err() != nil:
			p.leave(ctx, name, id, in.CallID)
			return nil, delivered, context.Cause(ctx)
		case err == nil && answer.Forgotten:
			return nil, true, errForgotten
		case err == nil && answer.Error != nil:
			return nil, delivered, answer.Error
		case err == nil:
			return answer, true, nil
		case errors.Is(err, errSilent):
			delivered = true
		}
		if time.Since(heard) >= wire.Lease {
			p.gone(name, id)
			return nil, delivered, errGone
		}
		if !errors.Is(err, errSilent) && !bus.Sleep(ctx, 100*time.Millisecond) { // it may connect again
			return nil, delivered, context.Cause(ctx)
		}
	}
}

// send sends a call once, and waits while signs of life come. It returns the last answer.
func (p *Plugins) send(ctx context.Context, name, id string, body []byte, heard func()) (last *wire.Progress, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	err = p.bus.AskInstance(ctx, name, id, "call", body, func(data []byte) bool {
		var answer wire.Progress
		if json.Unmarshal(data, &answer) != nil {
			return false // the instance's next sign, or the silence after it, decides
		}
		quiet.Reset(silence)
		heard()
		if !answer.Last() {
			return false
		}
		last = &answer
		return true
	})
	return last, err
}

// recorded lets the instance drop the outcome of a call. The instance of a repeatable call is most likely the one that
// would get it now.
func (p *Plugins) recorded(name string, call plugin.Call) {
	id := cmp.Or(call.Holder, p.pick(name, string(call.Effect)))
	data, err := json.Marshal(wire.CallID{Session: call.Session, Call: call.Effect})
	if id != "" && err == nil {
		_ = p.bus.TellInstance(name, id, "recorded", data) // the instance drops it later by itself
	}
}

// leave cancels a call whose turn or timeout ended. A node that stops, or that was overtaken, does not: the next node
// joins the call.
func (p *Plugins) leave(ctx context.Context, name, id string, call wire.CallID) {
	cause := context.Cause(ctx)
	if cause != context.Canceled && cause != context.DeadlineExceeded { //nolint:errorlint // the causes of other ends may wrap these
		return
	}
	if data, err := json.Marshal(wire.Cancel{CallID: call, GraceMS: wire.CancelGrace.Milliseconds()}); err == nil {
		_ = p.bus.TellInstance(name, id, "cancel", data)
	}
}
