package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// contain runs a hook of a plugin. A panic and a timeout become errors. A hook that ignores its context keeps running
// in its goroutine.
func contain[T any](ctx context.Context, s *Stack, owner, point string, fn func(context.Context) (T, error)) (T, error) {
	return containFor(ctx, s, s.builder.timeout, owner, point, fn)
}

func containFor[T any](
	ctx context.Context, s *Stack, limit time.Duration, owner, point string, fn func(context.Context) (T, error),
) (T, error) {
	defer s.builder.probe("plugin_hook." + point + "." + owner)()
	return runContained(ctx, limit, owner, point, fn)
}

// noTimeout leaves the end of a run to the caller's context.
const noTimeout time.Duration = 0

func runContained[T any](ctx context.Context, limit time.Duration, owner, point string, fn func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	if limit != noTimeout {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	done := make(chan outcome, 1)
	go func() { // ends with the hook; the owner does not wait for a hook that ignores its context
		o := outcome{err: errExited}
		defer func() { done <- o }()
		o.value, o.err = recovered(owner, point, func() (T, error) { return fn(ctx) })
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		select {
		case o := <-done:
			return o.value, o.err
		default:
		}
		var none T
		return none, &HookError{Plugin: owner, Point: point, Hung: true, Err: context.Cause(ctx)}
	}
}

// errExited is the error of a hook that ended its goroutine with runtime.Goexit.
var errExited = errors.New("the hook ended its goroutine")

// recovered converts a panic of a plugin's function into an error.
func recovered[T any](owner, point string, fn func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &HookError{Plugin: owner, Point: point, Panic: true, Err: fmt.Errorf("%v", p)}
		}
	}()
	return fn()
}

// hookError names the hook in an error, unless the error names it already.
func hookError(owner, point string, err error) error {
	if _, ok := err.(*HookError); ok { //nolint:errorlint // only the outermost counts
		return err
	}
	return &HookError{Plugin: owner, Point: point, Err: err}
}

// Preamble runs the driver for the tools and the effective turn options. A panic of the driver is an error.
func (s *Stack) Preamble(tools []events.ToolEntry, options json.RawMessage) (Preamble, error) {
	d := s.c.driver
	in := PreambleInput{Tools: tools, Extensions: s.build.Extensions, Options: options}
	return recovered(d.Plugin, "preamble", func() (Preamble, error) { return d.Value.Preamble(in), nil })
}

// containedProtocol runs a protocol's callbacks as contain runs hooks.
type containedProtocol struct {
	builder  *Builder
	owner    string
	protocol Protocol
}

func (c containedProtocol) call(ctx context.Context, limit time.Duration, callback string, fn func(context.Context) error) error {
	_, err := runContained(ctx, limit, c.owner, "protocol "+callback, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

func (c containedProtocol) Initialize(ctx context.Context, s ProtocolSession) error {
	return c.call(ctx, c.builder.timeout, "initialize", func(ctx context.Context) error { return c.protocol.Initialize(ctx, s) })
}

func (c containedProtocol) Restore(ctx context.Context, s ProtocolSession, state *projector.State) error {
	return c.call(ctx, c.builder.timeout, "restore", func(ctx context.Context) error { return c.protocol.Restore(ctx, s, state) })
}

func (c containedProtocol) AppendNodes(ctx context.Context, s ProtocolSession, nodes []api.AppendNode) error {
	return c.call(ctx, c.builder.timeout, "append_nodes", func(ctx context.Context) error { return c.protocol.AppendNodes(ctx, s, nodes) })
}

func (c containedProtocol) ApplyExtension(ctx context.Context, e events.Extension) error {
	return c.call(ctx, c.builder.timeout, "apply_extension", func(ctx context.Context) error { return c.protocol.ApplyExtension(ctx, e) })
}

func (c containedProtocol) ValidateTurn(ctx context.Context, in events.TurnInput) error {
	return c.call(ctx, c.builder.timeout, "validate_turn", func(ctx context.Context) error { return c.protocol.ValidateTurn(ctx, in) })
}

func (c containedProtocol) Configure(ctx context.Context, rt *ProtocolRuntime, m Materialization) error {
	return c.call(ctx, c.builder.timeout, "configure", func(ctx context.Context) error { return c.protocol.Configure(ctx, rt, m) })
}

// BeforeModelCall implements [Protocol]. Its timeout is that of compactors, because it may call a model.
func (c containedProtocol) BeforeModelCall(ctx context.Context, in ModelCallContext) (s *events.FrameSwitch, err error) {
	return runContained(ctx, max(c.builder.timeout, compactTimeout), c.owner, "protocol before_model_call",
		func(ctx context.Context) (*events.FrameSwitch, error) { return c.protocol.BeforeModelCall(ctx, in) })
}
