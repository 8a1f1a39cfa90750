package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// traceCall tells of a model call: when it starts, and what it came to.
func (w *Worker) traceCall(where api.TraceContext, about api.TraceEvent, call func() (llm.Response, int, error)) (llm.Response, int, error) {
	if !w.host.Traces() {
		return call()
	}
	about.Type = api.TraceModelStarted
	w.host.Trace(0, where, about)
	began := time.Now()
	resp, attempts, err := call()
	about.Attempts, about.Millis = int64(attempts), time.Since(began).Milliseconds()
	if err != nil {
		about.Type = api.TraceModelFailed
		about.Kind, about.Code = kindOf(err)
		w.host.Trace(0, where, about)
		return resp, attempts, err
	}
	about.Type, about.Model, about.Stop = api.TraceModelCompleted, orDefault(resp.Model, about.Model), resp.Stop
	w.host.Trace(0, where, about)
	used := api.TokenUsage{
		Input: resp.Usage.Input, Output: resp.Usage.Output, CacheRead: resp.Usage.CacheRead, CacheWrite: resp.Usage.CacheWrite, Reasoning: resp.Usage.Reasoning,
	}
	w.host.Trace(0, where, api.TraceEvent{Type: api.TraceTokenUsage, Model: about.Model, Source: about.Source, Usage: &used})
	return resp, attempts, nil
}

// kindOf names a failure of a model call without its words, which are the provider's.
func kindOf(err error) (kind, code string) {
	var failure *llm.Error
	switch {
	case errors.Is(err, context.Canceled):
		return "cancelled", ""
	case errors.As(err, &failure):
		return string(failure.Kind), failure.Code
	}
	return "runtime", ""
}

// where is the place of a turn's model call.
func (m *modelCall) where() api.TraceContext {
	c := api.TraceContext{Session: m.session, Turn: m.owes.Turn, Iteration: &m.owes.Iteration, Effect: m.effect}
	if t := m.seen.state.Turn(); t != nil {
		c.TurnIndex = t.Index
		c.ModelCall = fmt.Sprintf("%s:%s:%d:%d", c.Session, c.Turn, *c.Iteration, t.Attempt)
	}
	return c
}

// tracePrompt tells of the prompt that the model is about to be asked with.
func (m *modelCall) tracePrompt() {
	if m.w.host.Traces() {
		m.w.host.Trace(0, m.where(), api.TraceEvent{
			Type: api.TracePromptBuilt, Prompt: m.prompt.Ref.Digest, Messages: len(m.prompt.Messages), Tools: len(m.prompt.Tools),
		})
	}
}
