package workers

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

// complete asks a model directly, under the session's provider and retry policy: no hooks, no tools, no stream.
func (w *Worker) complete(ctx context.Context, config events.Config, id events.SessionID, req plugin.CompletionRequest) (plugin.Completion, error) {
	provider, err := w.provider(id, config)
	if err != nil {
		return plugin.Completion{}, err
	}
	messages, err := session.Fill(ctx, w.blobs, req.Messages)
	if err != nil {
		return plugin.Completion{}, err
	}
	model := orDefault(req.Model, orDefault(config.Model, w.cfg.Model))
	resp, _, err := w.retried(ctx, func(ctx context.Context) (llm.Response, error) {
		return complete(ctx, provider, llm.Request{
			Session: id, Model: model, MaxOutputTokens: req.MaxTokens, Effort: orDefault(req.Effort, config.Effort),
			Messages: messages, Tools: toolSpecs(req.Tools),
		}, nil)
	}, nil)
	if err != nil {
		return plugin.Completion{}, err
	}
	return plugin.Completion{
		Text: textOf(resp.Parts), Parts: resp.Parts, Stop: resp.Stop, Usage: resp.Usage, Model: orDefault(resp.Model, model),
	}, nil
}
