package llm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lash-go/lash/events"
)

// Config is what a provider for an HTTP API is made of.
type Config struct {
	APIKey     string       // empty sends none: for endpoints other than the API's own
	BaseURL    string       // the paths of the API are appended. Defaults to that of the API's own endpoint.
	Header     http.Header  // of each request, in place of those of the same names
	Query      url.Values   // of each request
	HTTPClient *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// Object is a JSON object of a request.
type Object = map[string]any

// Wire is an HTTP API of models: all that an adapter is. Its functions have no state.
type Wire struct {
	Name      string // of the provider
	BaseURL   string // of the API's own endpoint, which needs a key
	KeyHeader string // of the key, which
	KeyScheme string // precedes
	Header    http.Header
	Path      string // of requests for replies
	Models    string // path of the list of models, with its query

	CallID func(events.CallID) string        // the form of ids that the API takes, or empty
	Encode func(*Prepared) (Object, error)   // the body of a request; the error is an [*Error]
	Decode func(ServerEvent) (Update, error) // what an event that is an object says; it may be a whole reply
	Tells  map[string]*regexp.Regexp         // what refusals tell, see [Prepared.Learned], by their words; may be nil
}

// Endpoint is a [Provider] for an endpoint of a wire. It streams replies as server-sent events, and follows no redirects. It
// repeats a request only where a refusal told how the endpoint wants it, see [Prepared.Learned]. No error has the key, or a value of
// the config's headers and query.
type Endpoint struct {
	wire     Wire
	base     *url.URL
	official bool // the endpoint is the API's own
	config   Config
	header   http.Header // of each request, with the key
	secrets  []string

	scaled  *lru.Cache[[sha256.Size]byte, events.Part] // pictures, by the original's bytes
	forms   *lru.Cache[string, Form]                   // by schema, after "strict "
	lessons sync.Map                                   // by lesson

	forgotten *lru.Cache[[sha256.Size]byte, bool] // the Meta of parts that the endpoint does not take back
}

// NewEndpoint checks cfg and returns a provider. It sends nothing. Errors do not have the key, or what a header has.
func NewEndpoint(wire Wire, cfg Config) (*Endpoint, error) {
	e := &Endpoint{wire: wire, config: cfg, header: http.Header{}}
	var failed error
	e.base, failed = checkedURL(cmp.Or(cfg.BaseURL, wire.BaseURL))
	maps.Copy(e.header, wire.Header)
	if cfg.APIKey != "" {
		e.header.Set(wire.KeyHeader, wire.KeyScheme+cfg.APIKey)
		e.secrets = append(e.secrets, cfg.APIKey)
	}
	for name, values := range cfg.Header {
		e.header[http.CanonicalHeaderKey(name)] = values
		e.secrets = append(e.secrets, values...)
	}
	for _, values := range cfg.Query {
		e.secrets = append(e.secrets, values...)
	}
	if err := errors.Join(failed, checkKey(cfg.APIKey), checkHeader(e.header)); err != nil {
		return nil, err
	}
	own, err := url.Parse(wire.BaseURL)
	e.official = err == nil && own.Host == e.base.Host
	e.scaled, _ = lru.New[[sha256.Size]byte, events.Part](maxScaled) // a size above 0 is none that is refused
	e.forms, _ = lru.New[string, Form](maxForms)
	e.forgotten, _ = lru.New[[sha256.Size]byte, bool](maxForms)
	return e, nil
}

// cached is what was made of a key: most requests of a session have the same ones.
func cached[K comparable, V any](c *lru.Cache[K, V], key K, made func() V) V {
	v, ok := c.Get(key)
	if !ok {
		v = made()
		c.Add(key, v)
	}
	return v
}

// ID implements [Provider].
func (e *Endpoint) ID() string { return e.wire.Name }

// Server implements [Remote].
func (e *Endpoint) Server() (address string, port int64) {
	port, err := strconv.ParseInt(e.base.Port(), 10, 64)
	if err != nil {
		port = map[string]int64{"http": 80, "https": 443}[e.base.Scheme]
	}
	return e.base.Hostname(), port
}

// Complete implements [Provider].
func (e *Endpoint) Complete(ctx context.Context, req Request, sink func(Delta)) (Response, error) {
	for tries := 0; ; tries++ {
		p, err := e.prepare(req)
		if err != nil {
			return Response{}, err
		}
		body, err := e.wire.Encode(p)
		if err != nil {
			return Response{}, err
		}
		p.shape(body)
		res, err := e.complete(ctx, p, body, sink)
		if tries == maxLessons || !p.learns(err, body) {
			res.Foreign = p.foreign
			return p.received(res), err
		}
	}
}

// complete ends a call whose endpoint sends no content for too long: comments, pings and empty pieces are none.
func (e *Endpoint) complete(caller context.Context, p *Prepared, body Object, sink func(Delta)) (Response, error) {
	a := newAssembly(p, sink)
	limit := cmp.Or(p.Silence, longestWait)
	silent := &Error{Kind: KindTransport, Code: "silence", Message: fmt.Sprintf("the endpoint sent no content for %v: a model that thinks longer "+
		"without a word needs a larger limit: the setting model-silence of the node, silence_ms of the session", limit)}
	ctx, end := context.WithCancelCause(caller)
	defer end(nil)
	timer := time.AfterFunc(limit, func() { end(silent) })
	defer timer.Stop()
	whole, err := e.stream(ctx, body, func(event ServerEvent) (done bool, err error) {
		if bytes.HasPrefix(event.Data, []byte("[DONE]")) {
			return true, a.add(Update{End: &End{Detail: "[DONE] without a reason"}})
		}
		if words := event.Data[0] != '{' && event.Data[0] != '['; (words || a.ended != nil) && event.Name != "error" && !json.Valid(event.Data) {
			a.words = cmp.Or(a.words, e.redact(string(event.Data))) // a ping, or why there is no reply; after its end they say nothing about it
			return false, nil
		}
		before := a.content
		u, err := e.decode(event)
		if err == nil {
			err = a.add(u)
		}
		if err == nil && u.Failure != nil {
			err = e.failed(0, *u.Failure)
		}
		switch {
		case a.content == before:
		case a.ended != nil:
			timer.Reset(afterEnd)
		default:
			timer.Reset(limit)
		}
		return u.Done, err
	})
	err = cmp.Or(err, a.choose())
	switch passed := errors.Is(context.Cause(ctx), silent); {
	case err != nil && passed && a.ended != nil:
		err = nil // only the usage is lost
	case err != nil && passed:
		err = silent
	case err == nil && whole && a.ended == nil:
		err = &Error{Kind: KindMalformed, Message: "the endpoint answered with something other than a stream"}
	}
	res, err := a.end(err)
	if err != nil {
		return Response{Usage: res.Usage, Model: res.Model}, e.callError(caller, err)
	}
	return res, nil
}

// stream passes the events of the response to next until that is done. whole: the response is one JSON document, which is one event.
func (e *Endpoint) stream(ctx context.Context, body Object, next func(ServerEvent) (done bool, err error)) (whole bool, err error) {
	if e.official && e.config.APIKey == "" {
		return false, &Error{Kind: KindAuth, Message: "no API key"}
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return false, &Error{Kind: KindRequest, Message: "the request cannot be encoded: " + e.redact(err.Error()), Err: err}
	}
	res, err := e.send(ctx, http.MethodPost, e.wire.Path, bytes.NewReader(ValidUnicode(encoded.Bytes())))
	if err != nil {
		return false, err
	}
	defer func() { _ = res.Body.Close() }()
	events := NewEventReader(http.MaxBytesReader(nil, res.Body, maxStream))
	for n := 0; ; {
		event, err := events.Next()
		if err == io.EOF { //nolint:errorlint // the reader's own
			return whole && n == 1, nil
		}
		if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return false, Malformed(fmt.Sprintf("a stream of more than %d bytes", large.Limit))
		}
		if err != nil {
			return false, err
		}
		if event.Data = bytes.TrimSpace(event.Data); len(event.Data) == 0 || string(event.Data) == "{}" && event.Name != "error" {
			continue
		}
		whole = event.Bare
		if done, err := next(event); done || err != nil {
			return false, err
		}
		n++
	}
}

