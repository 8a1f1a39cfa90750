package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
)

// modelCall is one model call with its attempts.
type modelCall struct {
	w       *Worker
	session events.SessionID
	owes    turn.Owes
	effect  events.EffectID
	prompt  projector.Prompt

	seen     *seen
	stack    *plugin.Session
	preamble plugin.Preamble
	stream   *stream
}

// run answers a [turn.Reply], a [turn.Failure], a [turn.Switch] or a
// [turn.Broken] of the protocol, or nil when it was cancelled without a reply.
func (m *modelCall) run(ctx context.Context) (in turn.Input) {
	defer func() {
		if p := recover(); p != nil { // the protocol's: plugins and providers are contained where they are called
			m.w.log.Error("protocol panicked", zap.String("session", string(m.session)), zap.String("effect", string(m.effect)), zap.ByteString("stack", debug.Stack()))
			in = turn.Broken{Iteration: m.owes.Iteration, Issue: issueOf("protocol", "protocol_panic", fmt.Errorf("protocol panicked: %v", p))}
		}
	}()
	if in := m.beforeCall(ctx); in != nil {
		return in
	}
	began := time.Now()
	about := api.TraceEvent{Provider: m.providerID(), Model: m.model(), Source: projector.TurnSource}
	resp, attempts, err := m.w.traceCall(m.where(), about, func() (llm.Response, int, error) { return m.complete(ctx) })
	m.endStream(ctx, err)
	if err != nil {
		return m.failed(ctx, err, attempts)
	}
	return m.reply(ctx, resp, attempts, began)
}

// beforeCall lets the protocol go on in another frame instead.
func (m *modelCall) beforeCall(ctx context.Context) turn.Input {
	s, err := m.stack.Protocol().BeforeModelCall(ctx, plugin.ModelCallContext{
		Session: m.session, Turn: m.owes.Turn, Prompt: m.prompt, Options: m.seen.options, View: m.seen.view,
		LastPrompt: m.seen.state.Prompted, Window: m.prompt.Config.ContextWindow, Host: m.seen.host(m.effect),
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case s != nil && err == nil:
		err = (&events.TurnCompleted{End: events.EndSwitched, Switch: *s}).Validate()
	}
	switch {
	case err != nil:
		return turn.Broken{Iteration: m.owes.Iteration, Issue: issueOf("protocol", "protocol_before_llm_call", err)}
	case s != nil:
		to, err := m.w.spilled(ctx, *s)
		_, refused := errors.AsType[*plugin.Failure](err)
		switch {
		case refused:
			return turn.Broken{Iteration: m.owes.Iteration, Issue: issueOf("protocol", "protocol_before_llm_call", err)}
		case err != nil:
			return m.failed(ctx, err, 0)
		}
		return turn.Switch{Iteration: m.owes.Iteration, FrameSwitch: to}
	}
	return nil
}

// reply runs a whole reply through the plugins and the protocol.
func (m *modelCall) reply(ctx context.Context, resp llm.Response, attempts int, began time.Time) turn.Input {
	now, shown, err := m.stack.TransformResponse(ctx, plugin.Response{Parts: resp.Parts, Stop: resp.Stop, Usage: resp.Usage, Model: resp.Model})
	if err == nil {
		err = m.stream.show(shown)
	}
	if err != nil {
		return m.failed(ctx, &llm.Error{Kind: llm.KindRequest, Code: "plugin_assistant_response", Message: clip(err.Error())}, attempts)
	}
	reading := plugin.Reading{Parts: now.Parts}
	if m.preamble.Read != nil {
		reading = m.preamble.Read(now)
	}
	resp.Parts, resp.Stop, resp.Usage = reading.Parts, now.Stop, now.Usage
	reply := turn.Reply{Correct: reading.Correct, ModelReplied: events.ModelReplied{
		Iteration: m.owes.Iteration, Prompt: m.prompt.Ref, Parts: resp.Parts, Stop: resp.Stop, Usage: resp.Usage,
		Provider: m.providerID(), Model: orDefault(resp.Model, m.model()), Detail: clip(resp.Detail),
		Attempts: manyOnly(attempts), Millis: time.Since(began).Milliseconds(),
	}}
	if prose := textOf(resp.Parts); prose != "" {
		if to := m.stack.ProjectProse(prose); to != prose {
			reply.Shown = []events.Part{{Kind: events.PartText, Text: strings.ToValidUTF8(to, "\uFFFD")}}
		}
	}
	if fact := m.stream.fact(m.owes); fact != nil {
		reply.Beside = append(reply.Beside, fact)
	}
	return reply
}

// manyOnly leaves out the usual case, one attempt.
func manyOnly(attempts int) int64 {
	if attempts == 1 {
		return 0
	}
	return int64(attempts)
}

func (m *modelCall) model() string { return orDefault(m.prompt.Config.Model, m.w.cfg.Model) }

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
		Model: m.model(), MaxOutputTokens: m.prompt.Config.MaxOutputTokens, Effort: m.prompt.Config.Effort,
		Messages: m.shown(messages), Tools: toolSpecs(m.prompt.Tools),
	}
	if m.preamble.HideTools {
		req.Tools = nil
	}
	deltas := newDeltas(m.w.cfg.Bus, m.session, m.owes.Turn, m.owes.Iteration)
	defer deltas.stop()
	return m.attempt(ctx, provider, req, deltas)
}

