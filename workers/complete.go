package workers

import (
	"context"

	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

// complete asks a model directly, under the session's provider and retry policy: no hooks, no tools, no stream.
func (w *Worker) complete(ctx context.Context, req session.DirectCall) (plugin.Completion, error) {
	config := req.Config
	provider, err := w.provider(req.Session, config)
	if err != nil {
		return plugin.Completion{}, err
	}
	messages, err := session.Fill(ctx, w.blobs, req.Messages)
	if err != nil {
		return plugin.Completion{}, err
	}
	model := orDefault(req.Model, orDefault(config.Model, w.cfg.Model))
	about := api.TraceEvent{Provider: orDefault(config.Provider, w.cfg.Provider), Model: model, Source: req.Source}
	resp, _, err := w.traceCall(req.Where, about, func() (llm.Response, int, error) {
		return w.retried(ctx, func(ctx context.Context) (llm.Response, error) {
			return complete(ctx, provider, llm.Request{
				Session: req.Session, Model: model, MaxOutputTokens: req.MaxTokens, Effort: orDefault(req.Effort, config.Effort),
				Messages: messages, Tools: toolSpecs(req.Tools), ToolChoice: llm.ToolChoice(req.ToolChoice), Output: llm.Output(req.Output),
			}, nil)
		}, nil)
	})
	if err != nil {
		return plugin.Completion{}, err
	}
	return plugin.Completion{
		Text: textOf(resp.Parts), Parts: resp.Parts, Stop: resp.Stop, Usage: resp.Usage, Model: orDefault(resp.Model, model),
	}, nil
}
