package security

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/integration/internal/httpbody"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// streamingModel is a model that streams every reply.
type streamingModel func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error)

func (streamingModel) ID() string { return "aloud" }

func (s streamingModel) Complete(ctx context.Context, _ llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	return s(ctx, sink)
}

// serveStreaming serves sessions with the model aloud, to users of the outer account and over HTTP.
func serveStreaming(t *testing.T, s streamingModel, scopes map[string]api.Reach) (*natsAPI, *harness.HTTP) {
	t.Helper()
	n := newNATSAPI(t, workers.Config{Provider: "aloud", Providers: map[string]llm.Provider{"aloud": s}, Scopes: scopes})
	n.Open(api.CreateRequest{ID: "s1"})
	return n, n.ServeHTTP(httpapi.Config{Service: n.node.Host()})
}

// clientOf is a client of a user of the outer account.
func (n *natsAPI) clientOf(user string) *client.Client {
	n.T.Helper()
	c, err := client.New(client.Config{Bus: n.deployed.open(bus.OpenReader, n.deployed.config(user)), Logger: zaptest.NewLogger(n.T)})
	runtest.WantError(n.T, "client", err, nil)
	return c
}

// TestCompletionStreamEndsWithItsClient has clients disconnect in the middle of a reply, on every API: the model
// call ends, and its cost stops.
func TestCompletionStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	n, d := serveStreaming(t, func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(harness.TextDelta("half "))
		<-ctx.Done()
		ended <- struct{}{}
		return llm.Response{Usage: events.Usage{Input: 10, Output: 1}}, ctx.Err()
	}, map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}})
	leaving := func(c interface {
		Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error)
	},
	) {
		ctx, cancel := context.WithCancel(n.Ctx)
		defer cancel()
		req := harness.CompletionOf("a title?")
		req.Stream = func(plugin.CompletionDelta) { cancel() }
		if _, err := c.Complete(ctx, "s1", req, "title"); err == nil || n.Ctx.Err() != nil {
			t.Errorf("got %v, want that it was cancelled", err)
		}
	}
	var disconnected sync.WaitGroup
	for name, disconnect := range map[string]func(){
		"host": func() { leaving(n.node.Host()) },
		"nats": func() { leaving(n.clientOf("alice@acme")) },
		"http": func() {
			stream := d.OpenStreamWith("writer", http.MethodPost, "/v1/sessions/s1/completions/stream", harness.CompletionBody)
			m, err := stream.Next()
			runtest.WantError(t, "next", err, nil)
			runtest.Equal(t, "delta", m.Data, `{"kind":"text","text":"half "}`)
			stream.Close()
		},
	} {
		disconnected.Go(disconnect)
		harness.Receive(n.System, "end of the call over "+name, ended)
		disconnected.Wait()
	}
	runtest.Equal(t, "ledger", len(n.StateOf("s1").Ledger), 0)
}

// TestCompletionStreamReachesItsCallerOnly has a user stream a completion while others subscribe to every subject that they
// may: none of them receives a piece of it. A user without the right to request a completion has no stream either.
func TestCompletionStreamReachesItsCallerOnly(t *testing.T) {
	t.Parallel()
	const secret = "alicesword"
	n, _ := serveStreaming(t, func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		for range 20 {
			sink(harness.TextDelta(secret))
		}
		return harness.StreamedReply(strings.Repeat(secret, 20))
	}, map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}, "host@acme": {Scope: api.ScopeRead}})
	received := make(chan *nats.Msg, 1000)
	var refused bustest.Refusals
	for user, subjects := range map[string][]string{
		"host@acme":    {"_INBOX.host.>", "lash.live.*.>", "lash.delta.*.*", "_INBOX.alice.>", "_INBOX.>", "_R_.>", "lash.api.>"},
		"auditor@acme": {"_INBOX.auditor.>", "lash.live.*.>", "lash.delta.*.*", "_INBOX.alice.>", "_INBOX.>", "_R_.>", "lash.api.>"},
	} {
		nc := n.deployed.conn(user, nats.ErrorHandler(refused.Handler))
		for _, subject := range subjects {
			_, err := nc.ChanSubscribe(subject, received)
			runtest.WantError(t, "subscribe", err, nil)
		}
		runtest.WantError(t, "flush", nc.Flush(), nil)
		m := &nats.Msg{Subject: "lash.api.complete", Reply: nc.NewRespInbox(), Header: nats.Header{"Lash-Stream": {"x"}}}
		if user == "host@acme" { // a user of the API who lacks the right
			_, err := n.clientOf(user).Complete(n.Ctx, "s1", plugin.CompletionRequest{
				Messages: harness.CompletionOf("a title?").Messages, Stream: func(plugin.CompletionDelta) { t.Error("got a delta without the right to write") },
			}, "title")
			runtest.WantError(t, "complete without the right", err, api.ErrForbidden)
			continue
		}
		runtest.WantError(t, "publish", nc.PublishMsg(m), nil)
		runtest.WantError(t, "flush", nc.Flush(), nil)
	}
	n.AwaitPolling("the refusals", func() bool { // one of each server's list of errors; an auditor may send no request
		return slices.ContainsFunc(refused.All(), func(s string) bool {
			return strings.Contains(strings.ToLower(s), "permissions violation for publish") && strings.Contains(s, "lash.api.complete")
		})
	})
	var got strings.Builder
	req := harness.CompletionOf("a title?")
	req.Stream = func(d plugin.CompletionDelta) { got.WriteString(d.Text) }
	c, err := n.clientOf("alice@acme").Complete(n.Ctx, "s1", req, "title")
	runtest.WantError(t, "complete", err, nil)
	runtest.Equal(t, "text", c.Text, strings.Repeat(secret, 20))
	runtest.Equal(t, "streamed", got.String(), c.Text)
	runtest.EqualLists(t, "ledger", n.StateOf("s1").Ledger, []projector.LedgerEntry{harness.LedgerRow("title", "", 10, 5)})
	for commits := 0; commits == 0; { // of the completion: anything sent before it would have arrived before
		m := harness.Receive(n.System, "the commit", received)
		if strings.HasPrefix(m.Subject, "lash.live.s1.") && strings.Contains(string(m.Data), "model.completed") {
			commits++
		} else if strings.Contains(string(m.Data), secret) {
			t.Errorf("got %s of the completion, want nothing", m.Subject)
		}
	}
}

