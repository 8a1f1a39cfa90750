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

// contain runs a plugin's function so that its panic, and its silence past the
// time of hooks, are errors. One that ignores its context is left behind.
func contain[T any](ctx context.Context, s *Session, owner, point string, fn func(context.Context) (T, error)) (T, error) {
	return within(ctx, s, s.host.timeout, owner, point, fn)
}

func within[T any](
	ctx context.Context, s *Session, limit time.Duration, owner, point string, fn func(context.Context) (T, error),
) (T, error) {
	defer s.host.probe("plugin_hook." + point + "." + owner)()
	return bounded(ctx, limit, owner, point, fn)
}

// forever is the limit of what its caller's context alone ends.
const forever time.Duration = 0

func bounded[T any](ctx context.Context, limit time.Duration, owner, point string, fn func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	if limit != forever {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	done := make(chan outcome, 1)
	go func() { // ends with the hook; nobody waits for one that was left behind
		o := outcome{err: errExited}
		defer func() { done <- o }()
		o.value, o.err = caught(owner, point, func() (T, error) { return fn(ctx) })
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

// errExited is a hook that ended its goroutine.
var errExited = errors.New("the hook ended its goroutine")

// caught makes the panic of a plugin's function an error.
func caught[T any](owner, point string, fn func() (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &HookError{Plugin: owner, Point: point, Panic: true, Err: fmt.Errorf("%v", p)}
		}
	}()
	return fn()
}

// hookError names the hook in an error that does not.
func hookError(owner, point string, err error) error {
	if _, ok := err.(*HookError); ok { //nolint:errorlint // only the outermost counts
		return err
	}
	return &HookError{Plugin: owner, Point: point, Err: err}
}

// Preamble asks the driver for its part in prompts with the tools, under the
// turn options that count. A panic of the driver is an error.
func (s *Session) Preamble(tools []events.ToolEntry, options json.RawMessage) (Preamble, error) {
	d := s.c.driver
	in := PreambleInput{Tools: tools, Extensions: s.build.Extensions, Options: options}
	return caught(d.Plugin, "preamble", func() (Preamble, error) { return d.Value.Preamble(in), nil })
}

// contained is a protocol whose panics, and whose silence past the time of hooks, are errors.
type contained struct {
	host  *Host
	owner string
	of    Protocol
}

func (c contained) call(ctx context.Context, limit time.Duration, callback string, fn func(context.Context) error) error {
	_, err := bounded(ctx, limit, c.owner, "protocol "+callback, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}

// Initialize implements [Protocol].
func (c contained) Initialize(ctx context.Context, s ProtocolSession) error {
	return c.call(ctx, c.host.timeout, "initialize", func(ctx context.Context) error { return c.of.Initialize(ctx, s) })
}

// Restore implements [Protocol].
func (c contained) Restore(ctx context.Context, s ProtocolSession, state *projector.State) error {
	return c.call(ctx, c.host.timeout, "restore", func(ctx context.Context) error { return c.of.Restore(ctx, s, state) })
}

// AppendNodes implements [Protocol].
func (c contained) AppendNodes(ctx context.Context, s ProtocolSession, nodes []api.AppendNode) error {
	return c.call(ctx, c.host.timeout, "append_nodes", func(ctx context.Context) error { return c.of.AppendNodes(ctx, s, nodes) })
}

// ApplyExtension implements [Protocol].
func (c contained) ApplyExtension(ctx context.Context, e events.Extension) error {
	return c.call(ctx, c.host.timeout, "apply_extension", func(ctx context.Context) error { return c.of.ApplyExtension(ctx, e) })
}

// ValidateTurn implements [Protocol].
func (c contained) ValidateTurn(ctx context.Context, in events.TurnInput) error {
	return c.call(ctx, c.host.timeout, "validate_turn", func(ctx context.Context) error { return c.of.ValidateTurn(ctx, in) })
}

// Configure implements [Protocol].
func (c contained) Configure(ctx context.Context, rt *ProtocolRuntime, m Materialization) error {
	return c.call(ctx, c.host.timeout, "configure", func(ctx context.Context) error { return c.of.Configure(ctx, rt, m) })
}

// BeforeModelCall implements [Protocol]. It may ask a model, so it has a compactor's time.
func (c contained) BeforeModelCall(ctx context.Context, in ModelCallContext) (s *events.FrameSwitch, err error) {
	return bounded(ctx, max(c.host.timeout, compactTimeout), c.owner, "protocol before_model_call",
		func(ctx context.Context) (*events.FrameSwitch, error) { return c.of.BeforeModelCall(ctx, in) })
}
