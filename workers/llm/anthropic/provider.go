package anthropic

import (
	"context"
	"errors"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/lash-go/lash/workers/llm"
)

const (
	id         = "anthropic"
	defaultURL = "https://api.anthropic.com"
)

// Config configures a provider.
type Config struct {
	APIKey     string       // sent as x-api-key; empty sends none: for endpoints other than Anthropic's
	BaseURL    string       // "v1/messages" is appended. Defaults to "https://api.anthropic.com".
	HTTPClient *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// Provider is an [llm.Provider]. It may be used from many goroutines.
type Provider struct {
	messages anthropic.MessageService
	key      string
	needsKey bool

	base   string
	client *http.Client
}

// New checks cfg and returns a provider. It sends nothing.
func New(cfg Config) (*Provider, error) {
	if err := errors.Join(llm.CheckBaseURL(cfg.BaseURL), llm.CheckKey(cfg.APIKey)); err != nil {
		return nil, err
	}
	p := &Provider{key: cfg.APIKey, needsKey: cfg.BaseURL == "" || cfg.BaseURL == defaultURL}
	if cfg.BaseURL == "" {
		cfg.BaseURL = defaultURL
	}
	p.base, p.client = cfg.BaseURL, cfg.HTTPClient
	options := []option.RequestOption{
		option.WithBaseURL(cfg.BaseURL),
		option.WithHTTPClient(llm.Client(cfg.HTTPClient)),
		option.WithMaxRetries(0),
		option.WithMiddleware(llm.Explain(p.explain).Check),
		// Spans may hold prompts, and the environment decides whether they do.
		option.WithoutOpenTelemetry(),
		option.WithOpenTelemetryPropagation(false),
	}
	if cfg.APIKey != "" {
		options = append(options, option.WithAPIKey(cfg.APIKey))
	}
	// A service, not a client: clients read ANTHROPIC_* and profile files.
	p.messages = anthropic.NewMessageService(options...)
	return p, nil
}

// ID implements [llm.Provider].
func (p *Provider) ID() string { return id }

// Server implements [llm.Remote].
func (p *Provider) Server() (address string, port int64) { return llm.ServerOf(p.base) }

// Models implements [llm.Lister].
func (p *Provider) Models(ctx context.Context) ([]string, error) {
	header := http.Header{"X-Api-Key": {p.key}, "Anthropic-Version": {"2023-06-01"}}
	return llm.Models(ctx, p.client, p.base, "v1/models", "limit=1000", header, p.explain, p.key)
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
	if p.needsKey && p.key == "" {
		return llm.Response{}, &llm.Error{Kind: llm.KindAuth, Message: "no API key"}
	}
	params, err := params(req)
	if err != nil {
		return llm.Response{}, err
	}
	// The SDK's stream drops events without a name and hides the body of error events, so this code decodes the
	// events of the response.
	var res *http.Response
	if err := p.messages.NewStreaming(ctx, params, option.WithResponseBodyInto(&res)).Err(); err != nil {
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
