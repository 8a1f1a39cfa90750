package openai

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/lash-go/lash/workers/llm"
)

const (
	id         = "openai"
	defaultURL = "https://api.openai.com/v1"
)

// Config is what a provider needs.
type Config struct {
	APIKey     string       // sent as a bearer token; empty sends none, which only other endpoints than OpenAI's accept
	BaseURL    string       // what "chat/completions" is appended to. Defaults to "https://api.openai.com/v1".
	HTTPClient *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// Provider is an [llm.Provider]. It may be used from many goroutines.
type Provider struct {
	chat openai.ChatCompletionService
	key  string
	host string // of the endpoint; replays of vendor fields are bound to it

	base   string
	client *http.Client
}

// New checks cfg and returns a provider. Nothing is sent before the first call.
func New(cfg Config) (*Provider, error) {
	if err := errors.Join(llm.CheckBaseURL(cfg.BaseURL), llm.CheckKey(cfg.APIKey)); err != nil {
		return nil, err
	}
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultURL
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	p := &Provider{key: cfg.APIKey, host: u.Host, base: cfg.BaseURL, client: cfg.HTTPClient}
	// A service, not a client: clients read OPENAI_* from the environment.
	p.chat = openai.NewChatCompletionService(
		option.WithBaseURL(cfg.BaseURL),
		option.WithAPIKey(cfg.APIKey),
		option.WithHTTPClient(llm.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0),
		option.WithMiddleware(llm.Explain(p.explain).Check),
	)
	return p, nil
}

// ID implements [llm.Provider].
func (p *Provider) ID() string { return id }

// Models implements [llm.Lister].
func (p *Provider) Models(ctx context.Context) ([]string, error) {
	return llm.Models(ctx, p.client, p.base, "models", "", http.Header{"Authorization": {"Bearer " + p.key}}, p.explain, p.key)
}

// Complete implements [llm.Provider].
func (p *Provider) Complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	res, err := p.complete(ctx, req, sink)
	if err != nil {
		return llm.Response{Usage: res.Usage, Model: res.Model}, llm.CallError(ctx, err, p.key)
	}
	return res, nil
}

func (p *Provider) complete(ctx context.Context, req llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	if p.official() && p.key == "" {
		return llm.Response{}, &llm.Error{Kind: llm.KindAuth, Message: "no API key"}
	}
	params, err := p.params(req)
	if err != nil {
		return llm.Response{}, err
	}
	// The SDK's stream hides whether [DONE] came and takes a null error for an
	// error, so we take the response and decode its events ourselves.
	var res *http.Response
	if err := p.chat.NewStreaming(ctx, params, option.WithResponseBodyInto(&res)).Err(); err != nil {
		return llm.Response{}, err
	}
	events := ssestream.NewDecoder(res)
	defer func() { _ = events.Close() }()
	r := newReply(p, sink)
	for !r.done && events.Next() {
		if err := r.event(events.Event()); err != nil {
			return llm.Response{Usage: r.usage, Model: r.model}, err
		}
	}
	return r.end(events.Err())
}

func (p *Provider) official() bool { return p.host == "api.openai.com" }
