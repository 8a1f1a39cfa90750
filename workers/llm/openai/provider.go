package openai

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/lash-go/lash/workers/llm"
)

// Provider is an [llm.Provider] that speaks Chat Completions. It may be used from many goroutines.
type Provider struct {
	endpoint
	wishes sync.Map // by wish: bool, whether the endpoint wants the field
}

// wish is about a field of the assistant's messages, as an endpoint's refusals tell it: endpoints refuse fields of their own
// replies, or miss the reasoning that another one did not send.
type wish struct{ model, field string }

// New checks cfg and returns a provider. It sends nothing.
func New(cfg Config) (*Provider, error) {
	e, err := newEndpoint("openai", cfg)
	if err != nil {
		return nil, err
	}
	return &Provider{endpoint: e}, nil
}

// Complete implements [llm.Provider].
func (p *Provider) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	res, err := p.complete(ctx, req, sink)
	if p.shortened(err) || p.http.NeedsTools(err, &req) || p.wished(err, req) {
		res, err = p.complete(ctx, req, sink)
	}
	return res, err
}

var words = regexp.MustCompile(`\w+`)

// wished reports whether a refusal tells a new wish.
func (p *Provider) wished(err error, req llm.Request) (is bool) {
	failed, ok := errors.AsType[*llm.Error](err)
	if !ok || failed.Kind != llm.KindRequest {
		return false
	}
	named := words.FindAllString(failed.Message, -1)
	wants := slices.Contains(named, "missing") || slices.Contains(named, "Missing") || strings.Contains(failed.Message, "must be passed")
	tell := func(field string) {
		if slices.Contains(named, field) && (!wants || field == reasoningFields[0]) {
			_, known := p.wishes.LoadOrStore(wish{req.Model, field}, wants)
			is = is || !known
		}
	}
	if wants {
		tell(reasoningFields[0])
	}
	for _, m := range req.Messages {
		for _, part := range m.Parts {
			own := p.http.Own(part).Fields
			tell(reasoningField(own))
			for name := range own {
				tell(strings.TrimPrefix(strings.TrimPrefix(name, messagePrefix), functionPrefix))
			}
		}
	}
	return is
}

func (p *Provider) complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	var foreign int64
	req.Messages, foreign = p.http.Owned(req.Messages, req.Model, nil)
	offer := p.http.Offer(&req)
	body, err := p.params(req, offer)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := p.http.Complete(ctx, &req, "chat/completions", body, decode, sink)
	res.Foreign = foreign
	return offer.Received(res), err
}
