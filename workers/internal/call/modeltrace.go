package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// traced makes a model call, and traces its start, its end and its usage.
func (e *Env) traced(where api.TraceContext, about api.TraceEvent, call func() (llm.Response, int, error)) (llm.Response, int, error) {
	if !e.Host.Traces() {
		return call()
	}
	about.Type = api.TraceModelStarted
	e.Host.Trace(0, where, about)
	started := time.Now()
	resp, attempts, err := call()
	about.Attempts, about.Millis = int64(attempts), time.Since(started).Milliseconds()
	if err != nil {
		about.Type = api.TraceModelFailed
		about.Kind, about.Code = kindOf(err)
		e.Host.Trace(0, where, about)
		return resp, attempts, err
	}
	about.Type, about.Model, about.Stop = api.TraceModelCompleted, cmp.Or(resp.Model, about.Model), resp.Stop
	e.Host.Trace(0, where, about)
	used := api.TokenUsage{
		Input: resp.Usage.Input, Output: resp.Usage.Output, CacheRead: resp.Usage.CacheRead, CacheWrite: resp.Usage.CacheWrite, Reasoning: resp.Usage.Reasoning,
	}
	e.Host.Trace(0, where, api.TraceEvent{Type: api.TraceTokenUsage, Model: about.Model, Source: about.Source, Usage: &used})
	return resp, attempts, nil
}

// kindOf names a failure of a model call. It leaves the message out: that is the provider's text.
func kindOf(err error) (kind, code string) {
	if errors.Is(err, context.Canceled) {
		return "cancelled", ""
	}
	if failure, ok := errors.AsType[*llm.Error](err); ok {
		return string(failure.Kind), failure.Code
	}
	return "runtime", ""
}

// where is the trace context of the call.
func (m *modelCall) where() api.TraceContext {
	c := api.TraceContext{Session: m.session, Turn: m.Owes.Turn, Iteration: &m.Owes.Iteration, Effect: m.effect}
	if t := m.At.state.Turn(); t != nil {
		c.TurnIndex = t.Index
		c.ModelCall = fmt.Sprintf("%s:%s:%d:%d", c.Session, c.Turn, *c.Iteration, t.Attempt)
	}
	return c
}

// tracePrompt traces the prompt that the call is made with.
func (m *modelCall) tracePrompt() {
	if m.env.Host.Traces() {
		m.env.Host.Trace(0, m.where(), api.TraceEvent{
			Type: api.TracePromptBuilt, Prompt: m.Prompt.Ref.Digest, Messages: len(m.Prompt.Messages), Tools: len(m.Prompt.Tools),
		})
	}
}
