package run

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
)

// stacked are the plugins of a run's session. Stack is nil before openStack, after closeStack, and where the plugins could
// not be built or the node lacks the turn's environment.
type stacked struct {
	*plugin.Stack
	release    func()
	unrecorded []events.Payload        // events for the next commit
	issue      events.Issue            // why the plugins could not be built
	compared   *plugin.CatalogEntry    // the catalogue that was last compared with the state's
	lost       map[events.BlobRef]bool // contracts of tools that were not found
}

// openStack builds the session's plugins, or updates them to the state. If that fails, stack.issue has the reason:
// turns end, not the run.
func (r *run) openStack(ctx context.Context) error {
	old := r.stack.release
	defer func() {
		if old != nil {
			old()
		}
	}()
	p, unrecorded, release, err := r.p.cfg.Worker.Stack(ctx, r.m.State)
	switch {
	case err == nil:
		kept := slices.DeleteFunc(r.stack.unrecorded, isOptions) // from a commit that conflicted
		r.stack = stacked{Stack: p, release: release, unrecorded: append(kept, unrecorded...)}
	case ctx.Err() != nil:
		old = nil // closeStack releases it
		return context.Cause(ctx)
	default:
		r.stack = stacked{issue: call.IssueOf("plugin", "plugin_build", err)}
	}
	return nil
}

// openForTurn is openStack for the running turn, or the next one: this node also needs the execution environment that it has.
func (r *run) openForTurn(ctx context.Context) error {
	config, err := r.p.cfg.Worker.Locked(r.m.State.Config)
	if err != nil {
		return r.openStack(ctx) // the claim is refused for the locks
	}
	name := config.Environment
	if t := r.m.State.Turn(); t != nil {
		name = t.Environment
	}
	if _, err = r.p.cfg.Calls.Environments.Find(name); err == nil {
		return r.openStack(ctx)
	}
	r.closeStack()
	r.stack.issue = call.IssueOf("plugin", plugin.CodeUnknownEnvironment, err)
	return nil
}

// reopen builds the plugins of a turn that this run has claimed. If this worker cannot, the wake goes to another
// worker, unless effects of the turn run: they may complete. After [Config.Patience] the turn ends.
func (r *run) reopen(ctx context.Context, needs turn.Needs) error {
	if err := r.openForTurn(ctx); err != nil || r.stack.Stack != nil {
		return err
	}
	err := r.checkPatience()
	switch {
	case err == nil:
		r.m.Input(turn.Broken{Iteration: needs.Iteration, Issue: r.stack.issue})
	case len(r.m.Inflight) > 0:
		r.m.Later()
		return nil
	}
	return err
}

// isOptions reports whether a payload is the frame's options, which the next openStack returns again.
func isOptions(p events.Payload) bool { return events.KindOf(p) == events.KindFrameConfigured }

func isState(p events.Payload) bool { return events.KindOf(p) == events.KindPluginStateSaved }

func (r *run) closeStack() {
	if r.stack.Stack != nil {
		r.stack.Discarded(r.stack.unrecorded)
	}
	if r.stack.release != nil {
		r.stack.ClearMessageSender()
		r.stack.release()
	}
	r.stack = stacked{}
}

// providerIssue is the reason why the session's provider is not available. With fallbacks the model call finds out,
// and uses one.
func (r *run) providerIssue() events.Issue {
	if len(r.m.State.Config.Fallbacks) > 0 {
		return events.Issue{}
	}
	_, err := r.p.cfg.Calls.ProviderFor(r.m.State.Session, r.m.State.Config)
	if missing := (*api.ProviderError)(nil); errors.As(err, &missing) {
		return call.IssueOf("provider", missing.Code(), err)
	}
	return events.Issue{}
}

func (p *Pool) warn(id events.SessionID, err error) {
	p.log.Warn("plugin", zap.String("session", string(id)), zap.Error(err))
}

// unsaved are the events to append with the next commit: those of building the plugins, and the plugin states that
// changed.
func (r *run) unsaved() []events.Payload {
	list := r.stack.unrecorded
	r.stack.unrecorded = nil
	if r.stack.Stack == nil {
		return list
	}
	states, err := r.stack.Unsaved()
	if err != nil {
		r.p.warn(r.session, err)
	}
	return append(list, states...)
}

