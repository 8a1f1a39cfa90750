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

// Config is what a provider needs.
type Config struct {
	APIKey     string       // sent as a bearer token; empty sends none, which only other endpoints than OpenAI's accept
	BaseURL    string       // what "chat/completions" or "responses" is appended to. Defaults to "https://api.openai.com/v1".
	HTTPClient *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// endpoint is what both dialects know of the place that they send to.
type endpoint struct {
	key  string
	host string // replays of vendor fields are bound to it

	base   string
	client *http.Client
}

// newEndpoint checks cfg and returns the options of an SDK's service beside it.
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

// Models implements [llm.Lister].
func (p *endpoint) Models(ctx context.Context) ([]string, error) {
	return llm.Models(ctx, p.client, p.base, "models", "", http.Header{"Authorization": {"Bearer " + p.key}}, p.explain, p.key)
}

func (p *endpoint) official() bool { return p.host == "api.openai.com" }

// checkKey refuses a call that the official endpoint would.
func (p *endpoint) checkKey() error {
	if p.official() && p.key == "" {
		return &llm.Error{Kind: llm.KindAuth, Message: "no API key"}
	}
	return nil
}

// result is what Complete returns of a call: with an error no more than what the call cost.
func (p *endpoint) result(ctx context.Context, res llm.Response, err error) (llm.Response, error) {
	if err != nil {
		return llm.Response{Usage: res.Usage, Model: res.Model}, llm.CallError(ctx, err, p.key)
	}
	return res, nil
}
