package openai

import (
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/lash-go/lash/workers/llm"
)

const id = "openai"

// Provider is an [llm.Provider] that speaks Chat Completions. It may be used from many goroutines.
type Provider struct {
	*endpoint
	chat openai.ChatCompletionService
}

// New checks cfg and returns a provider. It sends nothing.
func New(cfg Config) (*Provider, error) {
	e, options, err := newEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	// A service, not a client: clients read OPENAI_* from the environment.
	return &Provider{endpoint: e, chat: openai.NewChatCompletionService(options...)}, nil
}

// ID implements [llm.Provider].
func (p *Provider) ID() string { return id }

// Complete implements [llm.Provider].
func (p *Provider) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	build := func() (openai.ChatCompletionNewParams, error) { return p.params(req) }
	res, err := send(p.endpoint, build, func(params openai.ChatCompletionNewParams, into option.RequestOption) error {
		return p.chat.NewStreaming(ctx, params, into).Err()
	}, newReply(p, sink))
	return p.result(ctx, res, err)
}
