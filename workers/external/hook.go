package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/registry"
	"github.com/lash-go/lash/workers/external/internal/result"
)

// hookHops is the number of instances that receive a call of a hook, one after the other where one dies with it. Those
// that are gone before do not count.
const hookHops = 2

// errNotCalled is a hook that no instance has received.
var errNotCalled = errors.New("its hook was not called")

// hookAt registers one function for the manifest's hooks at a point. input is the request for them.
func hookAt[C any](o *sessionPlugin, point events.HookPoint, register func(plugin.HookFunc[C]), input func(C) wire.HookCall) {
	if list := registry.At(o.manifest, string(point)); list != nil {
		register(func(ctx context.Context, in C) ([]plugin.Directive, error) { return o.decide(ctx, list, input(in)) })
	}
}

// registerHooks registers one function for each point of the manifest's hooks, and its texts for prompts.
func (o *sessionPlugin) registerHooks(r *plugin.Registrar) {
	hookAt(o, events.PointBeforeTurn, r.BeforeTurn, func(in plugin.TurnContext) wire.HookCall {
		return wire.HookCall{
			Invocation: string(in.Effect), Session: in.Session, Turn: in.Turn, Messages: len(in.View.Messages),
			Input: events.Message{Parts: in.Input.Parts}.Text(),
		}
	})
	hookAt(o, events.PointBeforeModel, r.BeforeModelCall, func(in plugin.ModelContext) wire.HookCall {
		return wire.HookCall{
			Invocation: string(in.Effect), Session: in.Session, Turn: in.Turn, Messages: len(in.View.Messages),
			Iteration: in.Iteration, LastPrompt: in.LastPrompt, Window: in.Window,
		}
	})
	hookAt(o, events.PointBeforeTool, r.BeforeToolCall, func(in plugin.ToolContext) wire.HookCall {
		return hookedCall(in.Call, &wire.HookedCall{Tool: in.Tool, Args: in.Args})
	})
	hookAt(o, events.PointAfterTool, r.AfterToolCall, func(in plugin.ToolResultContext) wire.HookCall {
		return hookedCall(in.Call, &wire.HookedCall{
			Tool: in.Tool, Args: in.Args, Result: &wire.HookedResult{Text: in.Result.Text, Outcome: in.Result.Outcome}, Millis: in.Millis,
		})
	})
	hookAt(o, events.PointCheckpoint, r.Checkpoint, func(in plugin.CheckpointContext) wire.HookCall {
		return wire.HookCall{Invocation: string(in.Effect), Session: in.Session, Turn: in.Turn, At: in.At}
	})
	hookAt(o, events.PointAfterTurn, r.AfterTurn, func(in plugin.TurnResultContext) wire.HookCall {
		return wire.HookCall{
			Invocation: string(in.Effect), Session: in.Session, Turn: in.Turn, Ending: ending(in.Ending.End, in.Ending.Issue, in.Ending.Tool),
		}
	})
	if len(o.manifest.Prompt) > 0 {
		r.Prompt(func(context.Context, plugin.PromptContext) (list []events.Contribution, err error) {
			for i := range o.manifest.Prompt {
				list = append(list, o.manifest.Prompt[i].Contribution())
			}
			return list, nil
		})
	}
}

// hookedCall is the request for a hook at a tool call.
func hookedCall(call plugin.Call, c *wire.HookedCall) wire.HookCall {
	c.Call, c.Model, c.Key, c.Again, c.Once, c.Inner = call.Effect, call.ID, call.Key, call.Again, call.Once, call.Inner
	return wire.HookCall{Invocation: string(call.Effect), Session: call.Session, Turn: call.Turn, Call: c}
}

func ending(end events.TurnEnd, issue events.Issue, tool string) *wire.Ending {
	return &wire.Ending{End: end, Kind: issue.Kind, Code: issue.Code, Message: issue.Message, Tool: tool}
}

// decide calls the hooks of a point in order. After an abort before a tool call the later ones are not called: the
// call does not run.
func (o *sessionPlugin) decide(ctx context.Context, list []wire.Hook, in wire.HookCall) (all []plugin.Directive, err error) {
	within, cancel := share(ctx)
	defer cancel()
	for i := range list {
		h := &list[i]
		if in.Call != nil && !h.Wants(in.Call.Tool) {
			continue
		}
		directives, err := o.callHook(within, h, in)
		if err == nil {
			err = o.mayDirect(&in, directives)
		}
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && h.Open:
			directives = skipped(h, err)
		case err != nil:
			return nil, fmt.Errorf("hook %s: %w", h.Name, err)
		}
		all = append(all, directives...)
		if h.Point == string(events.PointBeforeTool) && aborts(directives) {
			break
		}
	}
	return all, nil
}

// callHook calls a hook on an instance, which is the session's own for plugins of scope session. Where that is gone, or
// has ended the session, the session moves.
func (o *sessionPlugin) callHook(ctx context.Context, h *wire.Hook, in wire.HookCall) ([]plugin.Directive, error) {
	if !o.placed() {
		return o.p.callHook(ctx, o.name, "", h, in)
	}
	o.begin()
	defer o.end()
	for hops, tries := 0, 1; ; tries++ {
		at, err := o.readyFor(ctx, plugin.SaveOf(ctx))
		if err != nil {
			return nil, err
		}
		in.Epoch = at.Epoch
		list, err := o.p.callHook(ctx, o.name, at.Instance, h, in)
		if errors.Is(err, errGone) || errors.Is(err, result.ErrNotOwner) {
			hops++
		} else if !errors.Is(err, errNotCalled) {
			return list, err
		}
		if hops >= hookHops || tries >= maxTried {
			return list, err
		}
		o.endEpoch(at.Epoch)
	}
}

