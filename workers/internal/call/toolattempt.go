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
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// attempts runs a tool under its retry policy, or passes the call to a node with the tool role. It returns the number
// of attempts.
func (d *dispatch) attempts(ctx context.Context, tool *plugin.BoundTool, args []byte) (plugin.Result, int, error) {
	if tool.Portable && !d.inner && !d.env.RunsTools {
		err := d.registerPortable(ctx, tool, args)
		return plugin.Result{Pending: err == nil}, 1, err
	}
	call := d.pluginCall().WithNested(d.nestedAll).WithAsk(d.ask)
	if d.record != nil {
		call = call.WithSave(func(ctx context.Context) error { return d.record(ctx) })
	}
	for n := 1; ; n++ {
		call.Attempt = n
		shown := &printer{d: d, attempt: int64(n)}
		result, err := d.attempt(ctx, tool, call.WithOutput(shown.print), args)
		shown.close()
		var failure *plugin.Failure
		if err == nil || ctx.Err() != nil || n >= tool.Retry.Attempts || !errors.As(err, &failure) || !failure.Safe {
			return result, n, err
		}
		if !delay.Sleep(ctx, retryWait(tool.Retry, failure, n)) {
			return result, n, context.Canceled
		}
	}
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
	result, err = tool.Handler(ctx, call.WithPending(&promised), args)
	if bad := result.Check(); err == nil && bad != nil {
		err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodeTaskFailed, Message: fmt.Sprintf("the tool returned garbage: %v", bad)}
	}
	if err == nil && result.Pending && !promised {
		err = &plugin.Failure{Class: plugin.ClassInternal, Code: plugin.CodePendingKey, Message: "the tool returned a pending result and asked for no completion key"}
	}
	return result, err
}