// TestCompletionStreamOverHTTP returns a refusal before the model call as the response, and a later end as the
// last event, also where the server stops. A client that does not read delays no other work, and receives
// everything in the end.
func TestCompletionStreamOverHTTP(t *testing.T) {
	t.Parallel()
	const path = "/v1/sessions/s1/completions/stream"
	long := strings.Repeat("x", 1<<20)
	var speaker streamingModel
	n, d := serveStreaming(t, func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) { return speaker(ctx, sink) },
		map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}})
	last := func(s *harness.Stream) (text string, m harness.Message) {
		for {
			m, err := s.Next()
			runtest.WantError(t, "next", err, nil)
			if m.Name != "delta" {
				return text, m
			}
			var piece httpbody.CompletionDelta
			runtest.WantError(t, "delta", json.Unmarshal([]byte(m.Data), &piece), nil)
			if text += piece.Text; piece.Reset {
				text = ""
			}
		}
	}

	speaker = func(context.Context, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Kind: llm.KindRequest, Message: "no"}
	}
	d.WantProblem(422, "completion_failed", "POST", path, harness.CompletionBody)
	d.WantProblem(400, "invalid", "POST", path, `{"messages":[]}`)
	d.WantProblem(404, "no_session", "POST", "/v1/sessions/s9/completions/stream", harness.CompletionBody)
	runtest.Equal(t, "without the right", d.Send("reader", "POST", path, harness.CompletionBody).Status, 403)

	speaker = func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(harness.TextDelta("half "))
		return llm.Response{}, &llm.Error{Kind: llm.KindRequest, Message: "no"}
	}
	text, m := last(d.OpenStreamWith("writer", http.MethodPost, path, harness.CompletionBody))
	runtest.Equal(t, "text before the problem", text, "half ")
	runtest.Equal(t, "last event", m.Name, "problem")
	runtest.Equal(t, "code", strings.Contains(m.Data, `"code":"completion_failed"`), true)

	tries := 0
	speaker = func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		if tries++; tries == 1 {
			sink(harness.TextDelta("wro"))
			return llm.Response{}, &llm.Error{Kind: llm.KindServer, Message: "try again"}
		}
		sink(harness.TextDelta("right"))
		return harness.StreamedReply("right")
	}
	text, m = last(d.OpenStreamWith("writer", http.MethodPost, path, harness.CompletionBody, "Idempotency-Key", "k"))
	runtest.Equal(t, "text", text, "right")
	runtest.Equal(t, "last event", m.Name, "result")
	runtest.Equal(t, "result", m.Data, strings.TrimSpace(string(d.Want(200, "POST", "/v1/sessions/s1/completions", harness.CompletionBody, "Idempotency-Key", "k").Body)))
	text, again := last(d.OpenStreamWith("writer", http.MethodPost, path, harness.CompletionBody, "Idempotency-Key", "k"))
	runtest.Equal(t, "the same with its key", again, m)
	runtest.Equal(t, "which is not streamed again", text, "")
	d.WantProblem(409, "different_content", "POST", path, strings.Replace(harness.CompletionBody, "aside", "else", 1), "Idempotency-Key", "k")

	const pieces = 16 // more than a connection holds
	speaker = func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		for range pieces {
			sink(harness.TextDelta(long))
		}
		return harness.StreamedReply("long")
	}
	before := len(n.History("s1"))
	slow := d.OpenStreamWith("writer", http.MethodPost, path, harness.CompletionBody)
	n.AwaitPolling("the completion in the history", func() bool { return len(n.History("s1")) > before })
	text, m = last(slow)
	runtest.Equal(t, "text that was read late", len(text), pieces*len(long))
	runtest.Equal(t, "last event", m.Name, "result")

	speaker = func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(harness.TextDelta("half "))
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}
	open := d.OpenStreamWith("writer", http.MethodPost, path, harness.CompletionBody)
	_, err := open.Next()
	runtest.WantError(t, "next", err, nil)
	now, cancel := context.WithCancel(n.Ctx)
	cancel()
	d.Server.Stop(now)
	_, m = last(open)
	runtest.Equal(t, "last event", m.Name, "problem")
	runtest.Equal(t, "code", strings.Contains(m.Data, `"code":"cancelled"`), true)
	_, err = open.Next()
	runtest.Equal(t, "nothing after it", err != nil, true)
}
