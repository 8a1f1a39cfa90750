package anthropic

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/lash-go/lash/workers/llm"
)

const (
	id         = "anthropic"
	defaultURL = "https://api.anthropic.com"
	version    = "2023-06-01" // of the API
)

// Config configures a provider.
type Config struct {
	APIKey     string       // sent as x-api-key; empty sends none: for endpoints other than Anthropic's
	BaseURL    string       // "v1/messages" is appended. Defaults to "https://api.anthropic.com".
	Header     http.Header  // of each request, beside those of the API
	Query      url.Values   // of each request
	HTTPClient *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// Provider is an [llm.Provider]. It may be used from many goroutines.
type Provider struct {
	endpoint *llm.Endpoint
	signed   sync.Map // models whose endpoint takes no thinking without a signature
}

// New checks cfg and returns a provider. It sends nothing.
func New(cfg Config) (*Provider, error) {
	base := cmp.Or(cfg.BaseURL, defaultURL)
	e := &llm.Endpoint{
		Name: id, Base: base, Key: cfg.APIKey, NeedsKey: base == defaultURL,
		Header: http.Header{"Anthropic-Version": {version}}, Client: cfg.HTTPClient,
	}
	if cfg.APIKey != "" {
		e.Header.Set("X-Api-Key", cfg.APIKey)
	}
	if err := e.With(cfg.Header, cfg.Query).Check(); err != nil {
		return nil, err
	}
	return &Provider{endpoint: e}, nil
}

// ID implements [llm.Provider].
func (p *Provider) ID() string { return id }

// Server implements [llm.Remote].
func (p *Provider) Server() (address string, port int64) { return p.endpoint.Server() }

// Models implements [llm.Lister].
func (p *Provider) Models(ctx context.Context) ([]string, error) {
	return p.endpoint.Models(ctx, "v1/models", "limit=1000")
}

// Complete implements [llm.Provider].
func (p *Provider) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	res, err := p.complete(ctx, req, sink)
	if p.endpoint.NeedsTools(err, &req) || p.wantsSigned(err, &req) {
		res, err = p.complete(ctx, req, sink)
	}
	return res, err
}

// wantsSigned reports whether a refusal tells that thinking needs a signature.
func (p *Provider) wantsSigned(err error, req *llm.Request) bool {
	failed, ok := errors.AsType[*llm.Error](err)
	if !ok || failed.Kind != llm.KindRequest || !strings.Contains(failed.Message, "signature") {
		return false
	}
	p.signed.Store(req.Model, true)
	return true
}

func (p *Provider) complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	var foreign int64
	req.Messages, foreign = p.endpoint.Owned(req.Messages, req.Model, func(v llm.Vendor) bool {
		_, signed := p.signed.Load(req.Model)
		return string(v.Fields[llm.SignatureField]) != `""` || p.endpoint.Base != defaultURL && !signed
	})
	offer := p.endpoint.Offer(&req)
	body, err := p.params(req, offer)
	if err != nil {
		return llm.Response{}, err
	}
	res, err := p.endpoint.Complete(ctx, &req, "v1/messages", body, decode, sink)
	res.Foreign = foreign
	return offer.Received(res), err
}
