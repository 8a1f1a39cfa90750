package openai

import (
	"context"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"github.com/lash-go/lash/workers/llm"
)

// Responses is an [llm.Provider] for the Responses API. The endpoint stores nothing: every request has the whole
// conversation, with the reasoning in the endpoint's encryption. It may be used from many goroutines.
type Responses struct {
	*endpoint
	service responses.ResponseService
}

// NewResponses checks cfg and returns a provider. It sends nothing.
func NewResponses(cfg Config) (*Responses, error) {
	e, options, err := newEndpoint(cfg)
	if err != nil {
		return nil, err
	}
	return &Responses{endpoint: e, service: responses.NewResponseService(options...)}, nil
}

// ID implements [llm.Provider].
func (p *Responses) ID() string { return "openai-responses" }

// Complete implements [llm.Provider].
func (p *Responses) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	build := func() (responses.ResponseNewParams, error) { return p.params(req) }
	res, err := send(p.endpoint, build, func(params responses.ResponseNewParams, into option.RequestOption) error {
		return p.service.NewStreaming(ctx, params, into).Err()
	}, &output{p: p, parts: llm.NewAssembly(sink), items: map[int64]*item{}})
	return p.result(ctx, res, err)
}
