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

// traced makes a model call, and traces its start, its end and its usage, with that of failed tries.
func (e *Env) traced(where api.TraceContext, about api.TraceEvent, call func() (llm.Response, tries, error)) (llm.Response, tries, error) {
	if !e.Worker.Traces() {
		return call()
	}
	about.Type = api.TraceModelStarted
	e.Worker.Trace(0, where, about)
	started := time.Now()
	resp, tries, err := call()
	about.Attempts, about.Millis = int64(tries.n), time.Since(started).Milliseconds()
	model, used := cmp.Or(resp.Model, tries.model, about.Model), tries.spent
	if err != nil {
		about.Type = api.TraceModelFailed
		about.Kind, about.Code = kindOf(err)
	} else {
		about.FirstMillis = tries.first
		about.Type, about.Model, about.Reply, about.Stop, about.Usage = api.TraceModelCompleted, model, resp.ID, resp.Stop, api.UsageOf(resp.Usage)
		used = used.Add(resp.Usage)
	}
	e.Worker.Trace(0, where, about)
	if !used.IsZero() {
		e.Worker.Trace(0, where, api.TraceEvent{
			Type: api.TraceTokenUsage, Provider: about.Provider, Model: model, Asked: about.Asked, Source: about.Source, Usage: api.UsageOf(used),
		})
	}
	return resp, tries, err
}

// requestEvent is the trace event of a request.
func (e *Env) requestEvent(provider, source string, req *llm.Request) api.TraceEvent {
	about := api.TraceEvent{Provider: provider, Model: req.Model, Asked: req.Model, Source: source, Request: &api.ModelRequest{
		MaxOutputTokens: req.MaxOutputTokens, Temperature: req.Sampling.Temperature, TopP: req.Sampling.TopP, Seed: req.Sampling.Seed,
		Stop: req.Sampling.Stop, Output: req.Output.JSON || len(req.Output.Schema) > 0,
	}}
	if remote, ok := e.Providers[provider].(llm.Remote); ok {
		about.Request.Stream = true
		about.Server, about.Port = remote.Server()
	}
	return about
}

// kindOf is the kind and code of a model call's failure. It omits the message, which is the provider's text.
func kindOf(err error) (kind, code string) {
	if errors.Is(err, context.Canceled) {
		return "cancelled", ""
	}
	if failure, ok := errors.AsType[*llm.Error](err); ok {
		return string(failure.Kind), failure.Code
	}
	return "runtime", ""
}

// traceContext is the trace context of the call.
func (m *modelRun) traceContext() api.TraceContext {
	c := api.TraceContextOf(m.At.state)
	c.Session, c.Turn, c.Iteration, c.Effect = m.session, m.Needs.Turn, &m.Needs.Iteration, m.effect
	if t := m.At.state.Turn(); t != nil {
		c.ModelCall = fmt.Sprintf("%s:%s:%d:%d", c.Session, c.Turn, *c.Iteration, t.Attempt)
	}
	return c
}

// tracePrompt traces the call's prompt.
func (m *modelRun) tracePrompt() {
	if m.env.Worker.Traces() {
		m.env.Worker.Trace(0, m.traceContext(), api.TraceEvent{
			Type: api.TracePromptBuilt, Prompt: m.Prompt.Ref.Digest, Messages: len(m.Prompt.Messages), Tools: len(m.Prompt.Tools),
		})
	}
}
