package system

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers/llm"
)

// TestSmokeHTTPResume cuts a stream again and again during turns, and resumes from Last-Event-ID. Every event arrives
// once, in order.
func TestSmokeHTTPResume(t *testing.T) {
	t.Parallel()
	const turns = 12
	var script []harness.Step
	for range turns {
		script = append(script, harness.Reply(harness.Text("Let me see."), harness.Call("k", "add", `{"A":1,"B":2}`)), harness.Reply(harness.Text("Three.")))
	}
	b := harness.StartIdle(t, script...)
	harness.AddTool(b, events.EffectsNone)
	b.StartWorker(b.Bus)
	d := b.ServeHTTP(httpapi.Config{})
	d.Want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range turns {
		d.Want(202, "POST", "/v1/sessions/s/turns", fmt.Sprintf(`{"id":"t%d","text":"1+2?"}`, i))
	}
	var got []string
	last, ended := "", 0
	for ended < turns {
		stream := d.OpenStream("reader", "/v1/sessions/s/events?cursor=0", "Last-Event-ID", last) // which wins
		for range 1 + random.IntN(6) {
			m, err := stream.Next()
			runtest.WantError(t, "next", err, nil)
			if m.ID == "" {
				continue
			}
			last = m.ID
			got = append(got, m.ID)
			ended += strings.Count(m.Data, `"kind":"turn.completed"`)
			if ended == turns {
				break
			}
		}
		stream.Close()
	}
	var want []string
	for e, err := range b.Bus.Log().Read(b.Ctx, "s", 1) {
		runtest.WantError(t, "read", err, nil)
		want = append(want, fmt.Sprint(e.Seq))
	}
	runtest.EqualLists(t, "sequences", got, want[:len(got)])
	runtest.Equal(t, "all of them", len(got) >= len(want)-1, true) // events behind the last turn's end may be missing
}

// blockedReply is a model that sends half of its reply, and the rest when released.
func blockedReply(b *harness.System) (half chan struct{}, rest chan struct{}) {
	half, rest = make(chan struct{}), make(chan struct{})
	b.StartStreaming(func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(harness.TextDelta("half "))
		close(half)
		select {
		case <-rest:
		case <-ctx.Done():
			return llm.Response{}, ctx.Err()
		}
		sink(harness.TextDelta("done"))
		return harness.StreamedReply("half done")
	})
	return half, rest
}

// TestHTTPLateJoiner sends a client that connects in the middle of a reply the text so far.
func TestHTTPLateJoiner(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	d := b.ServeHTTP(httpapi.Config{KeepAlive: time.Millisecond})
	half, rest := blockedReply(b)
	d.Want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	d.Want(202, "POST", "/v1/sessions/s/turns", `{"id":"t1","text":"hello"}`)
	harness.Receive(b, "half of the reply", half)
	cursor := fmt.Sprint(b.LastSeq("s"))
	stream, turn := d.OpenStream("reader", "/v1/sessions/s/events?cursor="+cursor), d.OpenStream("reader", "/v1/sessions/s/turns/t1/stream")
	text := ""
	delta := func(m harness.Message) {
		var piece struct{ Text string }
		runtest.WantError(t, "delta", json.Unmarshal([]byte(m.Data), &piece), nil)
		runtest.Equal(t, "a delta's id", m.ID, "")
		text += piece.Text
	}
	m, err := stream.Next()
	runtest.WantError(t, "next", err, nil)
	delta(m)
	runtest.Equal(t, "text so far", text, "half ")
	close(rest)
	for _, m := range stream.Until(func(m harness.Message) bool { return m.Name == "commit" }) {
		if m.Name == "delta" {
			delta(m)
		}
	}
	if text != "half " && text != "half done" { // the commit may come first
		t.Errorf("text: got %q, want half done", text)
	}
	total := ""
	for _, m := range turn.Until(func(m harness.Message) bool { return strings.Contains(m.Data, `"type":"done"`) }) {
		var e api.SessionEvent
		runtest.WantError(t, "event", json.Unmarshal([]byte(m.Data), &e), nil)
		if e.Type == api.EventLLMResponse {
			total = e.Content
		}
	}
	runtest.Equal(t, "reply of the turn's stream", total, "half done")
}

// awaited is a host that signals when a request waits for a turn.
type awaited struct {
	*session.Host
	began chan struct{}
}

func (a *awaited) Await(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error) {
	close(a.began)
	return a.Host.Await(ctx, id, turn)
}

