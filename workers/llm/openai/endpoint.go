package openai

import (
	"cmp"
	"context"
	"net/http"
	"net/url"

	"github.com/lash-go/lash/workers/llm"
)

const (
	officialHost = "api.openai.com"
	defaultURL   = "https://" + officialHost + "/v1"
)

// Config configures a provider.
type Config struct {
	APIKey     string       // sent as a bearer token; empty sends none: for endpoints other than OpenAI's
	BaseURL    string       // "chat/completions" or "responses" is appended. Defaults to "https://api.openai.com/v1".
	Header     http.Header  // of each request, beside those of the API
	Query      url.Values   // of each request
	HTTPClient *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// endpoint is the part of a provider that both dialects share.
type endpoint struct{ http *llm.Endpoint }

func newEndpoint(id string, cfg Config) (endpoint, error) {
	e := &llm.Endpoint{Name: id, Base: cmp.Or(cfg.BaseURL, defaultURL), Key: cfg.APIKey, Header: http.Header{}, Client: cfg.HTTPClient}
	e.NeedsKey = e.Host() == officialHost
	if cfg.APIKey != "" {
		e.Header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	return endpoint{e.With(cfg.Header, cfg.Query)}, e.Check()
}

// ID implements [llm.Provider].
func (e endpoint) ID() string { return e.http.Name }

// Server implements [llm.Remote].
func (e endpoint) Server() (address string, port int64) { return e.http.Server() }

// Models implements [llm.Lister].
func (e endpoint) Models(ctx context.Context) ([]string, error) {
	return e.http.Models(ctx, "models", "")
}