// shown is the conversation as the protocol tells it, after what plugins contributed.
func (m *modelCall) shown(messages []events.Message) []events.Message {
	if m.preamble.Show != nil {
		messages = m.preamble.Show(messages)
	}
	if m.prompt.System == "" {
		return messages
	}
	return append([]events.Message{plugin.Say(events.RoleSystem, m.prompt.System)}, messages...)
}

func (m *modelCall) attempt(ctx context.Context, provider llm.Provider, req llm.Request, deltas *deltas) (llm.Response, int, error) {
	return m.w.retried(ctx, func(ctx context.Context) (llm.Response, error) {
		return m.once(ctx, provider, req, deltas)
	}, func(n int, wait time.Duration, failure *llm.Error) {
		deltas.retry(n, m.w.cfg.ModelRetry.Attempts, wait, failure)
	})
}

// retried tries a model call as often as the policy says. tell, which may be nil, hears of each wait.
func (w *Worker) retried(ctx context.Context, call func(context.Context) (llm.Response, error), tell func(n int, wait time.Duration, failure *llm.Error)) (llm.Response, int, error) {
	policy := w.cfg.ModelRetry
	for n := 1; ; n++ {
		resp, err := call(ctx)
		var failure *llm.Error
		if err == nil || ctx.Err() != nil || !errors.As(err, &failure) || !failure.Retryable() || n >= policy.Attempts {
			return resp, n, err
		}
		wait := min(policy.Base<<(n-1), policy.Max)
		if failure.RetryAfter > 0 {
			wait = min(failure.RetryAfter, policy.MaxAfter)
		}
		if tell != nil {
			tell(n, wait, failure)
		}
		if !bus.Sleep(ctx, wait) {
			return resp, n, context.Cause(ctx)
		}
	}
}

// once is one attempt, its stream as the plugins and the protocol let it through.
func (m *modelCall) once(ctx context.Context, provider llm.Provider, req llm.Request, deltas *deltas) (llm.Response, error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	m.stream = &stream{ctx: ctx, cut: cut, stack: m.stack, preamble: m.preamble, deltas: deltas}
	resp, err := complete(ctx, provider, req, m.stream.add)
	return m.stream.close(resp, err)
}

// endStream tells the plugins how the stream ended.
func (m *modelCall) endStream(ctx context.Context, err error) {
	reason := plugin.StreamComplete
	switch {
	case m.stream != nil && m.stream.aborted:
		reason = plugin.StreamAborted
	case ctx.Err() != nil:
		reason = plugin.StreamCancelled
	case err != nil:
		reason = plugin.StreamFailed
	}
	m.stack.EndStream(ctx, reason)
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
	s = strings.ToValidUTF8(s, "\uFFFD")
	head := events.Clip(s, maxDetail, "")
	if head != s {
		head += fmt.Sprintf(" [%d more bytes]", len(s)-len(head))
	}
	return head
}

func toolSpecs(entries []events.ToolEntry) []llm.Tool {
	list := make([]llm.Tool, len(entries))
	for i := range entries {
		list[i] = llm.Tool{Name: entries[i].Name, Description: entries[i].Description, InputSchema: entries[i].Schema}
	}
	return list
}
