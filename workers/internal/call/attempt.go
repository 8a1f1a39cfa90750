package call

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

// request builds the request to the provider.
func (m *modelRun) request() llm.Request {
	req := llm.Request{
		Session: m.session, Turn: m.Needs.Turn, Iteration: m.Needs.Iteration, Effect: m.effect,
		Silence: m.env.Silence.of(m.Prompt.Config, m.model()),
		Model:   m.model(), MaxOutputTokens: m.Prompt.Config.MaxOutputTokens, Effort: m.Prompt.Config.Effort,
		Sampling: m.Prompt.Config.Sampling, Output: llm.Output(plugin.OutputOf(m.At.input.Output)),
		Messages: m.rendered(m.messages()), Tools: toolSpecs(m.Prompt.Tools),
	}
	if m.Preamble.HideTools {
		req.Tools = nil
	}
	return req
}

// complete calls the provider under the retry policy, and streams the reply. What the endpoint refuses is left out of the
// prompt, which is then sent once more.
func (m *modelRun) complete(ctx context.Context, req llm.Request) (llm.Response, tries, error) {
	provider, err := m.env.ProviderFor(m.session, m.Prompt.Config)
	if missing, ok := errors.AsType[*api.ProviderError](err); ok {
		return llm.Response{}, tries{}, &llm.Error{Kind: llm.KindRequest, Code: missing.Code(), Message: clip(err.Error()), Err: err}
	}
	deltas := newDeltas(m.env.Bus, m.env.Quiet, m.session, m.Needs.Turn, m.Needs.Iteration)
	defer deltas.stop()
	var done tries
	for {
		resp, t, err := m.env.withRetries(ctx, func(ctx context.Context, piece func()) (llm.Response, error) {
			return m.attempt(ctx, provider, req, deltas, piece)
		}, func(n int, wait time.Duration, failure *llm.Error) {
			m.recordFailedTry(wait, failure)
			deltas.retry(done.n+n, m.env.Retry.Attempts, wait, failure)
		})
		done = done.and(t)
		again, failure, ok := m.mended(&req, &resp, err)
		if ctx.Err() != nil || !ok {
			return resp, done, m.withAdvice(err)
		}
		if err == nil { // a reply that ended with the overflow
			done.failed(&resp)
		}
		m.recordFailedTry(0, failure)
		deltas.retry(done.n, m.env.Retry.Attempts, 0, failure)
		req = again
	}
}

// recordFailedTry records a failed try that another one follows.
func (m *modelRun) recordFailedTry(wait time.Duration, failure *llm.Error) {
	if len(m.failedTries) == events.MaxFailedTries {
		m.failedTries = m.failedTries[1:]
	}
	m.failedTries = append(m.failedTries, events.FailedTry{
		Error: string(failure.Kind), Code: failure.Code, Status: int64(failure.Status), Message: clip(failure.Message), Wait: wait.Milliseconds(),
	})
}

// rendered is the conversation in the protocol's form, with the plugins' contributions.
func (m *modelRun) rendered(messages []events.Message) []events.Message {
	if m.Preamble.Render != nil {
		messages = m.Preamble.Render(messages)
	}
	if m.Prompt.System == "" {
		return messages
	}
	return append([]events.Message{plugin.Say(events.RoleSystem, m.Prompt.System)}, messages...)
}

// attempt calls the provider once. Plugins and the protocol transform its stream, and may end it.
func (m *modelRun) attempt(ctx context.Context, provider llm.Provider, req llm.Request, deltas *deltas, piece func()) (llm.Response, error) {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	m.stream = &stream{ctx: ctx, cut: cut, stack: m.Stack, preamble: m.Preamble, deltas: deltas}
	return m.stream.close(complete(ctx, provider, req, noticed(m.stream.add, piece)))
}

// endStream notifies the plugins of the end of the stream.
func (m *modelRun) endStream(ctx context.Context, err error) {
	reason := plugin.StreamComplete
	switch {
	case m.stream != nil && m.stream.aborted:
		reason = plugin.StreamAborted
	case ctx.Err() != nil:
		reason = plugin.StreamCancelled
	case err != nil:
		reason = plugin.StreamFailed
	}
	m.Stack.EndStream(ctx, reason)
}

func toolSpecs(entries []events.ToolEntry) []llm.Tool {
	list := make([]llm.Tool, len(entries))
	for i := range entries {
		list[i] = llm.Tool{Name: entries[i].Name, Description: toolDescription(&entries[i]), InputSchema: entries[i].Look().Schema}
	}
	return list
}

func completionTools(tools []plugin.CompletionTool) []llm.Tool {
	list := make([]llm.Tool, len(tools))
	for i, t := range tools {
		list[i] = llm.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema}
	}
	return list
}

// toolDescription is the description of a tool for the model, without its argument schema.
func toolDescription(t *events.ToolEntry) string {
	text, contract := t.Description, t.Look()
	if len(contract.Output) > 0 {
		text += "\n\nReturns JSON of the schema " + string(contract.Output)
	}
	if len(contract.Examples) > 0 {
		text += "\n\nExamples of arguments:"
	}
	for _, example := range contract.Examples {
		text += "\n" + string(example)
	}
	return strings.TrimPrefix(text, "\n\n")
}
