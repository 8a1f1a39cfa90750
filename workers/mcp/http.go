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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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

// Streams that the client opens in a second, and at once: a server may end each of them and say that it is to come again at once.
const (
	streamsPerSecond = 1
	streamsAtOnce    = 10
)

const (
	maxRedirects = 10
	maxRefusal   = 64 << 10         // bytes that are read of one
	maxAfter     = 30 * time.Second // that a server may ask to wait before a call runs again
)

var (
	errOthers = errors.New("it leaves too many requests open")
	errSlow   = errors.New("it does not answer a request")
)

// web sends the requests of a run over HTTP, and paces, bounds and changes the answers.
type web struct {
	run     *run
	base    http.RoundTripper
	tokens  *oauth.Source // nil: none
	streams *rate.Limiter // of requests that open one
	others  chan struct{} // has an element for each request that is no call
	said    atomic.Value  // string: what the last refusal of such a request says
}

func newWeb(r *run) *web {
	return &web{run: r, base: http.DefaultTransport, streams: rate.NewLimiter(streamsPerSecond, streamsAtOnce), others: make(chan struct{}, othersAtOnce)}
}

// overHTTP is the transport to a server over HTTP. said is what its last refusal says.
func (r *run) overHTTP() (_ mcp.Transport, said func() string, err error) {
	h, s := newWeb(r), r.server
	named := slices.ContainsFunc(slices.Collect(maps.Keys(s.Headers)), func(name string) bool { return strings.EqualFold(name, "authorization") })
	if s.OAuth.File != "" && !named {
		if h.tokens, err = oauth.NewSource(s.URL, s.OAuth); err != nil {
			return nil, nil, err
		}
	}
	said = func() string { text, _ := h.said.Load().(string); return text }
	client := &http.Client{Transport: h, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		switch {
		case len(via) > maxRedirects:
			return errors.New("it redirects without end")
		case r.Method != via[0].Method: // its path may be a secret
			return fmt.Errorf("it redirects to another address of %s, where messages do not go along: give that as the url", r.URL.Host)
		}
		return h.stays(r)
	}}
	if s.SSE {
		return &mcp.SSEClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}, said, nil
	}
	return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}, said, nil
}

// stays refuses a request to another host than that of the server, as a redirect or the first event of SSE names it: the headers may have
// secrets.
func (h *web) stays(r *http.Request) error {
	server, err := url.Parse(h.run.server.URL)
	if err == nil && (r.URL.Host != server.Host || r.URL.Scheme != server.Scheme) {
		err = fmt.Errorf("it names %s://%s, which does not get its headers: give that as the url", r.URL.Scheme, r.URL.Host)
	}
	return err
}

// heading is what a request has: a request of the protocol, which may be a call, or a notification; an answer has no method.
type heading struct {
	ID     json.RawMessage
	Method string
}

func headingOf(r *http.Request) (m heading) {
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			_ = json.NewDecoder(body).Decode(&m) // the library's JSON
		}
	}
	return m
}

// RoundTrip implements [http.RoundTripper].
func (h *web) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := h.stays(r); err != nil {
		return nil, err
	}
	if r.Method == http.MethodGet {
		if err := h.streams.Wait(r.Context()); err != nil {
			return nil, err
		}
	}
	ctx, end := context.WithCancelCause(r.Context())
	release := func() { end(nil) }
	if r.Method != http.MethodDelete { // that one ends a session
		stop := context.AfterFunc(h.run.ctx, func() { end(context.Cause(h.run.ctx)) })
		release = func() { stop(); end(nil) }
	}
	head := headingOf(r)
	call, _ := ctx.Value(attemptKey{}).(*attempt)
	carries := call != nil && head.Method != "" && head.ID != nil
	h.run.answers.sent(r.Context(), string(head.ID))
	r = r.Clone(ctx)
	for name, value := range h.run.server.Headers {
		r.Header.Set(name, value)
	}
	if carries {
		call.refused.Store(nil)
	}
	answer, err := h.authorized(r, func(r *http.Request) (*http.Response, error) { return h.send(r, call != nil, end) })
	var body []byte
	if err == nil {
		body, err = h.read(ctx, head, r, answer)
	}
	if err != nil {
		slow := errors.Is(context.Cause(ctx), errSlow)
		release()
		if slow && r.Method == http.MethodGet && !h.run.server.SSE { // it has no stream
			return &http.Response{StatusCode: http.StatusMethodNotAllowed, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
		}
		return nil, err
	}
	if body != nil {
		h.note(call, carries, r, answer, body)
	}
	answer.Body = &closing{answer.Body, release}
	return answer, nil
}