// send makes a request. A response that refuses it is an [*Error]. body may be nil.
func (e *Endpoint) send(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	path, query, _ := strings.Cut(path, "?")
	at := e.base.JoinPath(path)
	at.RawQuery = strings.Trim(query+"&"+e.config.Query.Encode(), "&")
	req, err := http.NewRequestWithContext(ctx, method, at.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header = e.header.Clone()
	req.Header.Set("User-Agent", "lash")
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream, application/json;q=0.5")
	}
	client := *cmp.Or(e.config.HTTPClient, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key would be sent along
	res, err := client.Do(req)
	if err != nil || res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, err
	}
	defer func() { _ = res.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(res.Body, maxFailure))
	f, _ := ParseFailure(said)
	failed := e.failed(res.StatusCode, f)
	failed.RetryAfter = cmp.Or(retryAfter(res.Header, time.Now()), failed.RetryAfter)
	return nil, failed
}

// failed converts f; status is 0 inside a stream.
func (e *Endpoint) failed(status int, f Failure) *Error {
	code, _ := strconv.Atoi(f.Code) // of a status
	return &Error{
		Kind:    f.kind(status),
		Status:  status,
		Code:    e.redact(cmp.Or(f.Code, f.Type)),
		Message: Clip(cmp.Or(e.redact(f.Message), strings.TrimSpace("no explanation "+http.StatusText(status))) + cmp.Or(mends[status], mends[code])),
		Raw:     rawBody(f.Raw, e.redact),

		RetryAfter: cmp.Or(waitIn(f.Message), waitIn(string(f.Raw))),
	}
}

