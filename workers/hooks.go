package workers

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// startHooks asks the plugins at the point that the state owes.
func (r *run) startHooks(ctx context.Context, owes turn.Owes) error {
	effect := turn.HookEffect(owes)
	if _, flies := r.flights[effect]; flies {
		return nil
	}
	h := &hooks{seen: r.seen(), stack: r.stack.Session, owes: owes, effect: effect}
	if owes.Hooks == events.PointBeforeTurn {
		preamble, err := r.preamble()
		if err != nil {
			return r.step(ctx, turn.Broken{Iteration: owes.Iteration, Issue: issueOf("protocol", "protocol_preamble", err)})
		}
		h.preamble = preamble
	}
	r.fly(ctx, owes.Turn, effect, "", h.run)
	return nil
}

// hooks asks a session's plugins at one point.
type hooks struct {
	*seen
	stack    *plugin.Session
	owes     turn.Owes
	effect   events.EffectID
	preamble plugin.Preamble
	in       turn.Hooks
}

// run answers a [turn.Hooks], or nil when it was cancelled.
func (h *hooks) run(ctx context.Context) turn.Input {
	h.in.Ran = events.HookRan{Point: h.owes.Hooks, At: h.owes.At, Iteration: h.owes.Iteration}
	switch h.owes.Hooks {
	case events.PointBeforeTurn:
		h.beforeTurn(ctx)
	case events.PointBeforeTool:
		h.beforeTools(ctx)
	case events.PointCheckpoint:
		list, err := h.stack.AtCheckpoint(ctx, plugin.CheckpointContext{
			Session: h.session, Turn: h.turn, At: h.owes.At, View: h.view, Host: h.host(h.effect),
		})
		h.conclude(ctx, "plugin_checkpoint", list, err)
	case events.PointAfterTurn:
		h.afterTurn(ctx)
	case events.PointAfterTool, events.PointReply: // part of the calls, and of the reply
	}
	if ctx.Err() != nil {
		return nil
	}
	return h.in
}

// fail drops what the hooks decided: what their failure does is the machine's to say.
func (h *hooks) fail(code string, err error) {
	ran := events.HookRan{Point: h.owes.Hooks, At: h.owes.At, Iteration: h.owes.Iteration, Issue: issueOf("plugin", code, err)}
	if failed, ok := errors.AsType[*plugin.HookError](err); ok {
		ran.Failed = failed.Plugin
	}
	h.in = turn.Hooks{Ran: ran, Beside: h.in.Beside}
}

// conclude carries out what hooks asked for.
func (h *hooks) conclude(ctx context.Context, code string, list []plugin.Owned[plugin.Directive], err error) {
	if err == nil {
		var c carried
		if c, err = h.carryOut(ctx, h.effect, list); err == nil {
			h.in.Ran.Decisions, h.in.Messages, h.in.Abort = c.decisions, c.messages, c.abort
			err = errors.Join(tooLarge(&h.in.Ran), tooLarge(appended(c.messages)))
		}
	}
	if err != nil {
		h.fail(code, err)
	}
}

// beforeTurn shapes the context, asks the hooks, and gathers the prompt (host specification 3.3).
func (h *hooks) beforeTurn(ctx context.Context) {
	prepared := events.TurnPrepared{Kept: true}
	if h.stack.HasTransforms() {
		if err := h.prepareContext(ctx, &prepared); err != nil {
			h.fail("context_prepare_turn", err)
			return
		}
	}
	list, err := h.stack.BeforeTurn(ctx, plugin.TurnContext{
		Session: h.session, Turn: h.turn, Input: h.input, View: h.view, Host: h.host(h.effect),
	})
	if h.conclude(ctx, "plugin_prepare_turn", list, err); !h.in.Ran.Issue.IsZero() || h.in.Abort != nil {
		return
	}
	if err := h.contribute(ctx, &prepared); err != nil {
		h.in.Stopped = &events.Issue{Kind: "plugin_prompt", Message: clip(err.Error())}
		return
	}
	if prepared.Viewed || !prepared.Kept {
		h.in.Prepared = &prepared
	}
}

func (h *hooks) prepareContext(ctx context.Context, prepared *events.TurnPrepared) error {
	shown := h.view.Messages
	filled, err := session.Fill(ctx, h.w.blobs, shown)
	if err != nil {
		return err
	}
	now, err := h.stack.PrepareContext(ctx, plugin.TransformContext{
		Session: h.session, Turn: h.turn, Input: h.input, State: h.copy(), LastPrompt: h.state.Prompted, Host: h.host(h.effect),
	}, plugin.Prepared{Messages: own(filled)})
	if err != nil {
		return err
	}
	if now.Overlay != nil {
		if err := h.overlay(*now.Overlay); err != nil {
			return err
		}
	}
	if !projector.SameMessages(filled, now.Messages) {
		prepared.Viewed, prepared.Upto, prepared.View = true, h.state.Leaf, projector.ViewItems(filled, now.Messages)
	}
	return tooLarge(prepared)
}

// own gives messages whose parts may be written over: the state shares its own with every view.
func own(list []events.Message) []events.Message {
	list = slices.Clone(list)
	for i := range list {
		list[i].Parts = slices.Clone(list[i].Parts)
	}
	return list
}

