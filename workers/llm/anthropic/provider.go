package anthropic

import (
	"cmp"
	"context"
	"net/http"

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
	HTTPClient *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// Provider is an [llm.Provider]. It may be used from many goroutines.
type Provider struct{ endpoint *llm.Endpoint }

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
	if err := e.Check(); err != nil {
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
	body, err := p.params(req)
	if err != nil {
		return llm.Response{}, err
	}
	return p.endpoint.Complete(ctx, "v1/messages", body, decode, sink)
}