// mends are what to do about statuses that another try does not change.
var mends = map[int]string{ //nolint:gochecknoglobals // a table that is only read
	http.StatusUnauthorized: " (check the API key of the endpoint)",
	http.StatusForbidden:    " (check what the API key of the endpoint may do, and the model's name)",
	http.StatusNotFound:     " (check the base URL of the endpoint, and the model's name)",
}

// Models implements [Lister]: lists of models have one form in all wires.
func (e *Endpoint) Models(ctx context.Context) ([]string, error) {
	res, err := e.send(ctx, http.MethodGet, e.wire.Models, nil)
	if err != nil {
		return nil, e.callError(ctx, err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxModels))
	if err != nil {
		return nil, e.callError(ctx, err)
	}
	var names []string
	answer := decoded(body)
	for _, m := range append(list(object(answer)["data"]), list(answer)...) { // Together's is a list alone
		if id, ok := object(m)["id"].(string); ok {
			names = append(names, Clip(id))
		}
	}
	if len(names) == 0 {
		return nil, &Error{Kind: KindRequest, Message: "the endpoint gives no list of models"}
	}
	return names, nil
}

// callError is the error of a call that err ended. If ctx has ended, it wraps ctx.Err() and the cause. It is an [*Error]
// otherwise, and wraps neither what has a secret nor the end of another context: a client's own timeout.
func (e *Endpoint) callError(ctx context.Context, err error) error {
	switch cause := context.Cause(ctx); {
	case cause == nil:
	case errors.Is(cause, ctx.Err()):
		return fmt.Errorf("model call: %w", cause)
	default:
		return fmt.Errorf("model call: %w: %w", ctx.Err(), cause)
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL
	}
	failed := &Error{Kind: KindTransport, Message: e.redact(err.Error())}
	secret := slices.ContainsFunc(e.secrets, func(s string) bool { return s != "" && strings.Contains(fmt.Sprintf("%+v", err), s) })
	if !secret && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		failed.Err = err
	}
	return failed
}

func (e *Endpoint) redact(text string) string { return redact(text, e.secrets...) }
