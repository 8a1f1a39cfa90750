package openai

import (
	"context"

	"github.com/lash-go/lash/workers/llm"
)

// Provider is an [llm.Provider] that speaks Chat Completions. It may be used from many goroutines.
type Provider struct{ endpoint }

// New checks cfg and returns a provider. It sends nothing.
func New(cfg Config) (*Provider, error) {
	e, err := newEndpoint("openai", cfg)
	if err != nil {
		return nil, err
	}
	return &Provider{e}, nil
}

// Complete implements [llm.Provider].
func (p *Provider) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	var foreign int64
	req.Messages, foreign = p.http.Owned(req.Messages, req.Model, nil)
	offer := p.http.Offer(req.Tools)
	body, err := p.params(req, offer)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := p.http.Complete(ctx, &req, "chat/completions", body, decode, sink)
	res.Foreign = foreign
	return offer.Received(res), err
}
