package openai

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/openai/openai-go/v3/option"

	"github.com/lash-go/lash/workers/llm"
)

const defaultURL = "https://api.openai.com/v1"

// Config configures a provider.
type Config struct {
	APIKey     string       // sent as a bearer token; empty sends none: for endpoints other than OpenAI's
	BaseURL    string       // "chat/completions" or "responses" is appended. Defaults to "https://api.openai.com/v1".
	HTTPClient *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// endpoint is the part of a provider that both dialects share.
type endpoint struct {
	key  string
	host string // vendor fields are replayed only to it

	base   string
	client *http.Client
}

// newEndpoint checks cfg, and returns the options of an SDK service too.
func newEndpoint(cfg Config) (*endpoint, []option.RequestOption, error) {
	if err := errors.Join(llm.CheckBaseURL(cfg.BaseURL), llm.CheckKey(cfg.APIKey)); err != nil {
		return nil, nil, err
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultURL
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, nil, err
	}
	e := &endpoint{key: cfg.APIKey, host: u.Host, base: cfg.BaseURL, client: cfg.HTTPClient}
	return e, []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL),
		option.WithAPIKey(cfg.APIKey),
		option.WithHTTPClient(llm.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0),
		option.WithMiddleware(llm.Explain(e.explain).Check),
	}, nil
}

func (p *endpoint) Models(ctx context.Context) ([]string, error) {
	return llm.Models(ctx, p.client, p.base, "models", "", http.Header{"Authorization": {"Bearer " + p.key}}, p.explain, p.key)
}

// Server implements [llm.Remote].
func (p *endpoint) Server() (address string, port int64) { return llm.ServerOf(p.base) }

func (p *endpoint) official() bool { return p.host == "api.openai.com" }

// checkKey rejects a call without a key to the official endpoint.
func (p *endpoint) checkKey() error {
	if p.official() && p.key == "" {
		return &llm.Error{Kind: llm.KindAuth, Message: "no API key"}
	}
	return nil
}

// result is the result of Complete: with an error only the usage and the model.
func (p *endpoint) result(ctx context.Context, res llm.Response, err error) (llm.Response, error) {
	if err != nil {
		return llm.Response{Usage: res.Usage, Model: res.Model}, llm.CallError(ctx, err, p.key)
	}
	return res, nil
}
