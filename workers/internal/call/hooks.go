package call

import (
	"context"
	"errors"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// Hooks is one hook point of a turn, at which the plugins of the session decide.
type Hooks struct {
	At       *Snapshot
	Stack    *plugin.Stack
	Needs    turn.Needs      // the point that the state needs
	Preamble plugin.Preamble // the protocol's part of the prompt; only used before the turn
	Record   recordFunc      // as of [ToolCall]
}

// Run calls the plugins, and executes their directives. It returns a [turn.Hooks], or nil where ctx ended before.
func (h Hooks) Run(ctx context.Context) turn.Input {
	r := &hooks{
		Snapshot: h.At, stack: h.Stack, needs: h.Needs, effect: turn.HookEffect(h.Needs), preamble: h.Preamble,
		overlaid: h.At.state.Overlay.SessionOverlaid, in: turn.Hooks{Ran: events.HookRan{Point: h.Needs.Hooks, At: h.Needs.At, Iteration: h.Needs.Iteration}},
	}
	r.run(h.Record.saving(ctx))
	if ctx.Err() != nil {
		return nil
	}
	return r.in
}

// hooks is a running [Hooks].
type hooks struct {
	*Snapshot
	stack    *plugin.Stack
	needs    turn.Needs
	effect   events.EffectID
	preamble plugin.Preamble
	overlaid events.SessionOverlaid // the overlay on the session's tools
	in       turn.Hooks
}

func (h *hooks) run(ctx context.Context) {
	switch h.needs.Hooks {
	case events.PointBeforeTurn:
		h.beforeTurn(ctx)
	case events.PointBeforeModel:
		h.beforeModel(ctx)
	case events.PointBeforeTool:
		h.beforeTools(ctx)
	case events.PointCheckpoint:
		h.checkpoint(ctx)
	case events.PointAfterTurn:
		h.afterTurn(ctx)
	case events.PointAfterTool, events.PointReply: // run within the calls and the reply
	}
}

// fail discards the decisions of the hooks. The turn's machine decides what follows from the failure.
func (h *hooks) fail(code string, err error) {
	ran := events.HookRan{Point: h.needs.Hooks, At: h.needs.At, Iteration: h.needs.Iteration, Issue: IssueOf("plugin", code, err)}
	if failed, ok := errors.AsType[*plugin.HookError](err); ok {
		ran.Failed = failed.Plugin
	}
	h.in = turn.Hooks{Ran: ran, Extra: h.in.Extra}
}

// recordDirectives executes the directives of hooks.
func (h *hooks) recordDirectives(ctx context.Context, code string, list []plugin.Owned[plugin.Directive], err error) {
	if err == nil {
		var done directiveOutcome
		if done, err = h.applyDirectives(ctx, h.effect, list); err == nil {
			h.in.Ran.Decisions, h.in.Messages, h.in.Abort, h.in.Switch = done.decisions, done.messages, done.abort, done.frame
			err = errors.Join(tooLarge(&h.in.Ran), tooLarge(appended(done.messages)))
		}
	}
	if err != nil {
		h.fail(code, err)
	}
}

func (h *hooks) beforeModel(ctx context.Context) {
	var list []plugin.Owned[plugin.Directive]
	w, err := h.bodies(ctx)
	if err == nil {
		list, err = h.stack.BeforeModelCall(ctx, plugin.ModelContext{
			Session: h.session, Turn: h.turn, Effect: h.effect, Iteration: h.needs.Iteration, View: w.view,
			LastPrompt: h.state.Prompted, Window: h.state.Config.ContextWindow, Host: h.host(h.effect),
		})
	}
	h.recordDirectives(ctx, "plugin_before_model_call", list, err)
}

func (h *hooks) checkpoint(ctx context.Context) {
	var list []plugin.Owned[plugin.Directive]
	w, err := h.bodies(ctx)
	if err == nil {
		list, err = h.stack.AtCheckpoint(ctx, plugin.CheckpointContext{
			Session: h.session, Turn: h.turn, Effect: h.effect, At: h.needs.At, View: w.view, Host: h.host(h.effect),
		})
	}
	h.recordDirectives(ctx, "plugin_checkpoint", list, err)
}

// beforeTurn lets the plugins transform the context, then calls the hooks, then collects the contributions to the
// prompt.
func (h *hooks) beforeTurn(ctx context.Context) {
	prepared := events.TurnPrepared{Kept: true}
	w, err := h.bodies(ctx)
	if err != nil {
		h.fail("plugin_prepare_turn", err)
		return
	}
	if h.stack.HasTransforms() {
		if err := h.prepareContext(ctx, w, &prepared); err != nil {
			h.fail("context_prepare_turn", err)
			return
		}
	}
	list, err := h.stack.BeforeTurn(ctx, plugin.TurnContext{
		Session: h.session, Turn: h.turn, Effect: h.effect, Input: w.input, View: w.view, Host: h.host(h.effect),
	})
	if h.recordDirectives(ctx, "plugin_prepare_turn", list, err); !h.in.Ran.Issue.IsZero() || h.in.Abort != nil {
		return
	}
	if err := h.contribute(ctx, w, &prepared); err != nil {
		h.in.Stopped = &events.Issue{Kind: "plugin_prompt", Message: clip(err.Error())}
		return
	}
	if prepared.Viewed || !prepared.Kept {
		h.in.Prepared = &prepared
	}
}

func (h *hooks) prepareContext(ctx context.Context, w *conversation, prepared *events.TurnPrepared) error {
	state, err := h.Whole(ctx)
	if err != nil {
		return err
	}
	now, err := h.stack.PrepareContext(ctx, plugin.TransformContext{
		Session: h.session, Turn: h.turn, Input: w.input, State: state, LastPrompt: h.state.Prompted, Host: h.host(h.effect),
	}, plugin.Prepared{Messages: copyMessages(w.view.Messages)})
	if err != nil {
		return err
	}
	if now.Overlay != nil {
		if err := h.overlay(*now.Overlay); err != nil {
			return err
		}
	}
	if !projector.SameMessages(w.view.Messages, now.Messages) {
		prepared.Viewed, prepared.Upto, prepared.View = true, h.state.Leaf, projector.ViewItems(w.view.Messages, now.Messages)
	}
	return tooLarge(prepared)
}

// copyMessages copies messages so that their parts may be changed: views share the state's parts.
func copyMessages(list []events.Message) []events.Message {
	list = slices.Clone(list)
	for i := range list {
		list[i].Parts = slices.Clone(list[i].Parts)
	}
	return list
}

// overlay records an overlay on the session's tools from this turn on. The run offers the tools once the state has
// them.
func (h *hooks) overlay(o plugin.Overlay) error {
	if err := o.Check(); err != nil {
		return err
	}
	h.stack.AddOverlayHandlers(h.env.Worker.KeepOverlay(h.session, o)...)
	if fact := o.Recorded(); !plugin.SameOverlay(fact, h.overlaid) {
		h.overlaid = fact
		h.in.Extra = append(h.in.Extra, &fact)
	}
	return nil
}

func (h *hooks) contribute(ctx context.Context, w *conversation, prepared *events.TurnPrepared) error {
	list, err := h.stack.Contributions(ctx, plugin.PromptContext{
		Session: h.session, Turn: h.turn, Input: w.input, Options: h.options, View: w.view, Host: h.host(h.effect),
	}, h.overlaid.Contributions)
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
	const code = "plugin_finalize_turn"
	state, err := h.Whole(ctx)
	ending, view := h.state.Turn().Ending, projector.ReadView{}
	if err == nil {
		view, err = state.View()
	}
	if err == nil {
		ending.Switch.Nodes, err = blob.FillNodes(ctx, h.env.Blobs, ending.Switch.Nodes)
	}
	if err != nil {
		h.fail(code, err)
		return
	}
	list, err := h.stack.AfterTurn(ctx, plugin.TurnResultContext{
		Session: h.session, Turn: h.turn, Effect: h.effect, Ending: ending, View: view, Host: h.host(h.effect),
	})
	h.recordDirectives(ctx, code, list, err)
	if h.in.Ran.Issue.IsZero() {
		h.stack.NotifyLifecycle(ctx, plugin.Lifecycle{Kind: plugin.TurnFinalized, Session: h.session, Turn: h.turn, State: state, Host: h.host(h.effect)})
	}
}
