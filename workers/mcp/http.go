package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"

	"github.com/lash-go/lash/workers/mcp/oauth"
)

// Limits of requests that are no calls: answers to the server, notifications, lists, and the request for its stream. The library gives
// most of them no time, so a server that leaves them open would keep their connections.
const (
	othersAtOnce = 32
	othersWait   = 10 * time.Second // for the head of the answer
)

func (s *Server) overHTTP(ctx context.Context, pace *pace) (_ mcp.Transport, said func() string, err error) {
	through := &headed{
		server: s, headers: s.Headers, streams: rate.NewLimiter(streamsPerSecond, streamsAtOnce), pace: pace,
		life: ctx, others: make(chan struct{}, othersAtOnce), wait: othersWait,
	}
	if s.OAuth.File != "" && !slices.ContainsFunc(slices.Collect(maps.Keys(s.Headers)), func(name string) bool { return strings.EqualFold(name, "authorization") }) {
		if through.tokens, err = oauth.NewSource(s.URL, s.OAuth); err != nil {
			return nil, nil, err
		}
	}
	said = func() string { text, _ := through.said.Load().(string); return text }
	client := &http.Client{Transport: through, CheckRedirect: sameHost}
	if s.SSE {
		if through.sse, err = url.Parse(s.URL); err != nil {
			return nil, nil, err
		}
		return &mcp.SSEClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}, said, nil
	}
	return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}, said, nil
}

// sameHost refuses redirects to another host.
func sameHost(r *http.Request, via []*http.Request) error {
	if err := notElsewhere(r.URL, via[0].URL); err != nil {
		return err
	}
	if len(via) > maxRedirects {
		return errors.New("it redirects without end")
	}
	return nil
}

// notElsewhere refuses an address on another host than that of the server, as a redirect or the first event of SSE names it: the headers may
// have secrets.
func notElsewhere(at, server *url.URL) error {
	if at.Host != server.Host || at.Scheme != server.Scheme {
		return fmt.Errorf("it names %s://%s, which does not get its headers: give that as the url", at.Scheme, at.Host)
	}
	return nil
}

const maxRedirects = 10

// headed sends requests with headers, and paces and bounds the answers.
type headed struct {
	server  *Server
	sse     *url.URL // of the server, where it names the address of requests; nil: it does not
	headers map[string]string
	tokens  *oauth.Source // nil: none
	streams *rate.Limiter // of requests that open one
	pace    *pace
	life    context.Context //nolint:containedctx // of the run
	others  chan struct{}   // has an element for each request that is no call
	wait    time.Duration   // of such a request, see othersWait
	said    atomic.Value    // string: what the last refusal of such a request says
}

var (
	errOthers = errors.New("it leaves too many requests open")
	errSlow   = errors.New("it does not answer a request")
)

// RoundTrip implements [http.RoundTripper].
func (h *headed) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		if err := h.streams.Wait(r.Context()); err != nil {
			return nil, err
		}
	}
	if h.sse != nil {
		if err := notElsewhere(r.URL, h.sse); err != nil {
			return nil, err
		}
	}
	call, _ := r.Context().Value(activeCallKey{}).(*activeCall)
	ctx, end := context.WithCancelCause(r.Context())
	release := func() bool { end(nil); return true }
	if r.Method != http.MethodDelete { // that one ends a session
		release = context.AfterFunc(h.life, func() { end(context.Cause(h.life)) })
	}
	r = r.Clone(ctx)
	for name, value := range h.headers {
		r.Header.Set(name, value)
	}
	token, err := h.authorize(r)
	if err != nil {
		release()
		end(err)
		return nil, err
	}
	carries := call != nil && r.Method == http.MethodPost && call.sent.CompareAndSwap(false, true)
	answer, err := h.send(r, call, end)
	var login error
	if err == nil && h.tokens != nil && oauth.WantsAuthorization(answer) {
		answer, login = h.renewed(r, call, token, answer, end)
		if login != nil && !carries {
			err = login
		}
	}
	switch {
	case err != nil:
		release()
		end(err)
		if r.Method == http.MethodGet && h.sse == nil && errors.Is(context.Cause(ctx), errSlow) {
			return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody, Header: http.Header{}, Request: r}, nil // it has no stream
		}
		return nil, err
	case carries && answer.StatusCode >= 300 && answer.StatusCode < 400:
		call.sent.Store(false) // the next request has the call
	}
	switch {
	case r.Method == http.MethodPost && answer.StatusCode == http.StatusOK:
		relabel(answer)
	case answer.StatusCode >= http.StatusBadRequest && notifies(r):
		answer.StatusCode = http.StatusAccepted // the next request tells whether the session goes on
	}
	answer.Body = &ending{h.body(ctx, answer), func() { release(); end(nil) }}
	switch {
	case carries:
		return answer, noteRefusal(call, r, answer, login, h.sse != nil)
	case r.Method == http.MethodPost && answer.StatusCode >= http.StatusBadRequest:
		said, err := refusalOf(r, answer)
		h.said.Store(said.message())
		return answer, err
	}
	return answer, nil
}

// notifies reports whether a request has a notification.
func notifies(r *http.Request) bool {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	var m struct {
		ID     json.RawMessage
		Method string
	}
	return json.NewDecoder(body).Decode(&m) == nil && m.ID == nil && m.Method != ""
}