// discard drops the plugin states that the inputs would have recorded.
func (r *run) discard(ctx context.Context, inputs []turn.Input) {
	if r.stack.Stack == nil {
		return
	}
	for _, in := range inputs {
		r.stack.Discarded(in.Additional())
	}
	r.restoreStack(ctx)
}

// stackCommitted confirms to the plugins the states that the history has now.
func (r *run) stackCommitted(ctx context.Context, c *events.Commit) {
	if r.stack.Stack == nil {
		return
	}
	for i := range c.Events {
		r.stack.Committed([]events.Payload{c.Events[i].Payload})
	}
	r.restoreStack(ctx)
}

// restoreStack restores plugins whose states were dropped. A run that is cancelled leaves this to the next one that
// opens the plugins: it cannot know whether its last commit is in the log.
func (r *run) restoreStack(ctx context.Context) {
	if r.stack.Stack == nil || !r.stack.HasDiscarded() || ctx.Err() != nil {
		return
	}
	if err := r.p.cfg.Worker.FollowStack(ctx, r.m.Durable(), r.stack.Stack); err != nil {
		r.p.warn(r.session, err)
	}
}

// dropStale drops a plugin state that was made from an older state than the current one.
func (r *run) dropStale(ev *events.Event) bool {
	fact, ok := ev.Payload.(*events.PluginStateSaved)
	if !ok {
		return false
	}
	now := r.m.State.Plugin(fact.Plugin)
	if now == nil || now.Revision == fact.Base {
		return false
	}
	if r.stack.Stack != nil {
		r.stack.Discarded([]events.Payload{fact})
	}
	return true
}

// followOverlay applies a tool overlay of the state to the plugins.
func (r *run) followOverlay(p events.Payload) {
	if _, ok := p.(*events.SessionOverlaid); ok && r.stack.Stack != nil {
		r.stack.FollowOverlay(r.m.State.Overlay, false)
	}
}

// recordTools records the tools that the plugins offer now, if they differ from the state's.
func (r *run) recordTools(ctx context.Context) error {
	if r.stack.Stack == nil {
		return nil
	}
	entry, err := r.stack.Catalog(&r.m.State.Catalog)
	if err != nil || entry == r.stack.compared {
		return err
	}
	if fact := turn.OfferEvent(&r.m.State.Catalog, entry.Tools); fact != nil {
		var list []events.Event
		for _, part := range fact.Parts() {
			list = append(list, events.Of(r.m.State.Turn().ID, part))
		}
		if err := r.fold(ctx, list); err != nil {
			return err
		}
		entry, err = r.stack.Catalog(&r.m.State.Catalog)
	}
	r.stack.compared = entry
	return err
}

// readContracts gives the state's tools their contracts. Where the plugins offer the same tools, the state shares their list.
func (r *run) readContracts(ctx context.Context) error {
	if r.stack.Stack == nil {
		return nil
	}
	var here []events.ToolEntry
	if entry, err := r.stack.Catalog(&r.m.State.Catalog); err == nil { // else who needs the catalogue tells
		here = entry.Tools
	}
	if slices.EqualFunc(r.m.State.Catalog.Tools, here, func(a, b events.ToolEntry) bool { return a.Equal(&b) }) {
		r.m.State.Catalog.Tools = here
		return nil
	}
	if !slices.ContainsFunc(r.m.State.Catalog.Tools, func(t events.ToolEntry) bool { return t.LacksContract() && !r.stack.lost[t.Contract] }) {
		return nil
	}
	tools, err := blob.Contracts(ctx, r.p.cfg.Calls.Blobs, r.m.State.Catalog.Tools, here)
	if err != nil {
		return err
	}
	r.m.State.Catalog.Tools = tools
	for i := range tools {
		if t := &tools[i]; t.LacksContract() {
			if r.stack.lost == nil {
				r.stack.lost = make(map[events.BlobRef]bool)
			}
			r.stack.lost[t.Contract] = true
		}
	}
	return nil
}

// preamble is the protocol's part of prompts and replies.
func (r *run) preamble() (plugin.Preamble, error) {
	if r.stack.Stack == nil {
		return plugin.Preamble{}, errors.New(r.stack.issue.Message)
	}
	return r.stack.Preamble(slices.Clip(r.m.State.Catalog.Tools), r.options())
}

// options are the protocol's options in force.
func (r *run) options() []byte {
	var own []byte
	if t := r.m.State.Turn(); t != nil {
		own = t.Input.Options
	}
	return r.stack.TurnOptions(own, r.m.State.Frame().Options)
}
