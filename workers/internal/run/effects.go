package run

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
)

// start starts every effect that the state needs and that does not run yet. The events that need them are durable, or
// linger.
func (r *run) start(ctx context.Context) error {
	needs := turn.Next(r.state)
	if len(needs.Calls) == 0 {
		r.stack.ClearMessageSender() // no call runs
	}
	if err := r.readContracts(ctx); err != nil {
		return err
	}
	switch {
	case needs.Turn == "":
		return nil
	case needs.Hooks != "":
		return r.startHooks(ctx, needs)
	case needs.Model:
		return r.startModel(ctx, needs)
	}
	return r.startTools(ctx, needs)
}

// hasNewEffect reports whether the state needs an effect that does not run yet.
func (r *run) hasNewEffect(needs turn.Needs) bool {
	switch {
	case needs.Hooks != "":
		return r.inflight[turn.HookEffect(needs)] == nil
	case needs.Model:
		return r.inflight[turn.ModelEffect(needs.Turn, needs.Iteration)] == nil
	}
	return slices.ContainsFunc(needs.Calls, func(c turn.Call) bool { return r.inflight[c.Effect] == nil })
}

// effect is an effect that runs.
type effect struct {
	turn   events.TurnID
	id     events.EffectID
	cancel context.CancelCauseFunc // see cancelEffects
	ahead  bool                    // builds on events that are not in the log yet
	prompt string                  // digest of the prompt of a model call
	grace  time.Duration           // that the effect has to return after its turn is cancelled; at least [stopGrace]
}

// effectResult is the result of an effect.
type effectResult struct {
	effect *effect
	in     turn.Input // nil if the effect was cancelled and has nothing to record
}

// launch runs an effect once, in a goroutine of its own, which sends the result unless the run has ended. A panic
// that package call does not recover ends the turn.
func (r *run) launch(runCtx context.Context, e *effect, at *call.Snapshot, do func(context.Context) turn.Input) {
	if _, started := r.inflight[e.id]; started {
		return
	}
	ctx, rest, release := at.Hold(runCtx)
	ctx, cancel := context.WithCancelCause(session.WithWaiting(ctx, func() func() {
		end, back := r.markWaiting(), rest()
		return func() { back(); end() }
	}))
	e.cancel, e.ahead = cancel, e.prompt != "" && len(r.batch.events) > 0
	r.inflight[e.id] = e
	iteration := r.state.Turn().Iteration
	r.p.jobs.Go(func() {
		defer release()
		defer cancel(nil)
		in := r.recoverEffect(iteration, e.id, func() turn.Input { return do(ctx) })
		select {
		case r.results <- effectResult{e, in}:
		case <-runCtx.Done():
		}
	})
}

func (r *run) recoverEffect(iteration int64, id events.EffectID, effect func() turn.Input) (in turn.Input) {
	defer func() {
		if p := recover(); p != nil {
			r.p.log.Error("effect panicked", zap.String("session", string(r.session)), zap.String("effect", string(id)), zap.ByteString("stack", debug.Stack()))
			in = turn.Broken{Iteration: iteration, Issue: call.IssueOf("runtime", "effect_panic", fmt.Errorf("%s panicked: %v", id, p))}
		}
	}()
	return effect()
}

// stopGrace is the time that cancelled effects have to return their results.
const stopGrace = 500 * time.Millisecond

