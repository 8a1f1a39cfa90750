package mcp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/time/rate"
)

// Limits of requests that are no calls: answers to the server, notifications, lists, and the request for its stream. The library gives
// most of them no time, so a server that leaves them open would keep their connections.
const (
	othersAtOnce = 32
	othersWait   = 10 * time.Second // for the head of the answer
)

func (s *Server) overHTTP(ctx context.Context, pace *pace) *mcp.StreamableClientTransport {
	through := &headed{
		headers: s.Headers, streams: rate.NewLimiter(streamsPerSecond, streamsAtOnce), pace: pace,
		life: ctx, others: make(chan struct{}, othersAtOnce), wait: othersWait,
	}
	return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: &http.Client{Transport: through, CheckRedirect: sameHost}, MaxEventSize: maxMessage}
}

// sameHost refuses redirects to another host: the headers may have secrets.
func sameHost(r *http.Request, via []*http.Request) error {
	if first := via[0].URL; r.URL.Host != first.Host || r.URL.Scheme != first.Scheme {
		return errors.New("it redirects to another host")
	}
	if len(via) > maxRedirects {
		return errors.New("it redirects without end")
	}
	return nil
}

const maxRedirects = 10

// headed sends requests with headers, and paces and bounds the answers.
type headed struct {
	headers map[string]string
	streams *rate.Limiter // of requests that open one
	pace    *pace
	life    context.Context //nolint:containedctx // of the run
	others  chan struct{}   // has an element for each request that is no call
	wait    time.Duration   // of such a request, see othersWait
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
	carries := call != nil && r.Method == http.MethodPost && call.sent.CompareAndSwap(false, true)
	answer, err := h.send(r, call, end)
	switch {
	case err != nil:
		release()
		end(err)
		if r.Method == http.MethodGet && errors.Is(context.Cause(ctx), errSlow) {
			return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody, Header: http.Header{}, Request: r}, nil // it has no stream
		}
		return nil, err
	case carries && answer.StatusCode == http.StatusNotFound && r.Header.Get(sessionHeader) != "":
		call.missing.Store(true)
	case carries && answer.StatusCode >= 300 && answer.StatusCode < 400:
		call.sent.Store(false) // the next request has the call
	}
	answer.Body = &ending{h.body(ctx, answer), func() { release(); end(nil) }}
	return answer, nil
}

// sessionHeader names the session of a request. A server that does not have it answers with 404, and has not handled the request. Only
// the answer to the request that has the call says so of the call: the library sends requests for the rest of an answer, and the cancel,
// in the call's context, too, when the server may have run it.
const sessionHeader = "Mcp-Session-Id"

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
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	paced := h.pace.of(ctx, answer.Body)
	if strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") {
		return exactOf(paced, false)
	}
	paced.whole = true
	return exactOf(&bounded{paced, maxMessage}, true)
}
