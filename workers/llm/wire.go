package llm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	maxMessage  = 4000      // characters of Error.Message and Response.Detail
	maxStream   = 256 << 20 // bytes of the body of a reply
	maxFailure  = 64 << 10  // bytes of the body of an error
	minSecret   = 8         // bytes
	longestWait = time.Hour // a longer wait is a mistake or an attack
)

// ServerOf is the address and the port of an http or https URL that [CheckBaseURL] accepts.
func ServerOf(base string) (address string, port int64) {
	u, err := url.Parse(base)
	if err != nil {
		return "", 0
	}
	if port, err = strconv.ParseInt(u.Port(), 10, 64); err != nil {
		port = map[string]int64{"http": 80, "https": 443}[u.Scheme]
	}
	return u.Hostname(), port
}

// Clip cuts text to the limit of a diagnostic in a history: 4000 characters of valid UTF-8.
func Clip(text string) string {
	text = strings.ToValidUTF8(text, string(utf8.RuneError))
	n := 0
	for i := range text {
		if n == maxMessage {
			return text[:i]
		}
		n++
	}
	return text
}

// Redact removes secret from text and clips it. A secret of less than 8 bytes stays: it is a placeholder for an endpoint that asks for no
// key, and may be a part of any word.
func Redact(text, secret string) string {
	if len(secret) >= minSecret {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return Clip(strings.TrimSpace(text))
}

// Raw is a response body that is safe to record, see [Redact]. JSON is encoded again: escapes in the body could hide
// a secret.
func Raw(body []byte, secret string) string {
	var value any
	var plain bytes.Buffer
	encoder := json.NewEncoder(&plain)
	encoder.SetEscapeHTML(false)
	if json.Unmarshal(body, &value) == nil && encoder.Encode(value) == nil {
		body = plain.Bytes()
	}
	return Redact(string(body), secret)
}

// StatusKind is the class of an HTTP status, for a response without a better reason.
func StatusKind(status int) ErrorKind {
	switch {
	case status == http.StatusTooManyRequests:
		return KindRateLimit
	case status >= 500:
		return KindServer
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return KindAuth
	case status == http.StatusRequestTimeout:
		return KindTransport
	case status == http.StatusRequestEntityTooLarge:
		return KindOverflow
	}
	return KindRequest
}

// retryAfter is the wait that a response requests: retry-after-ms, else Retry-After in seconds (with fractions) or as
// a date. A date counts from the response's Date, or else from now. The result is 0 for no or an invalid value, and
// at most one hour.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if wait, ok := parseWait(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return wait
	}
	header := h.Get("Retry-After")
	if wait, ok := parseWait(header, time.Second); ok {
		return wait
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return min(max(at.Sub(now), 0), longestWait)
}

func parseWait(s string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(s, 64)
	if math.IsInf(n, 1) {
		return longestWait, true
	}
	if err != nil || math.IsNaN(n) || n < 0 {
		return 0, false
	}
	return time.Duration(min(n*float64(unit), float64(longestWait))), true
}

// Explain converts a response that is not a stream to an error: its status and the first 64 KiB of its body.
type Explain func(status int, body []byte) *Error

// Check is a middleware that converts responses other than streams to errors before an SDK reads them, which it would
// do without a limit. It sets Status and RetryAfter of the error. A successful response of type JSON or HTML is not a
// stream: some endpoints respond 200 to everything.
func (e Explain) Check(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(req)
	if err == nil {
		err = e.check(res)
	}
	if err != nil {
		return nil, err
	}
	return res, nil
}

// check passes a stream on, and reads the body of any other response.
func (e Explain) check(res *http.Response) error {
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	ok := res.StatusCode >= 200 && res.StatusCode < 300
	if ok && media != "application/json" && media != "text/html" {
		res.Body = &stream{ReadCloser: res.Body, left: maxStream}
		return nil
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxFailure))
	if ok && err != nil {
		return err
	}
	if ok && media == "text/html" {
		return &Error{Kind: KindMalformed, Status: res.StatusCode, Message: "the endpoint answered with a web page"}
	}
	failed := e(res.StatusCode, body)
	failed.Status = res.StatusCode
	failed.RetryAfter = retryAfter(res.Header, time.Now())
	if failed.Message == "" {
		failed.Message = strings.TrimSpace("no explanation " + http.StatusText(res.StatusCode))
	}
	return failed
}

