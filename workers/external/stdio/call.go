package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// errNotOpen means that a call was not sent to a child.
var errNotOpen = errors.New("the program ended")

// run runs a call in the child. Errors: errNotOpen. The outcome is nil if the child died during it.
func (c *child) run(ctx context.Context, in *wire.Call, on remote.Caller) (*wire.Outcome, error) {
	r := &running{on: on, outcome: make(chan *wire.Outcome, 1)}
	r.request = func(cb *wire.Callback) {
		answer := &wire.CallbackAnswer{CallID: in.CallID, ID: cb.ID}
		var err error
		if answer.Status, answer.Body, err = on.Request(ctx, cb.ID, cb.Method, cb.Path, cb.Body); err != nil {
			answer.Status, answer.Body = refusal(err)
		}
		c.send(lineCallback, answer)
	}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil, errNotOpen
	}
	c.calls[in.CallID] = r
	c.mu.Unlock()
	defer c.rest(func() { delete(c.calls, in.CallID) })
	c.send(lineCall, in)
	return c.await(ctx, in.CallID, r), nil
}

// refusal is the answer of a callback that has none of the node: 504 where it may have been performed, else it was not.
func refusal(err error) (status int, body json.RawMessage) {
	refused, ok := errors.AsType[*wire.Error](err)
	status, code := http.StatusServiceUnavailable, "unavailable"
	switch {
	case errors.Is(err, events.ErrOutcomeUnknown):
		status, code = http.StatusGatewayTimeout, "outcome_unknown"
	case errors.Is(err, remote.ErrCallEnded):
		status, code = http.StatusConflict, "call_ended"
	case errors.Is(err, events.ErrTooLarge), ok && refused.Code == wire.CodeTooLarge:
		status, code = http.StatusRequestEntityTooLarge, "too_large"
	case ok, errors.As(err, new(*events.FieldError)):
		status, code = http.StatusBadRequest, "invalid_parameter"
	}
	body, _ = json.Marshal(map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "code": code, "detail": err.Error()}) // texts and a number
	return status, body
}

// await waits for the outcome of a call. After a cancel the child has half of the grace to answer; the rest is for its
// end.
func (c *child) await(ctx context.Context, id wire.CallID, r *running) *wire.Outcome {
	done, late := ctx.Done(), (<-chan time.Time)(nil)
	for {
		select {
		case outcome := <-r.outcome:
			c.answered()
			return outcome
		case <-c.gone:
			select {
			case outcome := <-r.outcome: // the last line before its end
				return outcome
			default:
			}
			if ctx.Err() != nil {
				return &wire.Outcome{Cancelled: true, Text: "The program was killed: " + c.reason() + "."}
			}
			return nil
		case <-done:
			cancel := wire.Cancel{CallID: id, GraceMS: wire.CancelGrace.Milliseconds()}
			if cause, ok := errors.AsType[*remote.Cancelled](context.Cause(ctx)); ok {
				cancel = cause.Cancel
			}
			c.send(lineCancel, &cancel)
			timer := time.NewTimer(time.Duration(cancel.GraceMS) * time.Millisecond / 2)
			defer timer.Stop() // done is nil from now on
			done, late = nil, timer.C
		case <-late:
			c.rest(func() { r.overdue = true })
		}
	}
}

// rest changes the child's calls. It kills the child if only calls are left that did not answer a cancel, and tells if
// none is left.
func (c *child) rest(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	stuck := len(c.hooks) == 0 && len(c.calls) > 0
	for _, r := range c.calls {
		stuck = stuck && r.overdue
	}
	if stuck {
		c.closing = true
		c.end(errIgnored)
	}
	if len(c.calls)+len(c.hooks) == 0 && c.rested != nil {
		c.rested()
	}
}

func (c *child) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.useful = true
}

// hook calls a hook of the child. Errors: errNotOpen, the child's death, and the end of ctx.
func (c *child) hook(ctx context.Context, in *wire.HookCall) (*wire.HookResult, error) {
	line := *in
	line.Invocation = string(in.Session) + "/" + in.Invocation // turns of two sessions may have one id, and their hooks run at the same time
	result, key := make(chan *wire.HookResult, 1), hookKey{line.Invocation, line.Hook}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil, errNotOpen
	}
	c.hooks[key] = result
	c.mu.Unlock()
	defer c.rest(func() {
		if c.hooks[key] == result { // not that of a repeat
			delete(c.hooks, key)
		}
	})
	c.send(lineHook, &line)
	select {
	case out := <-result:
		c.answered()
		return out, nil
	case <-c.gone:
		return nil, fmt.Errorf("the program ended during the hook: %s", c.reason())
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// place sends the start of a session, and waits for its answer. Errors: a [*wire.Error] of the program.
func (c *child) place(ctx context.Context, start *wire.SessionStart) error {
	c.send(lineStart, start)
	select {
	case placed := <-c.placed:
		if placed.Error != nil {
			return placed.Error
		}
		return nil
	case <-c.gone:
		return fmt.Errorf("the program ended at the start of the session: %s", c.reason())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// died is the outcome of a call whose child died.
func died(repeatable bool, why string) *wire.Outcome {
	if !repeatable {
		return nil
	}
	return &wire.Outcome{Failure: &wire.Failure{
		Class: plugin.ClassExternal, Code: plugin.CodeTaskFailed, Message: "the program of the plugin ended during the call: " + why, Safe: true,
	}}
}

// notStarted is the outcome of a call that no child got.
func notStarted(err error) *wire.Outcome {
	return &wire.Outcome{Failure: &wire.Failure{
		Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: "the program of the plugin does not run: " + err.Error(), Safe: true,
	}}
}
