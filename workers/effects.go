package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
)

// start begins every effect that the state owes and that does not fly yet. It
// runs only when the events that owe them are durable, or linger.
func (r *run) start(ctx context.Context) error {
	owes := turn.Owed(r.state)
	if owes.Model {
		return r.startModel(ctx, owes)
	}
	r.startTools(ctx, owes)
	return nil
}

// flight is an effect in progress.
type flight struct {
	cancel context.CancelFunc
	ahead  bool   // it builds on events that are not in the log yet
	prompt string // digest, of model calls
}

// arrival is what an effect came to: nil when it was cancelled and has nothing to tell.
type arrival struct {
	turn   events.TurnID
	effect events.EffectID
	flight *flight
	in     turn.Input
}

// fly runs an effect in a goroutine of its own, once. Its arrival comes unless the run has ended.
func (r *run) fly(runCtx context.Context, owner events.TurnID, id events.EffectID, prompt string, effect func(context.Context) turn.Input) {
	if _, flies := r.flights[id]; flies {
		return
	}
	ctx, cancel := context.WithCancel(runCtx)
	f := &flight{cancel: cancel, ahead: prompt != "" && len(r.g.events) > 0, prompt: prompt}
	r.flights[id] = f
	r.w.jobs.Go(func() {
		defer cancel()
		in := effect(ctx)
		select {
		case r.arrivals <- arrival{owner, id, f, in}:
		case <-runCtx.Done():
		}
	})
}

// stopGrace is how long cancelled effects may take to hand over what they have.
const stopGrace = 500 * time.Millisecond

