package run

import (
	"context"
	"fmt"
	"runtime/debug"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/session/work"
	"github.com/lash-go/lash/workers/internal/call"
)

// start starts every effect that the state needs and that does not run yet. The events that need them are durable, or
// linger.
func (r *run) start(ctx context.Context, needs turn.Needs) error {
	if len(needs.Calls) == 0 {
		r.stack.ClearMessageSender() // no call runs
	}
	if err := r.readContracts(ctx); err != nil {
		return err
	}
	switch {
	case needs.Hooks != "":
		r.startHooks(ctx, needs)
	case needs.Model:
		return r.startModel(ctx, needs)
	default:
		r.startTools(ctx, needs)
	}
	return nil
}

// breakTurn ends a turn whose pipeline failed.
func (r *run) breakTurn(needs turn.Needs, kind, code string, err error) {
	r.m.Input(turn.Broken{Iteration: needs.Iteration, Issue: call.IssueOf(kind, code, err)})
}

// effectResult is the result of an effect.
type effectResult struct {
	effect *work.Effect
	in     turn.Input // nil if the effect was cancelled and has nothing to record
}

// launch runs an effect once, in a goroutine of its own, which sends the result unless the run has ended. A panic
// that package call does not recover ends the turn.
func (r *run) launch(runCtx context.Context, e *work.Effect, at *call.Snapshot, do func(context.Context) turn.Input) {
	ctx, rest, release := at.Hold(runCtx)
	ctx, cancel := context.WithCancelCause(session.WithWaiting(ctx, func() func() {
		end, back := r.markWaiting(), rest()
		return func() { back(); end() }
	}))
	e.Cancel = cancel
	r.m.Launch(e)
	iteration := r.m.State.Turn().Iteration
	r.p.jobs.Go(func() {
		defer release()
		defer cancel(nil)
		in := r.recoverEffect(iteration, e.ID, func() turn.Input { return do(ctx) })
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

// onAbandoned lists the callbacks of calls without a result that no effect of this run ran: those that wait for an answer,
// and those of a node that is gone.
func (r *run) onAbandoned(ran map[events.EffectID]bool) (list []func()) {
	if r.stack.Stack == nil {
		return nil
	}
	entry, err := r.stack.Catalog(&r.m.State.Catalog)
	if err != nil {
		return nil // it is a hint
	}
	t, at := r.m.State.Turn(), r.snapshot()
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
func (r *run) snapshot() *call.Snapshot { return r.p.cfg.Calls.Snapshot(r.m.State, r.options()) }

// startHooks calls the plugins at the hook point that the state needs.
func (r *run) startHooks(ctx context.Context, needs turn.Needs) {
	e := &work.Effect{Turn: needs.Turn, ID: turn.HookEffect(needs)}
	facts := func(ctx context.Context, list ...events.Payload) error { return r.recordFor(ctx, e, list...) }
	h := call.Hooks{At: r.snapshot(), Stack: r.stack.Stack, Needs: needs, Record: facts}
	if needs.Hooks == events.PointBeforeTurn {
		preamble, err := r.preamble()
		if err != nil {
			r.breakTurn(needs, "protocol", "protocol_preamble", err)
			return
		}
		h.Preamble = preamble
	}
	r.launch(ctx, e, h.At, h.Run)
}

func (r *run) startModel(ctx context.Context, needs turn.Needs) error {
	if err := r.recordTools(ctx); err != nil {
		r.breakTurn(needs, "plugin", "tool_catalog", err)
		return nil
	}
	prompt, err := r.m.State.Prompt()
	if err != nil {
		return err
	}
	preamble, err := r.preamble()
	if err != nil {
		r.breakTurn(needs, "protocol", "protocol_preamble", err)
		return nil
	}
	m := call.ModelCall{At: r.snapshot(), Stack: r.stack.Stack, Needs: needs, Prompt: prompt, Preamble: preamble}
	e := &work.Effect{Turn: needs.Turn, ID: turn.ModelEffect(needs.Turn, needs.Iteration), Prompt: prompt.Ref.Digest}
	r.launch(ctx, e, m.At, m.Run)
	return nil
}

func (r *run) startTools(ctx context.Context, needs turn.Needs) {
	entry, err := r.stack.Catalog(&r.m.State.Catalog)
	if err != nil {
		r.breakTurn(needs, "plugin", "tool_catalog", err)
		return
	}
	at := r.snapshot()
	r.stack.SetMessageSender(r.p.cfg.Calls.MessageSender(r.session, needs.Turn, needs.Iteration))
	for _, c := range needs.Calls {
		if r.m.Inflight[c.Effect] != nil {
			continue
		}
		e := &work.Effect{Turn: needs.Turn, ID: c.Effect}
		record := func(ctx context.Context, list ...events.Payload) error { return r.recordFor(ctx, e, list...) }
		t := call.ToolCall{At: at, Stack: r.stack.Stack, Catalog: entry, Iteration: needs.Iteration, Call: c, Record: record}
		e.Grace = t.Grace()
		if notify := t.OnRecorded(); notify != nil {
			r.onRecorded[c.Effect] = notify
		}
		r.launch(ctx, e, at, t.Run)
	}
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
	entry, err := r.stack.Catalog(&r.m.State.Catalog)
	if err != nil {
		return nil, err
	}
	t := r.m.State.Turn()
	holders, terms := make([]string, len(called.Calls)), make([]string, len(called.Calls))
	held, known := false, false
	for i, c := range called.Calls {
		if tool, ok := entry.Find(t.Calls[c].Tool); ok && tool.Holder != nil {
			holders[i], terms[i] = tool.Holder(r.m.State.Session, turn.ToolEffect(t.ID, t.Iteration, c))
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
	r.states = append(r.states, states...)
	return states, err
}
