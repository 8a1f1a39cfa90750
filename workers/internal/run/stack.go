package run

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
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
	p, beside, release, err := r.p.cfg.Host.Stack(ctx, r.state)
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

// reopen builds the plugins of a turn that this run has claimed. Where they
// cannot be built here the wake goes to another worker, and in the end the turn ends.
func (r *run) reopen(ctx context.Context, owes turn.Needs) error {
	if err := r.openStack(ctx); err != nil || r.stack.Session != nil {
		return err
	}
	if err := r.unbuilt(); err != nil {
		return err
	}
	return r.step(ctx, turn.Broken{Iteration: owes.Iteration, Issue: r.stack.issue})
}

// isOptions reports whether it is what a materialisation wants recorded, which opening gives again.
func isOptions(p events.Payload) bool { return events.KindOf(p) == events.KindFrameConfigured }

func (r *run) closeStack() {
	r.discard(r.batch.inputs...)
	r.discard(turn.Facts{Extra: r.stack.beside})
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

// providerIssue is why the session's provider cannot be had. Where there are
// fallbacks the model call finds that out, and goes on with one.
func (r *run) providerIssue() events.Issue {
	if len(r.state.Config.Fallbacks) > 0 {
		return events.Issue{}
	}
	_, err := r.p.cfg.Calls.ProviderFor(r.state.Session, r.state.Config)
	if missing := (*api.ProviderError)(nil); errors.As(err, &missing) {
		return issueOf("provider", missing.Code(), err)
	}
	return events.Issue{}
}

func (p *Pool) warn(id events.SessionID, err error) {
	p.log.Warn("plugin", zap.String("session", string(id)), zap.Error(err))
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
		r.p.warn(r.session, err)
	}
	return append(list, states...)
}

// discard drops the plugin states that inputs would have committed.
func (r *run) discard(inputs ...turn.Input) {
	if r.stack.Session == nil {
		return
	}
	for _, in := range inputs {
		r.stack.Discarded(besideOf(in))
	}
}

// stackCommitted tells the plugins which of their states the history has now.
func (r *run) stackCommitted(ctx context.Context, c *events.Commit) {
	if r.stack.Session == nil {
		return
	}
	for i := range c.Events {
		r.stack.Committed([]events.Payload{c.Events[i].Payload})
	}
	r.restoreStack(ctx)
}

// restoreStack restores the plugins whose returned states were lost. A run that
// is cut off leaves that to the next that opens the stack, as it cannot know
// whether its last commit is in the log.
func (r *run) restoreStack(ctx context.Context) {
	if r.stack.Session == nil || !r.stack.HasDiscarded() || ctx.Err() != nil {
		return
	}
	durable := r.state
	if len(r.batch.events) > 0 {
		durable = r.batch.durable
	}
	if err := r.p.cfg.Host.FollowStack(ctx, durable, r.stack.Session); err != nil {
		r.p.warn(r.session, err)
	}
}

// besideOf are the facts that are recorded with an input.
func besideOf(in turn.Input) []events.Payload {
	switch in := in.(type) {
	case turn.Claim:
		return in.Extra
	case turn.Reply:
		return in.Extra
	case turn.Results:
		return in.Extra
	case turn.Hooks:
		return in.Extra
	case turn.Facts:
		return in.Extra
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
		r.stack.Discarded([]events.Payload{fact})
	}
	return true
}

// followOverlay lays over the tools what a record says that the state has.
func (r *run) followOverlay(p events.Payload) {
	if _, ok := p.(*events.SessionOverlaid); ok && r.stack.Session != nil {
		r.stack.FollowOverlay(r.state.Overlay, false)
	}
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
		if err := r.add(ctx, nil, []events.Event{events.Of(r.state.Turn().ID, fact)}); err != nil {
			return err
		}
		entry, err = r.stack.Catalog(&r.state.Catalog)
	}
	r.stack.offered = entry
	return err
}

// preamble is the protocol's part in prompts and replies.
func (r *run) preamble() (plugin.Preamble, error) {
	if r.stack.Session == nil {
		return plugin.Preamble{}, errors.New(r.stack.issue.Message)
	}
	return r.stack.Preamble(slices.Clone(r.state.Catalog.Tools), r.options())
}

// options are the protocol's turn options that count: the turn's own, else the frame's.
func (r *run) options() []byte {
	if t := r.state.Turn(); t != nil && len(t.Input.Options) > 0 {
		return t.Input.Options
	}
	return r.state.Frame().Options
}
