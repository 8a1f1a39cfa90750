package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/llm"
)

// ModelCall is one model call of a turn.
type ModelCall struct {
	At       *Snapshot // the state of the prompt
	Stack    *plugin.Stack
	Needs    turn.Needs // the call that the state needs
	Prompt   projector.Prompt
	Preamble plugin.Preamble // the protocol's part of the prompt and the reply
}

// Run makes the call, with its attempts and the hooks around it. It returns a [turn.Reply] or a [turn.Failure]; a
// [turn.Switch] where the protocol switches to another frame instead; a [turn.Broken] where the protocol fails; nil
// where ctx ended before the reply.
func (m ModelCall) Run(ctx context.Context) turn.Input {
	c := &modelRun{ModelCall: m, env: m.At.env, session: m.At.session, effect: turn.ModelEffect(m.Needs.Turn, m.Needs.Iteration)}
	return c.run(ctx)
}

// modelRun is a running [ModelCall].
type modelRun struct {
	ModelCall
	env         *Env
	session     events.SessionID
	effect      events.EffectID
	stream      *stream // of the last attempt
	started     time.Time
	tries       tries
	failedTries []events.FailedTry // failed tries before the last one
	pruned      bool               // the prompt was pruned after it did not fit
	bare        map[string]bool    // ids of attachments without which the prompt goes, after a refusal; nil: it has all
}

func (m *modelRun) run(ctx context.Context) (in turn.Input) {
	defer func() {
		if p := recover(); p != nil { // of the protocol: panics of plugins and providers are recovered at their calls
			m.env.Log.Error("protocol panicked", zap.String("session", string(m.session)), zap.String("effect", string(m.effect)), zap.ByteString("stack", debug.Stack()))
			in = m.broken("protocol_panic", fmt.Errorf("protocol panicked: %v", p))
		}
	}()
	m.tracePrompt()
	if in := m.beforeCall(ctx); in != nil {
		return in
	}
	m.started = time.Now()
	req := m.request()
	resp, tries, err := m.env.traced(m.traceContext(), m.env.requestEvent(m.providerID(), projector.TurnSource, &req), func() (llm.Response, tries, error) {
		return m.complete(ctx, req)
	})
	m.tries = tries
	m.endStream(ctx, err)
	if err != nil {
		return m.fail(ctx, err)
	}
	return m.reply(ctx, resp)
}

// beforeCall lets the protocol switch to another frame instead of the call. nil: the call continues.
func (m *modelRun) beforeCall(ctx context.Context) turn.Input {
	const code = "protocol_before_llm_call"
	w, err := m.fillBodies(ctx)
	if err != nil {
		return m.fail(ctx, err)
	}
	s, err := m.Stack.Protocol().BeforeModelCall(ctx, plugin.ModelCallContext{
		Session: m.session, Turn: m.Needs.Turn, Prompt: m.Prompt, Options: m.At.options, View: w.view,
		LastPrompt: m.At.state.Prompted, Window: m.Prompt.Config.ContextWindow, Host: m.At.host(m.effect),
	})
	switch {
	case ctx.Err() != nil:
		return nil
	case s != nil && err == nil:
		err = (&events.TurnCompleted{End: events.EndSwitched, Switch: *s}).Validate()
	}
	switch {
	case err != nil:
		return m.broken(code, err)
	case s != nil:
		to, err := m.env.spillSwitch(ctx, *s)
		_, refused := errors.AsType[*plugin.Failure](err)
		switch {
		case refused:
			return m.broken(code, err)
		case err != nil:
			return m.fail(ctx, err)
		}
		return turn.Switch{Iteration: m.Needs.Iteration, FrameSwitch: to}
	}
	return nil
}

// fillBodies loads the bodies of the conversation and the prompt, for the protocol.
func (m *modelRun) fillBodies(ctx context.Context) (w *conversation, err error) {
	w, err = m.At.bodies(ctx) // first: it reserves the memory of both
	if err == nil && m.Prompt.Spilled {
		m.Prompt.Messages, err = blob.Fill(ctx, m.env.Blobs, m.Prompt.Messages)
		m.Prompt.Spilled = err != nil
	}
	return w, err
}

