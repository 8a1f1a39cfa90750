package llm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Endpoint is an HTTP API that streams its replies as server-sent events. It is for adapters. It follows no redirects and
// makes no second try. It may be used from many goroutines.
type Endpoint struct {
	Name     string       // of the provider
	Base     string       // URL that the paths of the requests are appended to
	Key      string       // in no error; empty for endpoints that ask for none
	NeedsKey bool         // a call without a key fails before it is sent
	Header   http.Header  // of each request, with the key
	Client   *http.Client // its redirect policy is not used. Defaults to http.DefaultClient.
}

// Check refuses a base that is no URL, or has parts that an endpoint's base cannot have, and a key that cannot be in a
// header. Errors do not have them.
func (e *Endpoint) Check() error {
	return errors.Join(checkBaseURL(e.Base), checkKey(e.Key))
}

// Host is the host of the base, with its port if it has one.
func (e *Endpoint) Host() string {
	u, err := url.Parse(e.Base)
	if err != nil {
		return ""
	}
	return u.Host
}

// Server implements [Remote].
func (e *Endpoint) Server() (address string, port int64) {
	u, err := url.Parse(e.Base)
	if err != nil {
		return "", 0
	}
	if port, err = strconv.ParseInt(u.Port(), 10, 64); err != nil {
		port = map[string]int64{"http": 80, "https": 443}[u.Scheme]
	}
	return u.Hostname(), port
}

// Complete posts body as JSON, and assembles the reply from what decode says of each event. decode runs in this goroutine.
// The response and the errors are those of [Provider].
func (e *Endpoint) Complete(ctx context.Context, path string, body any, decode func(ServerEvent) (Update, error), sink func(Delta)) (Response, error) {
	a := newAssembly(e, sink)
	err := e.stream(ctx, path, body, func(event ServerEvent) (done bool, err error) {
		u, err := decode(event)
		if err == nil {
			err = a.add(u)
		}
		if err == nil && u.Failure != nil {
			err = e.failed(0, *u.Failure)
		}
		return u.Done, err
	})
	res, err := a.end(err)
	if err != nil {
		return Response{Usage: res.Usage, Model: res.Model}, e.callError(ctx, err)
	}
	return res, nil
}

// stream passes the events of the response to next until that is done.
func (e *Endpoint) stream(ctx context.Context, path string, body any, next func(ServerEvent) (done bool, err error)) error {
	if e.NeedsKey && e.Key == "" {
		return &Error{Kind: KindAuth, Message: "no API key"}
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return &Error{Kind: KindRequest, Message: "the request cannot be encoded: " + e.redact(err.Error()), Err: err}
	}
	res, err := e.send(ctx, http.MethodPost, path, "", &encoded)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if err := e.checkStream(res); err != nil {
		return err
	}
	for events := NewEventReader(&limited{Reader: res.Body, left: maxStream}); ; {
		event, err := events.Next()
		if err == io.EOF { //nolint:errorlint // the reader's own
			return nil
		}
		if err != nil {
			return err
		}
		if event.Data = bytes.TrimSpace(event.Data); len(event.Data) == 0 {
			continue
		}
		if done, err := next(event); done || err != nil {
			return err
		}
	}
}

// send makes a request. body may be nil.
func (e *Endpoint) send(ctx context.Context, method, path, query string, body io.Reader) (*http.Response, error) {
	at, err := url.JoinPath(e.Base, path)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, at, body)
	if err != nil {
		return nil, err
	}
	req.URL.RawQuery = query
	req.Header = e.Header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("User-Agent", "lash")
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream, application/json;q=0.5")
	}
	client := *cmp.Or(e.Client, http.DefaultClient)
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key would be sent along
	return client.Do(req)
}

// checkStream converts a response other than a stream to an error, of which it reads the first 64 KiB. A successful
// response of type JSON or HTML is not a stream: some endpoints respond 200 to everything.
func (e *Endpoint) checkStream(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	ok := res.StatusCode >= 200 && res.StatusCode < 300
	if ok && media != "application/json" && media != "text/html" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxFailure))
	if ok && err != nil {
		return err
	}
	if ok && media == "text/html" {
		return &Error{Kind: KindMalformed, Status: res.StatusCode, Message: "the endpoint answered with a web page"}
	}
	f, found := ParseFailure(body)
	if ok && !found {
		return &Error{Kind: KindMalformed, Status: res.StatusCode, Message: "the endpoint answered with something other than a stream"}
	}
	failed := e.failed(res.StatusCode, f)
	failed.RetryAfter = retryAfter(res.Header, time.Now())
	return failed
}

// failed converts f; status is 0 inside a stream.
func (e *Endpoint) failed(status int, f Failure) *Error {
	return &Error{
		Kind:    f.kind(status),
		Status:  status,
		Code:    e.redact(cmp.Or(f.Code, f.Type)),
		Message: cmp.Or(e.redact(f.Message), strings.TrimSpace("no explanation "+http.StatusText(status))),
		Raw:     rawBody(f.Raw, e.Key),
	}
}

// Models reads a list of models, which has the same form in OpenAI's and Anthropic's APIs. An endpoint without one is an
// [*Error] of kind invalid_request.
func (e *Endpoint) Models(ctx context.Context, path, query string) ([]string, error) {
	names, err := e.models(ctx, path, query)
	if err != nil {
		return nil, e.callError(ctx, err)
	}
	return names, nil
}

func (e *Endpoint) models(ctx context.Context, path, query string) ([]string, error) {
	res, err := e.send(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxModels))
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		f, _ := ParseFailure(body[:min(len(body), maxFailure)])
		return nil, e.failed(res.StatusCode, f)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil || len(list.Data) == 0 {
		return nil, &Error{Kind: KindRequest, Message: "the endpoint gives no list of models", Err: errors.Join(err)}
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = Clip(m.ID)
	}
	return names, nil
}

// callError is the error of a call that err ended. If ctx has ended, it wraps ctx.Err() and the cause. It is an [*Error]
// otherwise.
func (e *Endpoint) callError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL
	}
	failed := &Error{Kind: KindTransport, Message: e.redact(err.Error()), Err: err}
	if e.hides(err) {
		failed.Err = nil
	}
	return failed
}

func cancelled(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("model call: %w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("model call: %w", context.Cause(ctx))
}

// hides reports whether an error must not be wrapped: it contains the key, or it reports the end of a context although
// the caller's has not ended (a timeout of the client).
func (e *Endpoint) hides(err error) bool {
	return e.Key != "" && strings.Contains(fmt.Sprintf("%+v", err), e.Key) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (e *Endpoint) redact(text string) string { return redact(text, e.Key) }

// limited limits a body. It is the only limit of what maxReplyBytes does not count, such as names and items without text.
type limited struct {
	io.Reader

	left int64
}

// Read implements [io.Reader]. Above the limit the error is an [*Error] of kind malformed.
func (l *limited) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, Malformed(fmt.Sprintf("a stream of more than %d bytes", maxStream))
	}
	n, err := l.Reader.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}