// stop ends a turn whose cancel was requested: effects are cancelled, what
// they still deliver is recorded, the rest ends as cancelled.
func (r *run) stop(ctx context.Context) error {
	for _, f := range r.flights {
		f.cancel()
	}
	deadline := time.NewTimer(stopGrace)
	defer deadline.Stop()
	for len(r.flights) > 0 {
		select {
		case a := <-r.arrivals:
			if err := r.arrive(ctx, a); err != nil {
				return err
			}
		case <-deadline.C:
			clear(r.flights) // what ignores its context is left behind
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if t := r.state.Turn(); t == nil || !t.Cancelled {
		return nil // the reply that arrived ended it
	}
	return r.step(ctx, turn.Stop{})
}

func (r *run) startModel(ctx context.Context, owes turn.Owes) error {
	effect := turn.ModelEffect(owes.Turn, owes.Iteration)
	if _, flies := r.flights[effect]; flies {
		return nil
	}
	prompt, err := r.state.Prompt()
	if err != nil {
		return err
	}
	call := &modelCall{w: r.w, session: r.job.Session, owes: owes, effect: effect, prompt: prompt}
	r.fly(ctx, owes.Turn, effect, prompt.Ref.Digest, call.run)
	return nil
}

func (r *run) startTools(ctx context.Context, owes turn.Owes) {
	tools := r.w.cfg.Tools(r.job.Session)
	for _, c := range owes.Calls {
		entry, ok := r.state.Catalog.Tool(c.Tool)
		d := dispatch{
			w: r.w, session: r.job.Session, turn: owes.Turn, call: c,
			tools: tools, callable: ok && entry.Callable(),
		}
		r.fly(ctx, owes.Turn, c.Effect, "", func(ctx context.Context) turn.Input {
			result := d.run(ctx)
			if result == nil {
				return nil
			}
			return turn.Results{Iteration: owes.Iteration, Results: []events.ToolResult{*result}}
		})
	}
}

func sorted(in turn.Results) turn.Results {
	slices.SortFunc(in.Results, func(a, b events.ToolResult) int { return int(a.Call - b.Call) })
	return in
}

// checkInput looks for what makes an input impossible to run.
func (r *run) checkInput(ctx context.Context, in events.TurnInput) (events.Issue, error) {
	for i, p := range in.Parts {
		if p.Blob.IsZero() {
			continue
		}
		_, err := r.w.blobs.Blob(ctx, p.Blob)
		if errors.Is(err, bus.ErrNotFound) {
			return events.Issue{
				Kind: "input_validation", Code: "invalid_turn_input",
				Message: fmt.Sprintf("parts[%d]: body %s does not exist", i, p.Blob.Digest),
			}, nil
		}
		if err != nil {
			return events.Issue{}, err
		}
	}
	return events.Issue{}, nil
}

// modelCall is one model call with its attempts.
type modelCall struct {
	w       *Worker
	session events.SessionID
	owes    turn.Owes
	effect  events.EffectID
	prompt  projector.Prompt
}

// run answers a [turn.Reply], a [turn.Failure], or nil when it was cancelled without a reply.
func (m *modelCall) run(ctx context.Context) turn.Input {
	began := time.Now()
	resp, attempts, err := m.complete(ctx)
	if err != nil {
		return m.failed(ctx, err, attempts)
	}
	return turn.Reply{ModelReplied: events.ModelReplied{
		Iteration: m.owes.Iteration, Prompt: m.prompt.Ref, Parts: resp.Parts, Stop: resp.Stop, Usage: resp.Usage,
		Provider: m.providerID(), Model: orDefault(resp.Model, orDefault(m.prompt.Config.Model, m.w.cfg.Model)), Detail: clip(resp.Detail),
		Attempts: manyOnly(attempts), Millis: time.Since(began).Milliseconds(),
	}}
}

// manyOnly leaves out the usual case, one attempt.
func manyOnly(attempts int) int64 {
	if attempts == 1 {
		return 0
	}
	return int64(attempts)
}

func (m *modelCall) providerID() string { return orDefault(m.prompt.Config.Provider, m.w.cfg.Provider) }

func (m *modelCall) complete(ctx context.Context) (llm.Response, int, error) {
	provider, ok := m.w.cfg.Providers[m.providerID()]
	if !ok {
		return llm.Response{}, 0, &llm.Error{Kind: llm.KindRequest, Code: "provider_unavailable", Message: "provider " + m.providerID() + " is not configured on this node"}
	}
	messages := m.prompt.Messages
	if m.prompt.Spilled {
		var err error
		if messages, err = session.Fill(ctx, m.w.blobs, messages); err != nil {
			return llm.Response{}, 0, err
		}
	}
	req := llm.Request{
		Session: m.session, Turn: m.owes.Turn, Iteration: m.owes.Iteration, Effect: m.effect,
		Model: orDefault(m.prompt.Config.Model, m.w.cfg.Model), MaxOutputTokens: m.prompt.Config.MaxOutputTokens, Effort: m.prompt.Config.Effort,
		Messages: messages, Tools: toolSpecs(m.prompt.Tools),
	}
	deltas := newDeltas(m.w.cfg.Bus, m.session, m.owes.Turn, m.owes.Iteration)
	defer deltas.stop()
	return m.attempt(ctx, provider, req, deltas)
}

func (m *modelCall) attempt(ctx context.Context, provider llm.Provider, req llm.Request, deltas *deltas) (llm.Response, int, error) {
	policy := m.w.cfg.ModelRetry
	for n := 1; ; n++ {
		resp, err := complete(ctx, provider, req, deltas.add)
		var failure *llm.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &failure) || !failure.Retryable() || n >= policy.Attempts {
			return resp, n, err
		}
		wait := min(policy.Base<<(n-1), policy.Max)
		if failure.RetryAfter > 0 {
			wait = min(failure.RetryAfter, policy.MaxAfter)
		}
		deltas.retry(n, policy.Attempts, wait, failure)
		if !sleep(ctx, wait) {
			return resp, n, context.Cause(ctx)
		}
	}
}

// complete contains a provider's panic.
func complete(ctx context.Context, provider llm.Provider, req llm.Request, sink func(llm.Delta)) (resp llm.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &llm.Error{Kind: llm.KindRequest, Code: "provider_panic", Message: fmt.Sprint(p)}
		}
	}()
	return provider.Complete(ctx, req, sink)
}

func (m *modelCall) failed(ctx context.Context, err error, attempts int) turn.Input {
	if ctx.Err() != nil {
		return nil // cancelled: whoever cancelled records it
	}
	f := events.ModelFailed{Iteration: m.owes.Iteration, Prompt: m.prompt.Ref, Error: "runtime", Message: clip(err.Error()), Attempts: manyOnly(attempts)}
	var failure *llm.Error
	if errors.As(err, &failure) {
		f.Error, f.Code, f.Status, f.Message = string(failure.Kind), failure.Code, int64(failure.Status), clip(failure.Message)
	}
	return turn.Failure{ModelFailed: f}
}

// maxDetail bounds recorded error texts, in bytes (host specification 3.5).
const maxDetail = 4000

func clip(s string) string {
	if len(s) <= maxDetail {
		return s
	}
	return s[:maxDetail] + fmt.Sprintf(" [%d more bytes]", len(s)-maxDetail)
}

func toolSpecs(entries []events.ToolEntry) []llm.Tool {
	list := make([]llm.Tool, len(entries))
	for i := range entries {
		list[i] = llm.Tool{Name: entries[i].Name, Description: entries[i].Description, InputSchema: entries[i].Schema}
	}
	return list
}