// authorized sends a request with the token that there is. A login that is needed is a refusal, which says so.
func (h *web) authorized(r *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	if h.tokens == nil {
		return send(r)
	}
	answer, err := h.tokens.Do(r, func(r *http.Request) (*http.Response, error) {
		h.run.server.bearer.Store(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		return send(r)
	})
	refused, ok := errors.AsType[*oauth.Refusal](err)
	if !ok {
		return answer, err
	}
	text := refused.Error()
	if errors.Is(err, oauth.ErrLogin) {
		h.run.source.login.Store(true)
		text += ": lash-node mcp login " + h.run.server.Name + " --mcp FILE"
	}
	return &http.Response{StatusCode: refused.Status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: r}, nil
}

// send sends a request. Of those that are no calls, few wait at once, and not for long.
func (h *web) send(r *http.Request, calls bool, end context.CancelCauseFunc) (*http.Response, error) {
	if calls {
		return h.base.RoundTrip(r)
	}
	select {
	case h.others <- struct{}{}:
		defer func() { <-h.others }()
	default:
		return nil, errOthers
	}
	late := time.AfterFunc(othersWait, func() { end(errSlow) })
	defer late.Stop()
	return h.base.RoundTrip(r)
}

// read makes the body of an answer one that the library reads: of what it is, whatever it is labelled as. A stream is read at the pace of the
// server; anything else is one message, which it returns, not nil.
func (h *web) read(ctx context.Context, head heading, r *http.Request, answer *http.Response) (data []byte, err error) {
	sent := answer.Body
	body := bufio.NewReader(sent)
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	stream := strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") && answer.StatusCode < http.StatusBadRequest
	asks := head.ID != nil && head.Method != ""
	posted := asks && answer.StatusCode == http.StatusOK
	if posted && !stream {
		begin, _ := body.Peek(len(`event:`)) // shorter ones are no message
		begin = bytes.TrimSpace(bytes.TrimPrefix(begin, byteOrderMark))
		stream = slices.ContainsFunc([]string{"data:", "event:", "id:"}, func(field string) bool { return bytes.HasPrefix(begin, []byte(field)) })
	}
	if stream {
		answer.Header.Set("Content-Type", "text/event-stream")
		paced := h.run.source.pace.of(ctx, closing{io.NopCloser(body), func() { _ = sent.Close() }})
		answer.Body = &eventStream{Closer: paced, from: bufio.NewReaderSize(paced, 32<<10), answers: &h.run.answers}
		return nil, nil
	}
	refuses := answer.StatusCode >= http.StatusBadRequest
	if !refuses && !asks || r.Method != http.MethodPost && !h.run.server.SSE {
		return nil, nil // the library does not read it
	}
	most := maxMessage
	if refuses {
		most = maxRefusal
	}
	data, err = io.ReadAll(io.LimitReader(body, int64(most)+1))
	_ = sent.Close()
	if err == nil && len(data) > maxMessage {
		err = errLarge
	}
	if err == nil {
		err = h.run.source.pace.wait(ctx, 1, len(data))
	}
	if data = mended(data); data == nil {
		data = []byte{}
	}
	if all := h.run.answers.messages(data); len(all) == 1 {
		data = all[0]
	}
	if posted && len(data) > 0 && (data[0] == '{' || data[0] == '[') {
		answer.Header.Set("Content-Type", "application/json")
	}
	if refuses && head.ID == nil && head.Method != "" {
		answer.StatusCode = http.StatusAccepted // of a notification: the next request tells whether the session goes on
	}
	answer.Body = io.NopCloser(bytes.NewReader(data))
	return data, err
}

// note notes how a server refuses the request that has a call, or another one. Only the answer to that one says so of the call: the library
// sends requests for the rest of an answer, and the cancel, in the call's context, too, when the server may have run it. Over SSE no answer
// to a request is one to its call.
func (h *web) note(call *attempt, carries bool, r *http.Request, answer *http.Response, body []byte) {
	seconds, _ := strconv.ParseFloat(answer.Header.Get("Retry-After"), 64) // a date is rare
	over := &refusal{
		status: answer.StatusCode, session: r.Header.Get(sessionHeader), body: string(body),
		after: time.Duration(min(max(seconds, 1), maxAfter.Seconds()) * float64(time.Second)),
	}
	refuses := answer.StatusCode >= http.StatusBadRequest
	switch {
	case !carries && refuses && (r.Method == http.MethodPost || h.run.server.SSE):
		h.said.Store(over.message())
	case !carries:
	case refuses && !h.run.server.SSE && over.status >= http.StatusInternalServerError && over.answers() && !over.aboutSession():
		answer.StatusCode = http.StatusOK // it is the answer to the call
		answer.Header.Set("Content-Type", "application/json")
	case refuses:
		h.run.refuses.Store(true)
		call.refused.Store(over)
		if m, _ := jsonrpc.DecodeMessage(body); !h.run.server.SSE && !isRefusal(m) { // the library would end the session, for all its calls
			answer.StatusCode = http.StatusInternalServerError
		}
	case answer.StatusCode == http.StatusOK:
		var m struct {
			ID, Error json.RawMessage
		}
		if json.Unmarshal(body, &m) != nil || isNull(m.Error) {
			return
		}
		over.body = string(m.Error)
		call.refused.Store(over)
		if isNull(m.ID) {
			answer.StatusCode = http.StatusBadRequest // the library would end the session: an error of no request
		}
	}
}

// isRefusal reports whether a message is an error, which the library gives to the call alone.
func isRefusal(m jsonrpc.Message) bool {
	answer, ok := m.(*jsonrpc.Response)
	return ok && answer.Error != nil
}

// sessionHeader names the session of a request.
const sessionHeader = "Mcp-Session-Id"

// closing is a body that does something after it is closed.
type closing struct {
	io.ReadCloser
	after func()
}

// Close implements [io.Closer].
func (c closing) Close() error {
	defer c.after()
	return c.ReadCloser.Close()
}

// eventStream reads server-sent events, and changes the messages in them.
type eventStream struct {
	io.Closer
	from    *bufio.Reader
	answers *answers
	ready   []byte // to be returned
	err     error  // after ready
}

// Read implements [io.Reader].
func (e *eventStream) Read(data []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.fill()
	}
	n := copy(data, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// fill reads the next event. It begins with its fields other than data.
func (e *eventStream) fill() {
	var sent [][]byte // lines of data
	size, name := 0, ""
	for e.err == nil {
		var line []byte
		line, e.err = readLine(e.from, maxMessage-size)
		size += len(line)
		text := bytes.TrimRight(bytes.TrimPrefix(line, byteOrderMark), "\r\n")
		if data, ok := bytes.CutPrefix(text, []byte("data:")); ok {
			sent = append(sent, data)
			continue
		}
		if value, ok := bytes.CutPrefix(text, []byte("event:")); ok {
			name = string(bytes.TrimSpace(value))
		}
		if len(text) == 0 {
			break
		}
		e.ready = append(append(e.ready, text...), '\n')
	}
	if e.err != nil && !errors.Is(e.err, io.EOF) {
		e.ready = nil // half an event
		return
	}
	if name != "endpoint" && sent != nil {
		sent = e.change(sent)
	}
	for _, data := range sent {
		e.ready = append(append(append(e.ready, "data:"...), data...), '\n')
	}
	e.ready = append(e.ready, '\n')
}

// change changes the message in lines of data; none: it is no message.
func (e *eventStream) change(sent [][]byte) [][]byte {
	data := mended(bytes.Join(sent, []byte("\n")))
	all := e.answers.messages(data)
	switch {
	case len(all) == 1 && bytes.Contains(all[0], []byte("\n")):
		var flat bytes.Buffer
		_ = json.Compact(&flat, all[0]) // it is JSON
		return [][]byte{flat.Bytes()}
	case len(all) == 1:
		return all
	case len(data) > 0 && len(all) == 0 && (json.Valid(data) || data[0] != '{'):
		return nil
	}
	return sent
}
