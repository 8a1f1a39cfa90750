package call

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

// Complete makes a direct completion with the session's provider and the retry policy. It runs no hooks and no tools.
// The host uses it as [session.Config.Complete].
func (e *Env) Complete(ctx context.Context, req session.DirectCall) (plugin.Completion, error) {
	config := req.Config
	provider, err := e.ProviderFor(req.Session, config)
	if err != nil {
		return plugin.Completion{}, err
	}
	messages, err := blob.Fill(ctx, e.Blobs, req.Messages)
	if err != nil {
		return plugin.Completion{}, err
	}
	model := cmp.Or(req.Model, config.Model, e.Model)
	asked := llm.Request{
		Session: req.Session, Silence: e.Silence.of(config, model), Model: model, MaxOutputTokens: req.MaxTokens, Effort: cmp.Or(req.Effort, config.Effort),
		Sampling: req.Sampling.Over(config.Sampling),
		Messages: messages, Tools: completionTools(req.Tools), ToolChoice: llm.ToolChoice(req.ToolChoice), Output: llm.Output(req.Output),
	}
	sink, retried := streamTo(req.Stream)
	resp, tries, err := e.traced(req.TraceContext, e.requestEvent(cmp.Or(config.Provider, e.Provider), req.Source, &asked), func() (llm.Response, tries, error) {
		call := func(ctx context.Context, piece func()) (llm.Response, error) {
			return complete(ctx, provider, asked, noticed(sink, piece))
		}
		resp, first, err := e.withRetries(ctx, call, retried)
		failure, ok := errors.AsType[*llm.Error](err)
		bare, n := llm.WithoutAttachments(messages, func(events.Part) bool { return true })
		if !ok || !failure.OfAttachment() || n == 0 {
			return resp, first, err
		}
		asked.Messages = bare
		if retried != nil {
			retried(first.n, 0, failure)
		}
		resp, t, err := e.withRetries(ctx, call, retried)
		return resp, first.and(t), err
	})
	if failure, ok := errors.AsType[*llm.Error](err); ok && failure.Kind == llm.KindOverflow {
		return plugin.Completion{}, fmt.Errorf("%w: %w", api.ErrContextOverflow, err)
	} else if ok {
		return plugin.Completion{}, fmt.Errorf("%w: %w", api.ErrCompletion, err)
	}
	if err != nil {
		return plugin.Completion{}, err
	}
	return plugin.Completion{
		Text: textOf(resp.Parts), Parts: resp.Parts, Stop: resp.Stop, Usage: resp.Usage.Add(tries.spent), Model: cmp.Or(resp.Model, model),
	}, nil
}

// streamTo returns a function that passes a provider's deltas to a stream, and one that retracts them before the next
// try; both are nil without a stream.
func streamTo(stream func(plugin.CompletionDelta)) (func(llm.Delta), retryFunc) {
	if stream == nil {
		return nil, nil
	}
	add := func(d llm.Delta) { stream(plugin.CompletionDelta{Kind: d.Kind, Text: d.Text}) }
	return add, func(int, time.Duration, *llm.Error) { stream(plugin.CompletionDelta{Reset: true}) }
}
