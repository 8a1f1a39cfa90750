package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers/llm"
)

// TestHTTPResume cuts a stream again and again while turns run, and goes on
// from Last-Event-ID. Every event comes once, in order.
func TestHTTPResume(t *testing.T) {
	t.Parallel()
	const turns = 12
	var script []step
	for range turns {
		script = append(script, reply(text("Let me see."), call("k", "add", `{"A":1,"B":2}`)), reply(text("Three.")))
	}
	b := setupIdle(t, script...)
	adder(b, events.EffectsNone)
	b.work(b.bus)
	d := b.door(httpapi.Config{})
	d.want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range turns {
		d.want(202, "POST", "/v1/sessions/s/turns", fmt.Sprintf(`{"id":"t%d","text":"1+2?"}`, i))
	}
	var got []string
	last, ended := "", 0
	for ended < turns {
		stream := d.stream("reader", "/v1/sessions/s/events?cursor=0", "Last-Event-ID", last) // which wins
		for range 1 + random.IntN(6) {
			m, err := stream.next()
			must(t, "next", err, nil)
			if m.id == "" {
				continue
			}
			last = m.id
			got = append(got, m.id)
			ended += strings.Count(m.data, `"kind":"turn.completed"`)
			if ended == turns {
				break
			}
		}
		stream.close()
	}
	var want []string
	for e, err := range b.bus.Log().Read(b.ctx, "s", 1) {
		must(t, "read", err, nil)
		want = append(want, fmt.Sprint(e.Seq))
	}
	equalLists(t, "sequences", got, want[:len(got)])
	equal(t, "all of them", len(got) >= len(want)-1, true) // what follows the last turn's end may be missing
}

// heldReply is a model that says half of its reply, and the rest when told.
func (b *bundle) heldReply() (half chan struct{}, rest chan struct{}) {
	half, rest = make(chan struct{}), make(chan struct{})
	b.stream(func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(spoken("half "))
		close(half)
		select {
		case <-rest:
		case <-ctx.Done():
			return llm.Response{}, ctx.Err()
		}
		sink(spoken("done"))
		return said("half done")
	})
	return half, rest
}

// TestHTTPLateJoiner shows who comes in the middle of a reply its text so far.
func TestHTTPLateJoiner(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	d := b.door(httpapi.Config{KeepAlive: time.Millisecond})
	half, rest := b.heldReply()
	d.want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	d.want(202, "POST", "/v1/sessions/s/turns", `{"id":"t1","text":"hello"}`)
	receive(b, "half of the reply", half)
	cursor := fmt.Sprint(b.last("s"))
	stream, turn := d.stream("reader", "/v1/sessions/s/events?cursor="+cursor), d.stream("reader", "/v1/sessions/s/turns/t1/stream")
	text := ""
	delta := func(m received) {
		var piece struct{ Text string }
		must(t, "delta", json.Unmarshal([]byte(m.data), &piece), nil)
		equal(t, "a delta's id", m.id, "")
		text += piece.Text
	}
	m, err := stream.next()
	must(t, "next", err, nil)
	delta(m)
	equal(t, "text so far", text, "half ")
	close(rest)
	for _, m := range stream.until(func(m received) bool { return m.name == "commit" }) {
		if m.name == "delta" {
			delta(m)
		}
	}
	if text != "half " && text != "half done" { // the commit may come first
		t.Errorf("text: got %q, want half done", text)
	}
	whole := ""
	for _, m := range turn.until(func(m received) bool { return strings.Contains(m.data, `"type":"done"`) }) {
		var e api.SessionEvent
		must(t, "event", json.Unmarshal([]byte(m.data), &e), nil)
		if e.Type == api.EventLLMResponse {
			whole = e.Content
		}
	}
	equal(t, "reply of the turn's stream", whole, "half done")
}

// awaited is a host that tells when somebody waits for a turn.
type awaited struct {
	*session.Host
	began chan struct{}
}

func (a *awaited) Await(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error) {
	close(a.began)
	return a.Host.Await(ctx, id, turn)
}

