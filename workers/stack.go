package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
)

// stacked are the plugins of a run's session.
type stacked struct {
	*plugin.Session
	release func()
	beside  []events.Payload     // facts to be recorded with the next commit
	issue   events.Issue         // why there are none
	offered *plugin.CatalogEntry // the catalogue that the state was compared with last
}

// openStack builds the session's plugins, or brings them to the state at hand.
// Plugins that cannot be built end turns, not the run.
func (r *run) openStack(ctx context.Context) error {
	old := r.stack.release
	defer func() {
		if old != nil {
			old()
		}
	}()
	p, beside, release, err := r.w.host.Stack(ctx, r.state)
	switch {
	case err == nil:
		kept := slices.DeleteFunc(r.stack.beside, isOptions) // of a commit that conflicted
		r.stack = stacked{Session: p, release: release, beside: append(kept, beside...)}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		r.stack = stacked{issue: issueOf("plugin", "plugin_build", err)}
	}
	return nil
}

// isOptions reports whether it is what a materialisation wants recorded, which opening gives again.
func isOptions(p events.Payload) bool { return p.Kind() == events.KindFrameConfigured }

func (r *run) closeStack() {
	r.forsake(r.g.inputs...)
	r.forsake(turn.Facts{Beside: r.stack.beside})
	if r.stack.release != nil {
		r.stack.ClearMessageSender()
		r.stack.release()
	}
	r.stack = stacked{}
}

// issueOf makes an issue of an error.
func issueOf(kind, code string, err error) events.Issue {
	return call.IssueOf(kind, code, err)
}

// claim is what the worker offers the next turn, or one that it takes over.
func (r *run) claim(ctx context.Context, in events.TurnInput) turn.Claim {
	c := turn.Claim{Worker: r.w.cfg.ID, Job: r.turnID(), Refused: r.stack.issue}
	if !c.Refused.IsZero() {
		return c
	}
	entry, err := r.stack.Catalog(&r.state.Catalog)
	if err != nil {
		c.Refused = issueOf("plugin", "tool_catalog", err)
		return c
	}
	c.Tools, c.Points = entry.Tools, r.stack.Points()
	if err := r.stack.Protocol().ValidateTurn(ctx, in); err != nil {
		c.Refused = issueOf("protocol", "protocol_turn_extension", err)
	}
	if c.Refused.IsZero() {
		c.Refused = r.w.providerIssue(r.state)
	}
	return c
}

// providerIssue is why the session's provider cannot be had.
func (w *Worker) providerIssue(s *projector.State) events.Issue {
	_, err := w.calls.ProviderFor(s.Session, s.Config)
	if missing := (*api.ProviderError)(nil); errors.As(err, &missing) {
		return issueOf("provider", missing.Code(), err)
	}
	return events.Issue{}
}

// unsaved are the facts that the next commit takes along: what the stack's
// building wanted recorded, and the plugin states that changed.
func (r *run) unsaved() []events.Payload {
	list := r.stack.beside
	r.stack.beside = nil
	if r.stack.Session == nil {
		return list
	}
	states, err := r.stack.Unsaved()
	if err != nil {
		r.w.warn(r.job.Session, err)
	}
	return append(list, states...)
}

// forsake drops the plugin states that would have landed with inputs.
func (r *run) forsake(inputs ...turn.Input) {
	if r.stack.Session == nil {
		return
	}
	for _, in := range inputs {
		r.stack.Lost(besideOf(in))
	}
}

// stackLanded tells the plugins what of theirs is history now.
func (r *run) stackLanded(ctx context.Context, c *events.Commit) {
	if r.stack.Session == nil {
		return
	}
	for i := range c.Events {
		r.stack.Landed([]events.Payload{c.Events[i].Payload})
	}
	r.settleStack(ctx)
}

// settleStack restores the plugins of which something given out was lost. A
// run that is cut short leaves that to whoever opens the stack next, as it
// cannot know whether its last commit landed.
func (r *run) settleStack(ctx context.Context) {
	if r.stack.Session == nil || !r.stack.HasLost() || ctx.Err() != nil {
		return
	}
	durable := r.state
	if len(r.g.events) > 0 {
		durable = r.g.durable
	}
	if err := r.w.host.FollowStack(ctx, durable, r.stack.Session); err != nil {
		r.w.warn(r.job.Session, err)
	}
}

// besideOf are the facts that land with an input.
func besideOf(in turn.Input) []events.Payload {
	switch in := in.(type) {
	case turn.Claim:
		return in.Beside
	case turn.Reply:
		return in.Beside
	case turn.Results:
		return in.Beside
	case turn.Hooks:
		return in.Beside
	case turn.Facts:
		return in.Beside
	}
	return nil
}

// stale drops a plugin state that would not count, as it was made from another one.
func (r *run) stale(ev *events.Event) bool {
	fact, ok := ev.Payload.(*events.PluginStateSaved)
	if !ok {
		return false
	}
	now := r.state.Plugin(fact.Plugin)
	if now == nil || now.Revision == fact.Base {
		return false
	}
	if r.stack.Session != nil {
		r.stack.Lost([]events.Payload{fact})
	}
	return true
}

// surface records the tools as the plugins offer them now, where that differs.
func (r *run) surface(ctx context.Context) error {
	if r.stack.Session == nil {
		return nil
	}
	entry, err := r.stack.Catalog(&r.state.Catalog)
	if err != nil || entry == r.stack.offered {
		return err
	}
	if fact := turn.Offer(&r.state.Catalog, entry.Tools); fact != nil {
		if err := r.gather(ctx, nil, []events.Event{events.Of(r.state.Turn().ID, fact)}); err != nil {
			return err
		}
		entry, err = r.stack.Catalog(&r.state.Catalog)
	}
	r.stack.offered = entry
	return err
}

// preamble is the protocol's part in prompts and replies.
func (r *run) preamble() (made plugin.Preamble, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("protocol panicked: %v", p)
		}
	}()
	if r.stack.Session == nil {
		return plugin.Preamble{}, errors.New(r.stack.issue.Message)
	}
	return r.stack.Driver().Preamble(plugin.PreambleInput{
		Tools: slices.Clone(r.state.Catalog.Tools), Extensions: r.stack.Extensions(), Triggers: r.stack.Triggers(), Options: r.options(),
	}), nil
}

// options are the protocol's turn options that count: the turn's own, else the frame's.
func (r *run) options() []byte {
	if t := r.state.Turn(); t != nil && len(t.Input.Options) > 0 {
		return t.Input.Options
	}
	return r.state.Frame().Options
}
