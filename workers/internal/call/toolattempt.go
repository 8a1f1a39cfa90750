package call

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// attempts runs a tool under its retry policy, and again where the servers failed it and it may run twice; or passes the call to a node
// with the tool role, or with the tool. It returns the number of attempts.
func (d *dispatch) attempts(ctx context.Context, tool *plugin.BoundTool, args []byte) (plugin.Result, int, error) {
	at := tool.At()
	switch {
	case !d.inner && (tool.Portable && !d.env.RunsTools || at == plugin.WhereElsewhere):
		err := d.registerPortable(ctx, tool, args)
		return plugin.Result{Pending: err == nil}, 1, err
	case at != plugin.WhereHere:
		return plugin.Result{}, 1, notHere(tool, at)
	}
	call := d.pluginCall()
	call.Run.Nested, call.Run.Ask = d.nestedAll, d.ask
	if d.record != nil {
		call.Run.Save = func(ctx context.Context) error { return d.record(ctx) }
	}
	began := time.Now()
	for n := 1; ; n++ {
		call.Attempt = n
		shown := &printer{d: d, attempt: int64(n)}
		call.Run.Output = shown.print
		result, err := d.attempt(ctx, tool, call, args)
		shown.close()
		var failure *plugin.Failure
		var wait time.Duration
		switch {
		case err == nil || ctx.Err() != nil:
			return result, n, err
		case errors.As(err, &failure) && failure.Safe && n < tool.Retry.Attempts:
			wait = retryWait(tool.Retry, failure, n)
		case events.OfServers(err) && tool.Effects != events.EffectsNonIdempotent && time.Since(began) < serversWait:
			wait = delay.Backoff(100*time.Millisecond, 5*time.Second, n)
		default:
			return result, n, err
		}
		if !delay.Sleep(ctx, wait) {
			return result, n, context.Canceled
		}
		if err := d.recordAttempt(ctx, n+1); err != nil {
			return result, n, err
		}
	}
}

// serversWait is how long a call that may run again is tried again where the servers failed what it asked of its host.
const serversWait = 2 * time.Minute

// notHere is the failure of a call whose tool this process does not have.
func notHere(tool *plugin.BoundTool, at plugin.Where) error {
	why := fmt.Sprintf("no node has %s now, which runs tool %q: the call did not start", tool.Source, tool.Name)
	if at == plugin.WhereElsewhere {
		why = fmt.Sprintf("%s, which runs tool %q, is on another node: calls inside of other calls do not go there", tool.Source, tool.Name)
	}
	return &plugin.Failure{Class: plugin.ClassUnavailable, Code: plugin.CodeUnavailable, Message: why}
}

// recordAttempt records a further attempt of a call of a turn that must not run twice, before it begins. A call inside of another one is a
// part of that.
func (d *dispatch) recordAttempt(ctx context.Context, n int) error {
	t := d.at.state.Turn()
	if d.record == nil || d.inner || t == nil || !d.at.runsOnce(d.call.Tool) {
		return nil
	}
	return d.record(ctx, &events.ToolCalled{Iteration: t.Iteration, Calls: []int64{d.call.Index}, Attempt: int64(n)})
}

// retryWait is the wait after try n, from 1.
func retryWait(policy plugin.Retry, failure *plugin.Failure, n int) time.Duration {
	limit := policy.Max
	if limit <= 0 {
		limit = math.MaxInt64
	}
	if failure.After > 0 {
		return min(failure.After, limit)
	}
	return delay.Backoff(policy.Base, limit, n)
}

// attempt runs a tool once, within its timeout. A panic of the tool, and a result that cannot be recorded, fail the
// call.
func (d *dispatch) attempt(ctx context.Context, tool *plugin.BoundTool, call plugin.Call, args []byte) (result plugin.Result, err error) {
	if tool.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, tool.Timeout)
		defer cancel()
	}
	defer func() {
		if p := recover(); p != nil {
			d.env.Log.Error("tool panicked", zap.String("session", string(call.Session)), zap.String("call", string(call.Effect)), zap.ByteString("stack", debug.Stack()))
			err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("tool panicked: %v", p)}
		}
	}()
	promised := false
	at := api.TraceContextOf(d.at.state)
	ctx = tracing.Under(ctx, tracing.SpanKey{Session: call.Session, Turn: call.Turn, What: string(call.Effect), Client: at.Client})
	call.Run.Pending = &promised
	result, err = tool.Handler(ctx, call, args)
	if bad := result.Check(); err == nil && bad != nil {
		err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("the tool returned garbage: %v", bad)}
	}
	if err == nil && result.Pending && !promised {
		err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodePendingKey, Message: "the tool returned a pending result and asked for no completion key"}
	}
	return result, err
}
