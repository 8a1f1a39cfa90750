package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// HookOptions limit the hooks of one point.
type HookOptions struct {
	Tools   []string      // at the points of tool calls: only calls of these tools; empty: all
	Timeout time.Duration // of all hooks of the point together, at most 15 s. Defaults to 5 s
	// Open skips the point's hooks where they fail, and the history says so. It is not for before_tool_call.
	Open bool
}

// CustomFunc receives what another plugin fires at a custom point. in.FiredBy is this plugin; in.Session is what it
// says. The sender gets the error's text.
type CustomFunc func(ctx context.Context, in wire.HookCall) error

// hookFunc answers the requests for one hook.
type hookFunc func(ctx context.Context, in *wire.HookCall) ([]plugin.Directive, error)

// hooksOf are the hooks of a plugin: one of each point, whose name is the point and which calls all functions.
func hooksOf(d *plugin.Declared, cfg *Config) ([]wire.Hook, map[string]hookFunc, error) {
	funcs := make(map[string]hookFunc)
	declare := func(point events.HookPoint, n int, run hookFunc) {
		if n > 0 {
			funcs[string(point)] = run
		}
	}
	declare(events.PointBeforeTurn, len(d.BeforeTurn), all(d.BeforeTurn, turnContext))
	declare(events.PointBeforeModel, len(d.BeforeModelCall), all(d.BeforeModelCall, modelContext))
	declare(events.PointBeforeTool, len(d.BeforeToolCall), all(d.BeforeToolCall, toolContext))
	declare(events.PointAfterTool, len(d.AfterToolCall), all(d.AfterToolCall, resultContext))
	declare(events.PointCheckpoint, len(d.Checkpoint), all(d.Checkpoint, checkpointContext))
	declare(events.PointAfterTurn, len(d.AfterTurn), all(d.AfterTurn, endContext))
	for _, kind := range []plugin.LifecycleKind{plugin.TurnFinalized, plugin.TurnPersisted, plugin.SessionRestored, plugin.SessionConfigChanged} {
		declare(events.HookPoint(kind), len(d.Lifecycle), observed(d.Lifecycle))
	}
	for name, fn := range cfg.Custom {
		declare(events.HookPoint("custom."+name), 1, func(ctx context.Context, in *wire.HookCall) ([]plugin.Directive, error) { return nil, fn(ctx, *in) })
	}
	var list []wire.Hook
	for point := range funcs {
		o := cfg.Hooks[events.HookPoint(point)]
		list = append(list, wire.Hook{
			Name: strings.ReplaceAll(point, ".", "_"), Point: point, Tools: o.Tools, TimeoutMS: o.Timeout.Milliseconds(), Open: o.Open,
		})
	}
	slices.SortFunc(list, func(a, b wire.Hook) int { return cmp.Compare(a.Name, b.Name) })
	for point := range cfg.Hooks {
		if funcs[string(point)] == nil {
			return nil, nil, &events.FieldError{Field: "config.hooks", Reason: fmt.Sprintf("the plugin has no hook at %.100q", point), Err: events.ErrInvalid}
		}
	}
	return list, funcs, nil
}

// all runs the functions of a point in order.
func all[C any](list []plugin.HookFunc[C], input func(*wire.HookCall) C) hookFunc {
	return func(ctx context.Context, in *wire.HookCall) ([]plugin.Directive, error) {
		var directives []plugin.Directive
		for _, fn := range list {
			more, err := fn(ctx, input(in))
			if err != nil {
				return nil, err
			}
			directives = append(directives, more...)
		}
		return directives, nil
	}
}

func observed(list []plugin.LifecycleFunc) hookFunc {
	return func(ctx context.Context, in *wire.HookCall) ([]plugin.Directive, error) {
		var errs []error
		for _, fn := range list {
			errs = append(errs, fn(ctx, plugin.Lifecycle{Kind: plugin.LifecycleKind(in.Point), Session: in.Session, Turn: in.Turn, Host: plugin.Absent{}}))
		}
		return nil, errors.Join(errs...)
	}
}

func turnContext(in *wire.HookCall) plugin.TurnContext {
	return plugin.TurnContext{
		Session: in.Session, Turn: in.Turn, Effect: events.EffectID(in.Invocation), Host: plugin.Absent{},
		Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: in.Input}}},
	}
}

func modelContext(in *wire.HookCall) plugin.ModelContext {
	return plugin.ModelContext{
		Session: in.Session, Turn: in.Turn, Effect: events.EffectID(in.Invocation), Iteration: in.Iteration,
		LastPrompt: in.LastPrompt, Window: in.Window, Host: plugin.Absent{},
	}
}

func checkpointContext(in *wire.HookCall) plugin.CheckpointContext {
	return plugin.CheckpointContext{Session: in.Session, Turn: in.Turn, Effect: events.EffectID(in.Invocation), At: in.At, Host: plugin.Absent{}}
}

func endContext(in *wire.HookCall) plugin.TurnResultContext {
	out := plugin.TurnResultContext{Session: in.Session, Turn: in.Turn, Effect: events.EffectID(in.Invocation), Host: plugin.Absent{}}
	if e := in.Ending; e != nil {
		out.Ending = events.TurnCompleted{End: e.End, Issue: events.Issue{Kind: e.Kind, Code: e.Code, Message: e.Message}, Tool: e.Tool}
	}
	return out
}

// callOf is the tool call of a request. Requests of the points of calls have one.
func callOf(in *wire.HookCall) plugin.Call {
	c := in.Call
	return plugin.Call{
		Session: in.Session, Turn: in.Turn, Effect: c.Call, ID: c.Model, Key: c.Key, Again: c.Again, Once: c.Once, Inner: c.Inner, Host: plugin.Absent{},
	}
}