// mayDirect refuses changes of calls of tools that are not the plugin's, and of the session's instructions and frame, unless
// the operator allows them.
func (o *sessionPlugin) mayDirect(in *wire.HookCall, list []plugin.Directive) error {
	if o.p.registry.Settings(o.name).ChangesOthers {
		return nil
	}
	own := false
	if in.Call != nil {
		_, own = o.offer.Tools.Find(in.Call.Tool)
	}
	for i := range list {
		switch k := list[i].Kind; k { //nolint:exhaustive // the others change nothing of others
		case events.DirectiveReplaceArgs, events.DirectiveShortCircuit:
			if !own {
				return fmt.Errorf("%s of tool %s, which is not of plugin %s: the operator allows it with changes_others", k, in.Call.Tool, o.name)
			}
		case events.DirectiveSystemPrompt, events.DirectiveSwitch:
			return fmt.Errorf("directives[%d].kind: the operator allows %s of plugin %s with changes_others", i, k, o.name)
		}
	}
	return nil
}

// share leaves a tenth of the time that the host gives a point: a hook that hangs must fail before the point does.
func share(ctx context.Context) (context.Context, context.CancelFunc) {
	end, limited := ctx.Deadline()
	if !limited {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(end)*9/10)
}

func aborts(list []plugin.Directive) bool {
	for i := range list {
		if list[i].Kind == events.DirectiveAbort {
			return true
		}
	}
	return false
}

// skipped says in the history that a hook failed and was left out.
func skipped(h *wire.Hook, err error) []plugin.Directive {
	payload, _ := json.Marshal(wire.Skipped{Hook: h.Name, Reason: result.Clip(err.Error())}) // strings only
	return []plugin.Directive{plugin.Trace(wire.SkippedHook, payload)}
}

// callHook sends a request for a hook to an instance, and returns the directives of its answer. Where that dies with the
// hook, another one gets the request in the rest of the time. Errors: [errNotCalled], and others where an instance may have
// received the request. only names the one instance to call; empty: any.
func (p *Plugins) callHook(ctx context.Context, name, only string, h *wire.Hook, in wire.HookCall) ([]plugin.Directive, error) {
	limit := wire.HookTimeout
	if h.TimeoutMS > 0 {
		limit = time.Duration(h.TimeoutMS) * time.Millisecond
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in time, limit is %s", limit))
	defer cancel()
	in.Hook, in.Point = h.Name, h.Point
	var tried []string
	failed, received := errNotCalled, 0
	for received < hookHops && len(tried) < maxTried {
		id := only
		if id == "" {
			id = p.registry.Pick(name, wire.CallID{Session: in.Session}, tried...)
		}
		if id == "" || slices.Contains(tried, id) {
			break
		}
		in.Term, _ = p.registry.Term(name, id)
		body, err := hookBody(ctx, in)
		if err != nil {
			return nil, err
		}
		alive, end := p.whileAlive(ctx, name, id)
		answer, sent := p.bus.RequestInstance(alive, name, id, wire.VerbHook, body)
		end()
		switch {
		case sent == nil:
			return result.Directives(events.HookPoint(h.Point), answer)
		case errors.Is(sent, errGone):
			failed, received = errGone, received+1
			in.Redelivered = wire.KindOf(h.Point) != wire.PointDecides
		case !errors.Is(sent, bus.ErrNoResponder):
			return nil, sent
		case only == "":
			p.registry.Gone(name, id)
		}
		tried = append(tried, id)
	}
	if received == 0 {
		if _, err := hookBody(ctx, in); err != nil { // no instance would get it
			return nil, err
		}
	}
	return nil, fmt.Errorf("no instance of plugin %s runs: %w", name, failed)
}

// hookBody is the request for a hook, which has the time until ctx ends.
func hookBody(ctx context.Context, in wire.HookCall) ([]byte, error) {
	end, _ := ctx.Deadline()
	in.DeadlineMS = time.Until(end).Milliseconds()
	body, err := json.Marshal(&in)
	if err == nil && len(body) > wire.MaxHookCall {
		err = fmt.Errorf("the call of the hook has %d bytes, limit is %d", len(body), wire.MaxHookCall)
	}
	return body, err
}

// whileAlive is a context that ends with errGone when an instance has sent no sign of life for its lease.
func (p *Plugins) whileAlive(ctx context.Context, name, id string) (alive context.Context, end func()) {
	alive, cancel := context.WithCancelCause(ctx)
	var look *time.Timer
	look = time.AfterFunc(math.MaxInt64, func() {
		if left := p.registry.Lease(name, id); left > 0 {
			look.Reset(left)
			return
		}
		cancel(errGone)
	})
	look.Reset(p.registry.Lease(name, id))
	return alive, func() {
		look.Stop()
		cancel(nil)
	}
}