// TestHTTPDrain stops a server in the middle of a stream and of a wait. Both
// end as they should, and the client goes on at another server.
func TestHTTPDrain(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	service := &awaited{Host: b.Host, began: make(chan struct{})}
	d := b.door(httpapi.Config{Service: service})
	half, rest := b.heldReply()
	d.want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	d.want(202, "POST", "/v1/sessions/s/turns", `{"id":"t1","text":"hello"}`)
	receive(b, "half of the reply", half)
	stream, turn := d.stream("reader", "/v1/sessions/s/events"), d.stream("reader", "/v1/sessions/s/turns/t1/stream")
	seen := stream.until(func(m received) bool { return m.name == "delta" })
	last := seen[len(seen)-2].id
	waited := make(chan answered, 1)
	go func() { waited <- d.ask("writer", "GET", "/v1/sessions/s/turns/t1?wait=1m", "") }()
	held := d.stream("other", "/v1/sessions/s/events") // whose reader does not read
	receive(b, "a request that waits", service.began)
	d.server.Stop(b.ctx)
	equal(t, "who waited", receive(b, "answer", waited).status, 202)
	for _, s := range []*sse{stream, turn, held} {
		var err error
		for err == nil {
			_, err = s.next()
		}
		must(t, "end of "+s.path, err, io.EOF)
	}
	_, err := d.client.Do(d.request("reader", "GET", "/v1/sessions/s", "")) //nolint:bodyclose // there is none
	equal(t, "nobody listens", err != nil, true)

	other := b.door(httpapi.Config{})
	again := other.stream("reader", "/v1/sessions/s/events", "Last-Event-ID", last)
	close(rest)
	for _, m := range again.until(func(m received) bool { return strings.Contains(m.data, `"kind":"turn.completed"`) }) {
		if m.id != "" && len(m.id) == len(last) && m.id <= last {
			t.Errorf("after %s: got %s again", last, m.id)
		}
	}
}

// TestHTTPSlowReader has a reader that reads nothing. Whoever writes goes on; the reader is cut off.
func TestHTTPSlowReader(t *testing.T) {
	t.Parallel()
	b := setup(t, reply(text("hi")))
	d := b.door(httpapi.Config{WriteTimeout: 100 * time.Millisecond, MaxStreamsPerCaller: 1})
	d.want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	must(t, "dial", err, nil)
	defer func() { _ = conn.Close() }()
	must(t, "small window", conn.(*net.TCPConn).SetReadBuffer(4096), nil)
	_, err = fmt.Fprintf(conn, "GET /v1/sessions/s/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer reader%s\r\n\r\n", secret)
	must(t, "ask", err, nil)
	_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 OK")))
	must(t, "first bytes", err, nil)
	node := `{"message":{"role":"user","parts":[{"type":"text","text":"` + strings.Repeat("x", 12<<10) + `"}]}}`
	body := `{"nodes":[` + strings.Repeat(node+",", 14) + node + `]}`
	for range 60 { // more than a socket's buffers hold
		d.want(200, "POST", "/v1/sessions/s/nodes", body)
	}
	d.want(200, "POST", "/v1/sessions/s/turns?wait=30", `{"text":"hello"}`)
	for d.ask("reader", http.MethodHead, "/v1/sessions/s/events", "").status == http.StatusTooManyRequests {
	}
}

// TestHTTPTurnAt asks for turns at a time: one that is over starts at once, one that is far waits, and is cancelled.
func TestHTTPTurnAt(t *testing.T) {
	t.Parallel()
	b := setup(t, reply(text("hi")))
	d := b.door(httpapi.Config{})
	d.want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	d.want(200, "POST", "/v1/sessions/s/turns?wait=30", `{"id":"t1","text":"hello","at_ms":1000}`)
	later := fmt.Sprintf(`{"id":"t2","text":"hello","at_ms":%d}`, time.Now().Add(time.Hour).UnixMilli())
	for range 2 {
		d.want(202, "POST", "/v1/sessions/s/turns", later)
	}
	d.refused(409, "different_content", "POST", "/v1/sessions/s/turns", `{"id":"t2","text":"hello","at_ms":4102444800000}`)
	d.refused(400, "invalid_body", "POST", "/v1/sessions/s/turns", `{"text":"hello","at_ms":-1}`)
	d.want(202, http.MethodGet, "/v1/sessions/s/turns/t2?wait=0.05s", "")
	d.want(200, "POST", "/v1/sessions/s/turns/t2/cancel", `{}`)
	ended := d.want(200, http.MethodGet, "/v1/sessions/s/turns/t2?wait=30", "")
	equal(t, "end: "+string(ended.body), strings.Contains(string(ended.body), "cancel"), true)
	equalLists(t, "messages", b.messages("s"), []string{"user hello", "assistant hi"})
}

// TestHTTPTurnIsNotTaken has a turn that no worker took yet: its command is in the queue.
func TestHTTPTurnIsNotTaken(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hi")))
	d := b.door(httpapi.Config{})
	d.want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	at := d.want(202, "POST", "/v1/sessions/s/turns", `{"text":"hello"}`, "Idempotency-Key", "t1").header.Get("Location")
	equal(t, "location", at, "/v1/sessions/s/turns/t1")
	d.want(202, http.MethodGet, at, "")
	d.want(202, http.MethodGet, at+"?wait=0.05s", "")
	d.refused(404, "unknown_turn", http.MethodGet, "/v1/sessions/s/turns/t2", "")
	d.refused(404, "unknown_turn", http.MethodGet, "/v1/sessions/s/turns/t2/stream", "")
	stream := d.stream("reader", at+"/stream")
	b.work(b.bus)
	stream.until(func(m received) bool { return strings.Contains(m.data, `"type":"done"`) })
	d.want(200, http.MethodGet, at+"?wait=30", "")
}