// reply passes a complete reply through the plugins and the protocol.
func (m *modelRun) reply(ctx context.Context, resp llm.Response) turn.Input {
	now, shown, err := m.Stack.TransformResponse(ctx, plugin.Response{Parts: resp.Parts, Stop: resp.Stop, Usage: resp.Usage, Model: resp.Model})
	if err == nil {
		err = m.stream.emit(shown)
	}
	if err != nil {
		return m.refuse(ctx, &resp, &llm.Error{Kind: llm.KindRequest, Code: "plugin_assistant_response", Message: clip(err.Error())})
	}
	reading := plugin.Reading{Parts: now.Parts}
	if m.Preamble.Read != nil {
		reading = m.Preamble.Read(now)
	}
	resp.Parts, resp.Stop, resp.Usage = reading.Parts, now.Stop, now.Usage
	if err := checkCalls(resp.Parts); err != nil {
		return m.refuse(ctx, &resp, err)
	}
	reply := turn.Reply{Correct: reading.Correct, ModelReplied: events.ModelReplied{
		Iteration: m.Needs.Iteration, Prompt: m.Prompt.Ref, Parts: resp.Parts, Stop: resp.Stop, Usage: resp.Usage,
		Provider: m.providerID(), Model: cmp.Or(resp.Model, m.model()), Detail: clip(resp.Detail),
		Attempts: exceptOne(m.tries.n), Millis: time.Since(m.started).Milliseconds(), Failed: m.failedTries, Spent: m.tries.spent, Foreign: resp.Foreign,
	}}
	if n, _ := turn.Calls(resp.Parts); n == 0 && reading.Correct == "" && !m.At.input.Output.IsZero() {
		reply.Fault = clip(plugin.OutputOf(m.At.input.Output).Fault(textOf(resp.Parts)))
	}
	if prose := textOf(resp.Parts); prose != "" {
		if to := m.Stack.ProjectProse(prose); to != prose {
			reply.Shown = []events.Part{{Kind: events.PartText, Text: strings.ToValidUTF8(to, "\uFFFD")}}
		}
	}
	if err := checkReply(&reply.ModelReplied, events.MaxEventBytes-maxMessageBytes); err != nil { // plugins and the protocol may have enlarged it
		return m.refuse(ctx, &resp, err)
	}
	if event := m.stream.event(m.Needs); event != nil {
		reply.Extra = append(reply.Extra, event)
	}
	return reply
}

// maxMessageBytes is the largest size that the message id adds to the event of a reply, in bytes.
const maxMessageBytes = events.MaxIDBytes + 8

// checkCalls refuses a reply with more tool calls than a history can have results for.
func checkCalls(parts []events.Part) error {
	const code = "too_many_calls"
	switch n, bytes := turn.Calls(parts); {
	case n > turn.MaxCalls:
		return &llm.Error{Kind: llm.KindMalformed, Code: code, Message: fmt.Sprintf("the reply asks for %d tool calls, limit is %d", n, turn.MaxCalls)}
	case bytes > turn.MaxCallsBytes:
		return &llm.Error{Kind: llm.KindMalformed, Code: code, Message: fmt.Sprintf("the ids and names of the reply's tool calls have %d bytes, limit is %d", bytes, turn.MaxCallsBytes)}
	}
	return nil
}

// refuse records why a complete reply is refused, and its usage.
func (m *modelRun) refuse(ctx context.Context, resp *llm.Response, err error) turn.Input {
	m.tries.failed(resp)
	return m.fail(ctx, err)
}

// fail records why the call has no reply, and the partial reply.
func (m *modelRun) fail(ctx context.Context, err error) turn.Input {
	cut := m.partialReply()
	if ctx.Err() != nil {
		if cut == nil {
			return nil // the run that cancelled it records the cancellation
		}
		return turn.Interrupted{ModelInterrupted: *cut}
	}
	f := events.ModelFailed{
		Iteration: m.Needs.Iteration, Prompt: m.Prompt.Ref, Error: "runtime", Message: clip(err.Error()), Attempts: exceptOne(m.tries.n),
		Provider: m.providerID(), Model: m.model(), Failed: m.failedTries,
	}
	if failure, ok := errors.AsType[*llm.Error](err); ok {
		f.Error, f.Code, f.Status, f.Message = string(failure.Kind), failure.Code, int64(failure.Status), clip(failure.Message)
		f.Raw, f.Retryable = clip(failure.Raw), failure.Retryable()
	}
	_, missing := errors.AsType[*api.ProviderError](err)
	return turn.Failure{ModelFailed: f, Cut: cut, Unavailable: missing}
}

// partialReply is the partial reply with its usage; nil where both are empty.
func (m *modelRun) partialReply() *events.ModelInterrupted {
	if m.stream == nil || len(m.stream.parts) == 0 && m.tries.spent.IsZero() {
		return nil
	}
	return &events.ModelInterrupted{
		Iteration: m.Needs.Iteration, Prompt: m.Prompt.Ref, Parts: m.stream.parts.parts(), Usage: m.tries.spent,
		Provider: m.providerID(), Model: cmp.Or(m.tries.model, m.model()), Attempts: exceptOne(m.tries.n), Millis: time.Since(m.started).Milliseconds(),
	}
}

func (m *modelRun) broken(code string, err error) turn.Input {
	return turn.Broken{Iteration: m.Needs.Iteration, Issue: IssueOf("protocol", code, err)}
}

func (m *modelRun) model() string { return cmp.Or(m.Prompt.Config.Model, m.env.Model) }

func (m *modelRun) providerID() string { return cmp.Or(m.Prompt.Config.Provider, m.env.Provider) }
