package openai

import (
	"context"

	"github.com/lash-go/lash/workers/llm"
)

// Responses is an [llm.Provider] for the Responses API. The endpoint stores nothing: every request has the whole
// conversation, with the reasoning in the endpoint's encryption. It may be used from many goroutines.
type Responses struct{ endpoint }

// NewResponses checks cfg and returns a provider. It sends nothing.
func NewResponses(cfg Config) (*Responses, error) {
	e, err := newEndpoint("openai-responses", cfg)
	if err != nil {
		return nil, err
	}
	return &Responses{e}, nil
}

// Complete implements [llm.Provider].
func (p *Responses) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	res, err := p.complete(ctx, req, sink)
	if p.shortened(err) || p.http.NeedsTools(err, &req) {
		res, err = p.complete(ctx, req, sink)
	}
	return res, err
}

func (p *Responses) complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	var foreign int64
	req.Messages, foreign = p.http.Owned(req.Messages, req.Model, nil)
	offer := p.http.Offer(&req)
	body, err := p.params(req, offer)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := p.http.Complete(ctx, &req, "responses", body, decodeResponse, sink)
	res.Foreign = foreign
	return offer.Received(res), err
}