// stream limits the body of a reply to [maxStream] bytes. It is the only limit of what maxReplyBytes does not
// count, such as names and items without text.
type stream struct {
	io.ReadCloser

	left int64
}

// Read implements [io.Reader]. Above the limit the error is an [*Error] of kind malformed.
func (s *stream) Read(p []byte) (int, error) {
	if s.left <= 0 {
		return 0, &Error{Kind: KindMalformed, Message: fmt.Sprintf("the stream of the reply is larger than %d bytes", maxStream)}
	}
	n, err := s.ReadCloser.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// CallError is the error that Complete returns for err, which ended a call with ctx and secret. If ctx has ended, the
// result wraps ctx.Err() and the cause. It returns an [*Error] unchanged, and converts any other error to one.
func CallError(ctx context.Context, err error, secret string) error {
	if ctx.Err() != nil {
		return cancelled(ctx)
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err // without the URL
	}
	kind := KindTransport
	if errors.Is(err, bufio.ErrTooLong) {
		kind = KindMalformed
	}
	e := &Error{Kind: kind, Message: Redact(err.Error(), secret), Err: err}
	if hides(err, secret) {
		e.Err = nil
	}
	return e
}

func cancelled(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("model call: %w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("model call: %w", context.Cause(ctx))
}

// hides reports whether an error must not be wrapped: it contains the secret, or it reports the end of a context
// although the caller's has not ended (a timeout of the client).
func hides(err error, secret string) bool {
	return secret != "" && strings.Contains(fmt.Sprintf("%+v", err), secret) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// CheckBaseURL rejects an invalid root of an endpoint. Empty is the provider's own.
func CheckBaseURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return errors.New("base URL: not a URL") // without the parse error, which repeats the URL
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("base URL: want http:// or https:// and a host")
	case u.User != nil:
		return errors.New("base URL: must not hold credentials")
	case u.RawQuery != "", u.Fragment != "":
		return errors.New("base URL: must not have a query or fragment")
	}
	return nil
}

// CheckKey rejects an API key that cannot be in a header. Empty is allowed: local endpoints need no key.
func CheckKey(key string) error {
	for _, r := range key {
		if r <= ' ' || r >= 0x7f {
			return errors.New("API key: must be printable ASCII without spaces")
		}
	}
	return nil
}

// Client returns a copy of c that follows no redirects: an API does not redirect, and a key in a provider's own
// header would be sent along. nil is [http.DefaultClient].
func Client(c *http.Client) *http.Client {
	if c == nil {
		c = http.DefaultClient
	}
	own := *c
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Schema returns the top-level members of a tool's input schema, raw. It adds the members type and properties, which
// both chat APIs require. The error is an [*Error] of kind invalid_request.
func Schema(t Tool) (map[string]json.RawMessage, error) {
	schema := map[string]json.RawMessage{}
	if len(t.InputSchema) > 0 {
		if err := json.Unmarshal(t.InputSchema, &schema); err != nil || schema == nil {
			return nil, &Error{Kind: KindRequest, Message: fmt.Sprintf("tool %s: input schema is not a JSON object", t.Name), Err: err}
		}
	}
	if _, ok := schema["type"]; !ok {
		schema["type"] = json.RawMessage(`"object"`)
	}
	if _, ok := schema["properties"]; !ok {
		schema["properties"] = json.RawMessage(`{}`)
	}
	return schema, nil
}

// OutputSchema returns the top-level members of an output's schema, raw. The error is an [*Error] of kind
// invalid_request.
func OutputSchema(o Output) (map[string]json.RawMessage, error) {
	var schema map[string]json.RawMessage
	if err := json.Unmarshal(o.Schema, &schema); err != nil || schema == nil {
		return nil, &Error{Kind: KindRequest, Message: fmt.Sprintf("output %s: schema is not a JSON object", o.Name), Err: err}
	}
	return schema, nil
}