func toolContext(in *wire.HookCall) plugin.ToolContext {
	return plugin.ToolContext{Call: callOf(in), Tool: in.Call.Tool, Args: slices.Clone(in.Call.Args), Host: plugin.Absent{}}
}

func resultContext(in *wire.HookCall) plugin.ToolResultContext {
	out := plugin.ToolResultContext{
		Call: callOf(in), Tool: in.Call.Tool, Args: slices.Clone(in.Call.Args), Millis: in.Call.Millis, Host: plugin.Absent{},
	}
	if r := in.Call.Result; r != nil {
		out.Result = plugin.Result{Text: r.Text, Outcome: r.Outcome}
	}
	return out
}

// hook handles a request for a hook in a goroutine of its own, so that no hook waits for another one, or for a call.
func (i *Instance) hook(m *nats.Msg) {
	i.calls.hooked(1)
	begun := i.begin(func() {
		defer i.calls.hooked(-1)
		answer := i.runHook(m.Data)
		if answer == nil {
			return
		}
		data, err := json.Marshal(answer)
		if err == nil && len(data) > wire.MaxHookAnswer {
			data, err = json.Marshal(refusedHook(wire.CodeTooLarge, fmt.Errorf("the directives have %d bytes, limit is %d", len(data), wire.MaxHookAnswer)))
		}
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			i.cfg.Logger.Warn("the answer of a hook could not be sent", zap.Error(err))
		}
	})
	if !begun {
		i.calls.hooked(-1) // the node has no answer: it asks another instance, or the hook fails as its point says
	}
}

func refusedHook(code string, err error) *wire.HookResult {
	return &wire.HookResult{Error: &wire.Error{Code: code, Message: err.Error()}}
}

// hasHook refuses a hook that the plugin does not have, and one without the fields of its point.
func (i *Instance) hasHook(in *wire.HookCall) *wire.Error {
	ofCall := in.Point == string(events.PointBeforeTool) || in.Point == string(events.PointAfterTool)
	switch {
	case !slices.ContainsFunc(i.manifest.Hooks, func(h wire.Hook) bool { return h.Name == in.Hook && h.Point == in.Point }):
		return &wire.Error{Code: wire.CodeBadRequest, Field: "hook", Message: fmt.Sprintf("no hook %.100q at %.100q", in.Hook, in.Point)}
	case ofCall && in.Call == nil:
		return &wire.Error{Code: wire.CodeBadRequest, Field: "call", Message: "is required at this point"}
	}
	return nil
}

// runHook runs a hook. It returns nil if the time of the hook is over: the node no longer waits for the result.
func (i *Instance) runHook(data []byte) *wire.HookResult {
	var in wire.HookCall
	if err := json.Unmarshal(data, &in); err != nil {
		return refusedHook(wire.CodeBadRequest, err)
	}
	if i.isForeign(in.Term) {
		return nil
	}
	if err := i.hasHook(&in); err != nil {
		return &wire.HookResult{Error: err}
	}
	if in.Epoch > 0 && i.cfg.Scope == wire.ScopeSession {
		p := i.sessions.useHook(in.Session, in.Epoch)
		if p == nil {
			return refusedHook(wire.CodeNotOwner, fmt.Errorf("session %s is not placed on this instance with epoch %d", in.Session, in.Epoch))
		}
		defer i.sessions.done(p)
	}
	ctx, cancel := context.WithTimeout(i.ctx, time.Duration(in.DeadlineMS)*time.Millisecond)
	defer cancel()
	if p, ok := i.cfg.Plugin.(Program); ok {
		return p.Hook(ctx, &in)
	}
	list, err := i.recovered(ctx, i.hooks[in.Point], &in)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return nil
	}
	answer := &wire.HookResult{}
	for n := 0; n < len(list) && err == nil; n++ {
		var d wire.Directive
		d, err = wireDirective(&list[n])
		answer.Directives = append(answer.Directives, d)
	}
	if err != nil {
		return refusedHook(wire.CodeInternal, err)
	}
	return answer
}

// recovered runs a hook. A panic is an error.
func (i *Instance) recovered(ctx context.Context, run hookFunc, in *wire.HookCall) (list []plugin.Directive, err error) {
	defer func() {
		if p := recover(); p != nil {
			i.cfg.Logger.Error("hook panicked", zap.String("point", in.Point), zap.ByteString("stack", debug.Stack()))
			list, err = nil, fmt.Errorf("hook panicked: %v", p)
		}
	}()
	return run(ctx, in)
}

// Fire calls the hooks of all other plugins at a custom point, and returns the names of the plugins whose hooks
// returned. data is JSON; session may be empty, or any session. Errors: a [*wire.Error] if a node refuses the request, and an error of
// NATS if no node answers until ctx ends.
func (i *Instance) Fire(ctx context.Context, name string, session events.SessionID, data json.RawMessage) (reached []string, err error) {
	body, err := json.Marshal(&wire.Fire{Point: "custom." + name, Session: session, Data: data})
	if err != nil {
		return nil, fmt.Errorf("fire %s: %w", name, err)
	}
	m, err := i.cfg.Conn.RequestWithContext(ctx, i.cfg.Prefix+".plugins."+i.cfg.Plugin.ID()+"."+wire.VerbFire, body)
	if err != nil {
		return nil, fmt.Errorf("fire %s: %w", name, err)
	}
	var fired wire.Fired
	if err := json.Unmarshal(m.Data, &fired); err != nil {
		return nil, fmt.Errorf("fire %s: %w", name, err)
	}
	if fired.Error != nil {
		return fired.Reached, fmt.Errorf("fire %s: %w", name, fired.Error)
	}
	return fired.Reached, nil
}
