package openai

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync/atomic"

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
type endpoint struct {
	http      *llm.Endpoint
	described *atomic.Int64 // limit of a tool's description, in characters, as a refusal told it; 0: none
}

// tooLong matches the refusal of a tool's description.
var tooLong = regexp.MustCompile(`description.*maximum length (?:of )?([0-9]+)`)

// shortened reports whether a refusal tells a new limit of a tool's description.
func (e endpoint) shortened(err error) bool {
	failed, ok := errors.AsType[*llm.Error](err)
	if !ok || failed.Kind != llm.KindRequest {
		return false
	}
	told := tooLong.FindStringSubmatch(failed.Message)
	if told == nil {
		return false
	}
	limit, _ := strconv.ParseInt(told[1], 10, 32)
	before := e.described.Swap(limit)
	return limit > 0 && (before == 0 || limit < before)
}

func newEndpoint(id string, cfg Config) (endpoint, error) {
	e := &llm.Endpoint{Name: id, Base: cmp.Or(cfg.BaseURL, defaultURL), Key: cfg.APIKey, Header: http.Header{}, Client: cfg.HTTPClient}
	e.NeedsKey = e.Host() == officialHost
	if cfg.APIKey != "" {
		e.Header.Set("Authorization", "Bearer "+cfg.APIKey)
	}
	return endpoint{e.With(cfg.Header, cfg.Query), new(atomic.Int64)}, e.Check()
}

// ID implements [llm.Provider].
func (e endpoint) ID() string { return e.http.Name }

// Server implements [llm.Remote].
func (e endpoint) Server() (address string, port int64) { return e.http.Server() }

// Models implements [llm.Lister].
func (e endpoint) Models(ctx context.Context) ([]string, error) {
	return e.http.Models(ctx, "models", "")
}
