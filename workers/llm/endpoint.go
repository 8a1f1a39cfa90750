package llm

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
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

	query  url.Values // of each request
	extra  []string   // values of it and of headers, which are in no error
	scaled scaled
	forms  forms
	limits sync.Map // tokenLimit by model

	needTools sync.Map // models for which calls in a conversation need tools
}

// Check refuses a base that is no URL, or has parts that an endpoint's base cannot have, and a key, or a header, that cannot
// be in a request. Errors do not have them.
func (e *Endpoint) Check() error {
	return errors.Join(checkBaseURL(e.Base), checkKey(e.Key), checkHeader(e.Header))
}

// With adds headers, which replace those of the same names, and a query to each request. Errors have none of their values.
func (e *Endpoint) With(header http.Header, query url.Values) *Endpoint {
	e.query = query
	for name, values := range header {
		e.Header[http.CanonicalHeaderKey(name)] = values
		e.extra = append(e.extra, values...)
	}
	for _, values := range query {
		e.extra = append(e.extra, values...)
	}
	return e
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

// Complete posts the body of a request as JSON, and assembles the reply from what decode says of each event; a response that
// is one JSON document is one event. decode runs in this goroutine. The response and the errors are those of [Provider]. A request that the
// endpoint refuses for a field of the limit of output tokens is made once more as the endpoint wants it, see [tokenLimit].
func (e *Endpoint) Complete(ctx context.Context, req *Request, path string, body map[string]any, decode func(ServerEvent) (Update, error), sink func(Delta)) (Response, error) {
	limit, _ := e.limits.Load(req.Model)
	if known, ok := limit.(tokenLimit); ok {
		known.set(body, req)
	}
	res, err := e.complete(ctx, req, path, body, decode, sink)
	if limit, ok := limitOf(err, body, req); ok {
		e.limits.Store(req.Model, limit)
		limit.set(body, req)
		res, err = e.complete(ctx, req, path, body, decode, sink)
	}
	return res, err
}

func (e *Endpoint) complete(caller context.Context, req *Request, path string, body any, decode func(ServerEvent) (Update, error), sink func(Delta)) (Response, error) {
	a := newAssembly(e, req, sink)
	quiet, ctx := listen(caller, req.Silence)
	defer quiet.stop()
	whole, err := e.stream(ctx, path, body, func(event ServerEvent) (done bool, err error) {
		if bytes.HasPrefix(event.Data, []byte("[DONE]")) {
			return true, a.add(Update{End: &End{Detail: "[DONE] without a reason"}})
		}
		if a.ended != nil && event.Name == "" && !json.Valid(event.Data) {
			return false, nil // what follows the end and is no event of the wire says nothing about the reply
		}
		before := a.content
		u, err := decode(event)
		if err == nil {
			err = a.add(u)
		}
		if err == nil && u.Failure != nil {
			err = e.failed(0, *u.Failure)
		}
		if a.content > before {
			quiet.heard(a.ended != nil)
		}
		return u.Done, err
	})
	if quiet.passed(err) && a.ended != nil {
		err = nil // only the usage is lost
	}
	if whole && err == nil && a.ended == nil {
		err = &Error{Kind: KindMalformed, Message: "the endpoint answered with something other than a stream"}
	}
	res, err := a.end(err)
	if err != nil {
		if quiet.passed(err) {
			err = quiet.failure()
		}
		return Response{Usage: res.Usage, Model: res.Model}, e.callError(caller, err)
	}
	return res, nil
}

// stream passes the events of the response to next until that is done. whole: the response is one JSON document, which is one
// event.
func (e *Endpoint) stream(ctx context.Context, path string, body any, next func(ServerEvent) (done bool, err error)) (whole bool, err error) {
	if e.NeedsKey && e.Key == "" {
		return false, &Error{Kind: KindAuth, Message: "no API key"}
	}
	var encoded bytes.Buffer
	encoder := json.NewEncoder(&encoded)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(body); err != nil {
		return false, &Error{Kind: KindRequest, Message: "the request cannot be encoded: " + e.redact(err.Error()), Err: err}
	}
	res, err := e.send(ctx, http.MethodPost, path, "", bytes.NewReader(ValidUnicode(encoded.Bytes())))
	if err != nil {
		return false, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode < 200 || res.StatusCode >= 300 {
		return false, e.refusal(res)
	}
	in := bufio.NewReader(&limited{Reader: res.Body, left: maxStream})
	switch first, err := firstByte(in); {
	case err != nil && err != io.EOF: //nolint:errorlint // the reader's own
		return false, err
	case first == '<':
		return false, &Error{Kind: KindMalformed, Status: res.StatusCode, Message: "the endpoint answered with a web page"}
	}
	events := NewEventReader(in)
	for n := 0; ; {
		event, err := events.Next()
		if err == io.EOF { //nolint:errorlint // the reader's own
			return whole && n == 1, nil
		}
		if err != nil {
			return false, err
		}
		if event.Data = bytes.TrimSpace(event.Data); len(event.Data) == 0 {
			continue
		}
		whole = event.Bare
		if done, err := next(event); done || err != nil {
			return false, err
		}
		n++
	}
}

// firstByte skips white space and byte order marks, which some endpoints send while they have nothing to say, and returns the
// byte after them.
func firstByte(in *bufio.Reader) (byte, error) {
	for {
		begin, err := in.Peek(1)
		switch mark, _ := in.Peek(len("\uFEFF")); {
		case err != nil:
			return 0, err
		case string(mark) == "\uFEFF":
			_, _ = in.Discard(len(mark))
		case !strings.Contains(blanks, string(begin)):
			return begin[0], nil
		default:
			_, _ = in.Discard(1)
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
	req.URL.RawQuery = strings.Trim(query+"&"+e.query.Encode(), "&")
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

// refusal is the error of a response, of which it reads the first 64 KiB.
func (e *Endpoint) refusal(res *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxFailure))
	f, _ := ParseFailure(body)
	failed := e.failed(res.StatusCode, f)
	failed.RetryAfter = cmp.Or(retryAfter(res.Header, time.Now()), failed.RetryAfter)
	return failed
}

// failed converts f; status is 0 inside a stream.
func (e *Endpoint) failed(status int, f Failure) *Error {
	return &Error{
		Kind:    f.kind(status),
		Status:  status,
		Code:    e.redact(cmp.Or(f.Code, f.Type)),
		Message: Clip(cmp.Or(e.redact(f.Message), strings.TrimSpace("no explanation "+http.StatusText(status))) + mend(cmp.Or(status, f.status()))),
		Raw:     rawBody(f.Raw, e.redact),

		RetryAfter: cmp.Or(waitIn(f.Message), waitIn(string(f.Raw))),
	}
}

// mend is what to do about a status that another try does not change.
func mend(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return " (check the API key of the endpoint)"
	case http.StatusForbidden:
		return " (check what the API key of the endpoint may do, and the model's name)"
	case http.StatusNotFound:
		return " (check the base URL of the endpoint, and the model's name)"
	}
	return ""
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
	return slices.ContainsFunc(e.secrets(), func(s string) bool { return strings.Contains(fmt.Sprintf("%+v", err), s) }) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (e *Endpoint) redact(text string) string {
	for _, s := range e.secrets() {
		text = redact(text, s)
	}
	return redact(text, "")
}

// secrets are the key, and the values that [Endpoint.With] added.
func (e *Endpoint) secrets() []string {
	return slices.DeleteFunc(append([]string{e.Key}, e.extra...), func(s string) bool { return s == "" })
}

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