// relabel gives an answer the type of content that it has: servers, and what is before them, send messages as texts, or as nothing. One that
// is labelled as a stream is not waited for.
func relabel(answer *http.Response) {
	if isStream(answer) {
		return
	}
	body := bufio.NewReader(answer.Body)
	begin, _ := body.Peek(len(`event:`)) // shorter ones are no message
	answer.Body = &ending{io.NopCloser(body), closer(answer.Body)}
	begin = bytes.TrimSpace(bytes.TrimPrefix(begin, byteOrderMark))
	switch {
	case bytes.HasPrefix(begin, []byte("{")), bytes.HasPrefix(begin, []byte("[")):
		answer.Header.Set("Content-Type", "application/json")
	case bytes.HasPrefix(begin, []byte("data:")), bytes.HasPrefix(begin, []byte("event:")), bytes.HasPrefix(begin, []byte("id:")):
		answer.Header.Set("Content-Type", "text/event-stream")
	}
}

// authorize gives a request the token that there is, and returns it.
func (h *headed) authorize(r *http.Request) (token string, err error) {
	if h.tokens == nil {
		return "", nil
	}
	if token, err = h.tokens.Token(r.Context()); err != nil {
		return "", h.login(err)
	}
	if token != "" {
		h.server.bearer.Store(token)
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return token, nil
}

// renewed gets another token after a refusal, and sends a request that has no call again with it. The call's own next attempt has
// another token.
func (h *headed) renewed(r *http.Request, call *activeCall, token string, refusal *http.Response, end context.CancelCauseFunc) (*http.Response, error) {
	token, err := h.tokens.Renew(r.Context(), token, refusal)
	if err != nil {
		return refusal, h.login(err)
	}
	h.server.bearer.Store(token)
	if call != nil || r.GetBody == nil && r.Body != nil && r.Body != http.NoBody {
		return refusal, nil
	}
	_ = refusal.Body.Close()
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return nil, err
		}
	}
	again.Header.Set("Authorization", "Bearer "+token)
	return h.send(again, call, end)
}

// login is an error of a source of tokens, with what to do.
func (h *headed) login(err error) error {
	if errors.Is(err, oauth.ErrLogin) {
		return fmt.Errorf("%w: lash-node mcp login %s --mcp FILE", err, h.server.Name)
	}
	return err
}

// sessionHeader names the session of a request.
const sessionHeader = "Mcp-Session-Id"

// noteRefusal notes how a server refuses the request that has a call. Only the answer to that one says so of the call: the library sends
// requests for the rest of an answer, and the cancel, in the call's context, too, when the server may have run it. Over SSE no answer to a
// request is one to its call.
func noteRefusal(call *activeCall, r *http.Request, answer *http.Response, login error, sse bool) error {
	over := &refusal{status: answer.StatusCode, session: r.Header.Get(sessionHeader) != "", login: login}
	switch {
	case answer.StatusCode >= http.StatusBadRequest:
		over, err := refusalOf(r, answer)
		if over.login = login; !sse && over.status >= http.StatusInternalServerError && over.answers() && !aboutSession.MatchString(over.message()) {
			answer.StatusCode = http.StatusOK // it is the answer to the call
			answer.Header.Set("Content-Type", "application/json")
			return err
		}
		call.refused.Store(over)
		return err
	case answer.StatusCode != http.StatusOK || isStream(answer):
		return nil
	}
	body, err := io.ReadAll(answer.Body) // it is bounded
	answer.Body = &ending{io.NopCloser(bytes.NewReader(body)), closer(answer.Body)}
	var m struct {
		ID    any             `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &m) == nil && m.Error != nil {
		over.body = string(m.Error)
		call.refused.Store(over)
		if m.ID == nil {
			answer.StatusCode = http.StatusBadRequest // the library would end the session: an error of no request
		}
	}
	return err
}

// refusalOf is an answer that refuses a request.
func refusalOf(r *http.Request, answer *http.Response) (*refusal, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxErrorText))
	answer.Body = &ending{io.NopCloser(io.MultiReader(bytes.NewReader(body), answer.Body)), closer(answer.Body)}
	seconds, _ := strconv.ParseFloat(answer.Header.Get("Retry-After"), 64) // a date is rare
	return &refusal{
		status: answer.StatusCode, session: r.Header.Get(sessionHeader) != "", body: string(body),
		after: time.Duration(min(max(seconds, 1), maxAfter.Seconds()) * float64(time.Second)),
	}, err
}

// maxAfter limits the wait that a server asks for before a call runs again.
const maxAfter = 30 * time.Second

// closer is a function that closes a body.
func closer(body io.Closer) func() { return func() { _ = body.Close() } }

// isStream reports whether an answer is a stream of events.
func isStream(answer *http.Response) bool {
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// send sends a request. Of those that are no calls, few wait at once, and not for long.
func (h *headed) send(r *http.Request, call *activeCall, end context.CancelCauseFunc) (*http.Response, error) {
	if call != nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	select {
	case h.others <- struct{}{}:
		defer func() { <-h.others }()
	default:
		return nil, errOthers
	}
	late := time.AfterFunc(h.wait, func() { end(errSlow) })
	defer late.Stop()
	return http.DefaultTransport.RoundTrip(r)
}

// ending is a body that ends its request when it is closed.
type ending struct {
	io.ReadCloser
	end func()
}

// Close implements [io.Closer].
func (e *ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}

// body reads an answer at the pace of the server. One that is no stream is one message, however many lines it has, and is bounded: the
// client reads all of it into memory. The transport itself bounds the events of a stream.
func (h *headed) body(ctx context.Context, answer *http.Response) io.ReadCloser {
	paced := h.pace.of(ctx, answer.Body)
	if isStream(answer) {
		events := exactOf(paced, inEvents)
		events.address = h.sse != nil
		return events
	}
	paced.whole = true
	return exactOf(&bounded{paced, maxMessage}, inOne)
}
