package openai

import (
	"context"
	"net/http"

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
	res, err := p.complete(ctx, req, sink)
	return p.result(ctx, res, err)
}

func (p *Provider) complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	if err := p.checkKey(); err != nil {
		return llm.Response{}, err
	}
	params, err := p.params(req)
	if err != nil {
		return llm.Response{}, err
	}
	// The SDK's stream hides [DONE] and treats a null error as an error, so this code decodes the events of the
	// response.
	var res *http.Response
	if err := p.chat.NewStreaming(ctx, params, option.WithResponseBodyInto(&res)).Err(); err != nil {
		return llm.Response{}, err
	}
	return readEvents(res, newReply(p, sink))
}