// overlay lays tools over the session's own, from this turn on.
func (h *hooks) overlay(o plugin.Overlay) error {
	if err := h.stack.SetOverlay(o); err != nil {
		return err
	}
	h.w.host.KeepOverlay(h.session, o)
	entry, err := h.stack.Catalog(&h.state.Catalog)
	if err != nil {
		return err
	}
	if fact := turn.Offer(&h.state.Catalog, entry.Tools); fact != nil {
		h.in.Beside = append(h.in.Beside, fact)
	}
	return nil
}

func (h *hooks) contribute(ctx context.Context, prepared *events.TurnPrepared) error {
	list, err := h.stack.Contributions(ctx, plugin.PromptContext{
		Session: h.session, Turn: h.turn, Input: h.input, Options: h.options, View: h.view, Host: h.host(h.effect),
	})
	if err != nil {
		return err
	}
	list = plugin.SortContributions(append(slices.Clone(h.preamble.Contributions), list...))
	if !slices.EqualFunc(list, h.state.Contributions, plugin.SameContribution) {
		prepared.Kept, prepared.Contributions = false, list
	}
	return tooLarge(prepared)
}

func (h *hooks) afterTurn(ctx context.Context) {
	list, err := h.stack.AfterTurn(ctx, plugin.TurnResultContext{
		Session: h.session, Turn: h.turn, Ending: h.state.Turn().Ending, View: h.view, Host: h.host(h.effect),
	})
	h.conclude(ctx, "plugin_finalize_turn", list, err)
	if h.in.Ran.Issue.IsZero() {
		h.stack.Tell(ctx, plugin.Lifecycle{Kind: plugin.TurnFinalized, Session: h.session, Turn: h.turn, State: h.copy(), Host: h.host(h.effect)})
	}
}

// beforeTools asks the hooks about every call of the reply, the calls beside each other.
func (h *hooks) beforeTools(ctx context.Context) {
	calls := h.state.Turn().Calls
	decided := make([]gate, len(calls))
	var wait sync.WaitGroup
	for i := range calls {
		wait.Go(func() { decided[i] = h.gate(ctx, int64(i), &calls[i]) })
	}
	wait.Wait()
	for i := range decided {
		g := &decided[i]
		kept := len(h.in.Ran.Decisions)
		h.in.Ran.Decisions = append(h.in.Ran.Decisions, g.decisions...)
		if err := tooLarge(&h.in.Ran); err != nil { // more than one record holds: this call fails, those before it do not
			h.in.Ran.Decisions = h.in.Ran.Decisions[:kept]
			*g = gate{result: failed(int64(i), plugin.ClassResourceLimit, plugin.CodeBefore, err)}
		}
		if g.result != nil {
			h.in.Results = append(h.in.Results, *g.result)
		}
		if g.ask != nil {
			h.in.Asks = append(h.in.Asks, *g.ask)
		}
	}
}

// gate is what the hooks say about one call.
type gate struct {
	decisions []events.Decision
	result    *events.ToolResult        // the call does not run
	ask       *events.ToolApprovalAsked // it waits
}

func (h *hooks) gate(ctx context.Context, index int64, c *projector.Call) gate {
	if !h.offers(c.Tool) {
		return gate{} // the call fails, whatever hooks say
	}
	effect := turn.ToolEffect(h.turn, h.owes.Iteration, index)
	args, err := session.Body(ctx, h.w.blobs, c.Args, c.Blob)
	if err != nil {
		return gate{result: failed(index, plugin.ClassInternal, plugin.CodeBefore, err)}
	}
	got := h.askBefore(ctx, h.stack, plugin.Call{Session: h.session, Turn: h.turn, Effect: effect, ID: c.ID}, c.Tool, args)
	for i := range got.decisions {
		got.decisions[i].Call = index
	}
	g := gate{decisions: got.decisions}
	if got.result != nil {
		got.result.Call = index
		g.result = got.result
		return g
	}
	if got.ask != "" {
		shown := args
		if got.args != nil {
			shown = got.args
		}
		g.ask = got.question(&turn.Call{Effect: effect, Tool: c.Tool, Args: shown})
	}
	return g
}

// before is what the hooks before a call came to.
type before struct {
	carried
	result *events.ToolResult // the call does not run
}

// askBefore asks the hooks before a call. Whatever goes wrong with them fails the call alone.
func (s *seen) askBefore(ctx context.Context, stack *plugin.Session, call plugin.Call, tool string, args []byte) before {
	call.Host = s.host(call.Effect)
	list, err := stack.BeforeToolCall(ctx, plugin.ToolContext{Call: call, Tool: tool, Args: args, Host: call.Host})
	if err != nil {
		return before{result: failed(0, plugin.ClassExecution, plugin.CodeBefore, err)}
	}
	c, err := s.carryOut(ctx, call.Effect, list)
	if err != nil {
		return before{carried: c, result: failed(0, plugin.ClassExecution, plugin.CodeCreate, err)}
	}
	return before{carried: c, result: c.instead(plugin.ClassPermissionDenied)}
}