// stop ends a turn whose cancel was requested: it cancels the effects, records the results that they still return,
// and ends the rest as cancelled.
func (r *run) stop(ctx context.Context) error {
	grace := stopGrace
	ran := make(map[events.EffectID]bool, len(r.inflight))
	for _, e := range r.inflight {
		ran[e.id] = true
		grace = max(grace, e.grace)
		e.cancel(nil)
	}
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	for len(r.inflight) > 0 {
		select {
		case c := <-r.results:
			if err := r.handleResult(ctx, c); err != nil {
				return err
			}
		case f := <-r.recordRequests:
			if err := r.handleRecordRequest(ctx, f); err != nil {
				return err
			}
		case <-deadline.C:
			clear(r.inflight) // an effect that ignores its context is abandoned
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !turn.Next(r.state).Stop {
		return nil // a reply that completed meanwhile ended the turn
	}
	notify := r.onAbandoned(ran)
	if err := r.step(ctx, turn.Stop{}); err != nil {
		return err
	}
	for _, call := range notify {
		call()
	}
	return nil
}

// onAbandoned lists the callbacks of calls without a result that no effect of this run ran: those that wait for an answer,
// and those of a node that is gone.
func (r *run) onAbandoned(ran map[events.EffectID]bool) (list []func()) {
	if r.stack.Stack == nil {
		return nil
	}
	entry, err := r.stack.Catalog(&r.state.Catalog)
	if err != nil {
		return nil // it is a hint
	}
	t, at := r.state.Turn(), r.snapshot()
	for i := range t.Calls {
		c := &t.Calls[i]
		effect := turn.ToolEffect(t.ID, t.Iteration, int64(i))
		if c.Done || ran[effect] {
			continue
		}
		one := call.ToolCall{At: at, Stack: r.stack.Stack, Catalog: entry, Call: turn.Call{
			Index: int64(i), Effect: effect, ID: c.ID, Tool: c.Tool, Holder: c.Holder, Term: c.Term,
		}}
		if notify := one.OnAbandoned(); notify != nil {
			list = append(list, notify)
		}
	}
	return list
}

// snapshot copies the working state for the effects that start together.
func (r *run) snapshot() *call.Snapshot { return r.p.cfg.Calls.Snapshot(r.state, r.options()) }

// startHooks calls the plugins at the hook point that the state needs.
func (r *run) startHooks(ctx context.Context, needs turn.Needs) error {
	e := &effect{turn: needs.Turn, id: turn.HookEffect(needs)}
	if _, started := r.inflight[e.id]; started {
		return nil
	}
	facts := func(ctx context.Context, list ...events.Payload) error { return r.recordFor(ctx, e, list...) }
	h := call.Hooks{At: r.snapshot(), Stack: r.stack.Stack, Needs: needs, Record: facts}
	if needs.Hooks == events.PointBeforeTurn {
		preamble, err := r.preamble()
		if err != nil {
			return r.step(ctx, turn.Broken{Iteration: needs.Iteration, Issue: call.IssueOf("protocol", "protocol_preamble", err)})
		}
		h.Preamble = preamble
	}
	r.launch(ctx, e, h.At, h.Run)
	return nil
}

func (r *run) startModel(ctx context.Context, needs turn.Needs) error {
	e := &effect{turn: needs.Turn, id: turn.ModelEffect(needs.Turn, needs.Iteration)}
	if _, started := r.inflight[e.id]; started {
		return nil
	}
	if err := r.recordTools(ctx); err != nil {
		return r.step(ctx, turn.Broken{Iteration: needs.Iteration, Issue: call.IssueOf("plugin", "tool_catalog", err)})
	}
	prompt, err := r.state.Prompt()
	if err != nil {
		return err
	}
	preamble, err := r.preamble()
	if err != nil {
		return r.step(ctx, turn.Broken{Iteration: needs.Iteration, Issue: call.IssueOf("protocol", "protocol_preamble", err)})
	}
	m := call.ModelCall{At: r.snapshot(), Stack: r.stack.Stack, Needs: needs, Prompt: prompt, Preamble: preamble}
	e.prompt = prompt.Ref.Digest
	r.launch(ctx, e, m.At, m.Run)
	return nil
}

func (r *run) startTools(ctx context.Context, needs turn.Needs) error {
	entry, err := r.stack.Catalog(&r.state.Catalog)
	if err != nil {
		return r.step(ctx, turn.Broken{Iteration: needs.Iteration, Issue: call.IssueOf("plugin", "tool_catalog", err)})
	}
	var at *call.Snapshot
	for _, c := range needs.Calls {
		if _, started := r.inflight[c.Effect]; started {
			continue
		}
		if at == nil {
			at = r.snapshot()
			r.stack.SetMessageSender(r.p.cfg.Calls.MessageSender(r.session, needs.Turn, needs.Iteration))
		}
		e := &effect{turn: needs.Turn, id: c.Effect}
		record := func(ctx context.Context, list ...events.Payload) error { return r.recordFor(ctx, e, list...) }
		t := call.ToolCall{At: at, Stack: r.stack.Stack, Catalog: entry, Iteration: needs.Iteration, Call: c, Record: record}
		e.grace = t.Grace()
		if notify := t.OnRecorded(); notify != nil {
			r.onRecorded[c.Effect] = notify
		}
		r.launch(ctx, e, at, t.Run)
	}
	return nil
}

// notifyRecorded notifies the programs that ran calls whose results the log has now.
func (r *run) notifyRecorded(id events.TurnID, p *events.ToolReturned) {
	for i := range p.Results {
		effect := turn.ToolEffect(id, p.Iteration, p.Results[i].Call)
		if notify := r.onRecorded[effect]; notify != nil {
			notify()
		}
		delete(r.onRecorded, effect)
	}
}

// assignHolders names the instances of plugins that get calls which must not run twice. The calls are in the state:
// their reply is folded before. It returns the states of plugins that changed with it.
func (r *run) assignHolders(p events.Payload) ([]events.Payload, error) {
	called, ok := p.(*events.ToolCalled)
	if !ok || r.stack.Stack == nil {
		return nil, nil
	}
	entry, err := r.stack.Catalog(&r.state.Catalog)
	if err != nil {
		return nil, err
	}
	t := r.state.Turn()
	holders, terms := make([]string, len(called.Calls)), make([]string, len(called.Calls))
	held, known := false, false
	for i, c := range called.Calls {
		if tool, ok := entry.Find(t.Calls[c].Tool); ok && tool.Holder != nil {
			holders[i], terms[i] = tool.Holder(r.state.Session, turn.ToolEffect(t.ID, t.Iteration, c))
			held, known = held || holders[i] != "", known || terms[i] != ""
		}
	}
	if !held {
		return nil, nil
	}
	if called.Holders = holders; known {
		called.Terms = terms
	}
	states, err := r.stack.Unsaved()
	r.batch.states = append(r.batch.states, states...)
	return states, err
}

// sorted has the results in the order of the calls in the reply.
func sorted(in turn.Results) turn.Results {
	slices.SortFunc(in.Results, func(a, b events.ToolResult) int { return int(a.Call - b.Call) })
	slices.Sort(in.Pending)
	return in
}