// TestHTTPDrain stops a server in the middle of a stream and of a wait. Both end in order, and the client
// continues at another server.
func TestHTTPDrain(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	service := &awaited{Host: b.Host, began: make(chan struct{})}
	d := b.ServeHTTP(httpapi.Config{Service: service})
	half, rest := blockedReply(b)
	d.Want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	d.Want(202, "POST", "/v1/sessions/s/turns", `{"id":"t1","text":"hello"}`)
	harness.Receive(b, "half of the reply", half)
	stream, turn := d.OpenStream("reader", "/v1/sessions/s/events"), d.OpenStream("reader", "/v1/sessions/s/turns/t1/stream")
	seen := stream.Until(func(m harness.Message) bool { return m.Name == "delta" })
	last := seen[len(seen)-2].ID
	waited := make(chan harness.Response, 1)
	go func() { waited <- d.Send("writer", "GET", "/v1/sessions/s/turns/t1?wait=1m", "") }()
	unread := d.OpenStream("other", "/v1/sessions/s/events") // whose reader does not read
	harness.Receive(b, "a request that waits", service.began)
	d.Server.Stop(b.Ctx)
	runtest.Equal(t, "who waited", harness.Receive(b, "answer", waited).Status, 202)
	for _, s := range []*harness.Stream{stream, turn, unread} {
		var err error
		for err == nil {
			_, err = s.Next()
		}
		runtest.WantError(t, "end of "+s.Path, err, io.EOF)
	}
	_, err := d.Client.Do(d.Request("reader", "GET", "/v1/sessions/s", "")) //nolint:bodyclose // there is none
	runtest.Equal(t, "nobody listens", err != nil, true)

	other := b.ServeHTTP(httpapi.Config{})
	again := other.OpenStream("reader", "/v1/sessions/s/events", "Last-Event-ID", last)
	close(rest)
	for _, m := range again.Until(func(m harness.Message) bool { return strings.Contains(m.Data, `"kind":"turn.completed"`) }) {
		if m.ID != "" && len(m.ID) == len(last) && m.ID <= last {
			t.Errorf("after %s: got %s again", last, m.ID)
		}
	}
}

// TestHTTPSlowReader has a client that reads nothing from its stream. The turns continue, and the server closes
// the stream.
func TestHTTPSlowReader(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Reply(harness.Text("hi")))
	d := b.ServeHTTP(httpapi.Config{WriteTimeout: 100 * time.Millisecond, MaxStreamsPerCaller: 1})
	d.Want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.URL, "http://"))
	runtest.WantError(t, "dial", err, nil)
	defer func() { _ = conn.Close() }()
	runtest.WantError(t, "small window", conn.(*net.TCPConn).SetReadBuffer(4096), nil)
	_, err = fmt.Fprintf(conn, "GET /v1/sessions/s/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer reader%s\r\n\r\n", harness.TokenSecret)
	runtest.WantError(t, "ask", err, nil)
	_, err = io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 OK")))
	runtest.WantError(t, "first bytes", err, nil)
	node := `{"message":{"role":"user","parts":[{"type":"text","text":"` + strings.Repeat("x", 12<<10) + `"}]}}`
	body := `{"nodes":[` + strings.Repeat(node+",", 14) + node + `]}`
	for range 60 { // more than a socket's buffers hold
		d.Want(200, "POST", "/v1/sessions/s/nodes", body)
	}
	d.Want(200, "POST", "/v1/sessions/s/turns?wait=30", `{"text":"hello"}`)
	for d.Send("reader", http.MethodHead, "/v1/sessions/s/events", "").Status == http.StatusTooManyRequests {
	}
}

// TestHTTPRunsNoTurn has a turn that no worker has read yet: its command is in the queue.
func TestHTTPRunsNoTurn(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")))
	d := b.ServeHTTP(httpapi.Config{})
	d.Want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	at := d.Want(202, "POST", "/v1/sessions/s/turns", `{"text":"hello"}`, "Idempotency-Key", "t1").Header.Get("Location")
	runtest.Equal(t, "location", at, "/v1/sessions/s/turns/t1")
	d.Want(202, http.MethodGet, at, "")
	d.Want(202, http.MethodGet, at+"?wait=0.05s", "")
	d.WantProblem(404, "unknown_turn", http.MethodGet, "/v1/sessions/s/turns/t2", "")
	d.WantProblem(404, "unknown_turn", http.MethodGet, "/v1/sessions/s/turns/t2/stream", "")
	stream := d.OpenStream("reader", at+"/stream")
	b.StartWorker(b.Bus)
	stream.Until(func(m harness.Message) bool { return strings.Contains(m.Data, `"type":"done"`) })
	d.Want(200, http.MethodGet, at+"?wait=30", "")
}

// TestHTTPTurnStatus reads each turn of a session, with and without a wait: its status is that of the list.
func TestHTTPTurnStatus(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	d := b.ServeHTTP(httpapi.Config{})
	half, rest := blockedReply(b)
	d.Want(201, "POST", "/v1/sessions", `{"id":"s"}`)
	const turns = "/v1/sessions/s/turns"
	runtest.Equal(t, "status of a new turn", d.Want(202, "POST", turns, `{"id":"t1","text":"hello"}`).Field("status"), "pending")
	harness.Receive(b, "half of the reply", half)
	d.Want(202, "POST", turns, `{"id":"t2","text":"next"}`)
	d.Want(202, "POST", turns, fmt.Sprintf(`{"id":"t3","text":"later","at_ms":%d}`, time.Now().Add(time.Hour).UnixMilli()))
	list := string(d.Want(200, "GET", turns, "").Body)
	for turn, want := range map[string]string{"t1": "running", "t2": "waiting", "t3": "scheduled"} {
		runtest.Equal(t, "list with "+turn+": "+list, strings.Contains(list, `{"id":"`+turn+`","status":"`+want+`"`), true)
		for _, query := range []string{"", "?wait=0.05s"} {
			runtest.Equal(t, "turn "+turn+query, d.Want(202, "GET", turns+"/"+turn+query, "").Field("status"), want)
		}
	}
	close(rest)
	d.Want(200, "GET", turns+"/t1?wait=30", "")
}
