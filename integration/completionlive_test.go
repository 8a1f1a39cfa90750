package integration

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
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// aloud is a model that answers every request by streaming.
type aloud func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error)

func (aloud) ID() string { return "aloud" }

func (s aloud) Complete(ctx context.Context, _ llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	return s(ctx, sink)
}

// spokenBy serves sessions whose model aloud, to users of the outer account and over HTTP.
func spokenBy(t *testing.T, s aloud, scopes map[string]api.Reach) (*natsDoor, *door) {
	t.Helper()
	n := natsDoorOf(t, workers.Config{Provider: "aloud", Providers: map[string]llm.Provider{"aloud": s}, Scopes: scopes})
	n.open(api.CreateRequest{ID: "s1"})
	return n, n.door(httpapi.Config{Service: n.node.Host()})
}

// clientOf asks as a user of the outer account.
func (n *natsDoor) clientOf(user string) *client.Client {
	n.t.Helper()
	c, err := client.New(client.Config{Bus: n.deployed.open(bus.OpenReader, n.deployed.config(user)), Logger: zaptest.NewLogger(n.t)})
	must(n.t, "client", err, nil)
	return c
}

const aside = `{"messages":[{"role":"user","parts":[{"type":"text","text":"aside"}]}],"source":"aside"}`

// TestCompletionStreamEndsWithItsClient has clients go away in the middle of a
// reply, at every door: the call of the model ends, and is not paid for on.
func TestCompletionStreamEndsWithItsClient(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	n, d := spokenBy(t, func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(spoken("half "))
		<-ctx.Done()
		ended <- struct{}{}
		return llm.Response{}, ctx.Err()
	}, map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}})
	leaving := func(c interface {
		Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error)
	},
	) {
		ctx, cancel := context.WithCancel(n.ctx)
		defer cancel()
		req := asks("a title?")
		req.Stream = func(plugin.CompletionDelta) { cancel() }
		if _, err := c.Complete(ctx, "s1", req, "title"); err == nil || n.ctx.Err() != nil {
			t.Errorf("got %v, want that it was cancelled", err)
		}
	}
	var left sync.WaitGroup
	for name, leave := range map[string]func(){
		"host": func() { leaving(n.node.Host()) },
		"nats": func() { leaving(n.clientOf("alice@acme")) },
		"http": func() {
			stream := d.streamOf("writer", http.MethodPost, "/v1/sessions/s1/completions/stream", aside)
			m, err := stream.next()
			must(t, "next", err, nil)
			equal(t, "delta", m.data, `{"kind":"text","text":"half "}`)
			stream.close()
		},
	} {
		left.Go(leave)
		receive(n.bundle, "end of the call over "+name, ended)
		left.Wait()
	}
	equal(t, "ledger", len(n.state("s1").Ledger), 0)
}

// TestCompletionStreamIsOnesOwn has a user ask for a completion as it comes, while others listen to all that they may:
// none of them receives a piece of it. Who may not ask for a completion gets none this way either.
func TestCompletionStreamIsOnesOwn(t *testing.T) {
	t.Parallel()
	const word = "alicesword"
	n, _ := spokenBy(t, func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		for range 20 {
			sink(spoken(word))
		}
		return said(strings.Repeat(word, 20))
	}, map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}, "host@acme": {Scope: api.ScopeRead}})
	heard := make(chan *nats.Msg, 1000)
	var refused refusals
	for user, subjects := range map[string][]string{
		"host@acme":    {"_INBOX.host.>", "lash.live.*.>", "lash.delta.*.*", "_INBOX.alice.>", "_INBOX.>", "_R_.>", "lash.api.>"},
		"auditor@acme": {"_INBOX.auditor.>", "lash.live.*.>", "lash.delta.*.*", "_INBOX.alice.>", "_INBOX.>", "_R_.>", "lash.api.>"},
	} {
		nc := n.deployed.conn(user, nats.ErrorHandler(refused.handler))
		for _, subject := range subjects {
			_, err := nc.ChanSubscribe(subject, heard)
			must(t, "subscribe", err, nil)
		}
		must(t, "flush", nc.Flush(), nil)
		m := &nats.Msg{Subject: "lash.api.complete", Reply: nc.NewRespInbox(), Header: nats.Header{"Lash-Stream": {"x"}}}
		if user == "host@acme" { // who may ask, but lacks the right
			_, err := n.clientOf(user).Complete(n.ctx, "s1", plugin.CompletionRequest{
				Messages: asks("a title?").Messages, Stream: func(plugin.CompletionDelta) { t.Error("got a delta without the right to write") },
			}, "title")
			must(t, "complete without the right", err, api.ErrForbidden)
			continue
		}
		must(t, "publish", nc.PublishMsg(m), nil)
		must(t, "flush", nc.Flush(), nil)
	}
	n.until("the refusals", func() bool { // one of each server's list of what is wrong; an auditor may send no request
		return slices.ContainsFunc(refused.all(), func(s string) bool {
			return strings.Contains(strings.ToLower(s), "permissions violation for publish") && strings.Contains(s, "lash.api.complete")
		})
	})
	var got strings.Builder
	req := asks("a title?")
	req.Stream = func(d plugin.CompletionDelta) { got.WriteString(d.Text) }
	c, err := n.clientOf("alice@acme").Complete(n.ctx, "s1", req, "title")
	must(t, "complete", err, nil)
	equal(t, "text", c.Text, strings.Repeat(word, 20))
	equal(t, "streamed", got.String(), c.Text)
	equalLists(t, "ledger", n.state("s1").Ledger, []projector.LedgerEntry{row("title", "", 10, 5)})
	for commits := 0; commits == 0; { // of the completion: what was sent before it would have come before
		m := receive(n.bundle, "the commit", heard)
		if strings.HasPrefix(m.Subject, "lash.live.s1.") && strings.Contains(string(m.Data), "model.completed") {
			commits++
		} else if strings.Contains(string(m.Data), word) {
			t.Errorf("got %s of the completion, want nothing", m.Subject)
		}
	}
}

// TestCompletionStreamOverHTTP has what refuses a completion before its model aloud as an answer, and what ends it later
// as the last event, also where the server stops. A client that reads nothing delays no other work, and gets it all in the end.
func TestCompletionStreamOverHTTP(t *testing.T) {
	t.Parallel()
	const path = "/v1/sessions/s1/completions/stream"
	long := strings.Repeat("x", 1<<20)
	var say aloud
	n, d := spokenBy(t, func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) { return say(ctx, sink) },
		map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}})
	last := func(s *sse) (text string, m received) {
		for {
			m, err := s.next()
			must(t, "next", err, nil)
			if m.name != "delta" {
				return text, m
			}
			var piece httpapi.CompletionDelta
			must(t, "delta", json.Unmarshal([]byte(m.data), &piece), nil)
			if text += piece.Text; piece.Reset {
				text = ""
			}
		}
	}

	say = func(context.Context, func(llm.Delta)) (llm.Response, error) {
		return llm.Response{}, &llm.Error{Kind: llm.KindRequest, Message: "no"}
	}
	d.refused(422, "completion_failed", "POST", path, aside)
	d.refused(400, "invalid", "POST", path, `{"messages":[]}`)
	d.refused(404, "no_session", "POST", "/v1/sessions/s9/completions/stream", aside)
	equal(t, "without the right", d.ask("reader", "POST", path, aside).status, 403)

	say = func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(spoken("half "))
		return llm.Response{}, &llm.Error{Kind: llm.KindRequest, Message: "no"}
	}
	text, m := last(d.streamOf("writer", http.MethodPost, path, aside))
	equal(t, "text before the problem", text, "half ")
	equal(t, "last event", m.name, "problem")
	equal(t, "code", strings.Contains(m.data, `"code":"completion_failed"`), true)

	tries := 0
	say = func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		if tries++; tries == 1 {
			sink(spoken("wro"))
			return llm.Response{}, &llm.Error{Kind: llm.KindServer, Message: "try again"}
		}
		sink(spoken("right"))
		return said("right")
	}
	text, m = last(d.streamOf("writer", http.MethodPost, path, aside, "Idempotency-Key", "k"))
	equal(t, "text", text, "right")
	equal(t, "last event", m.name, "result")
	equal(t, "result", m.data, strings.TrimSpace(string(d.want(200, "POST", "/v1/sessions/s1/completions", aside, "Idempotency-Key", "k").body)))
	text, again := last(d.streamOf("writer", http.MethodPost, path, aside, "Idempotency-Key", "k"))
	equal(t, "the same with its key", again, m)
	equal(t, "which is not streamed again", text, "")
	d.refused(409, "different_content", "POST", path, strings.Replace(aside, "aside", "else", 1), "Idempotency-Key", "k")

	const pieces = 16 // more than a connection holds
	say = func(_ context.Context, sink func(llm.Delta)) (llm.Response, error) {
		for range pieces {
			sink(spoken(long))
		}
		return said("long")
	}
	before := len(n.history("s1"))
	slow := d.streamOf("writer", http.MethodPost, path, aside)
	n.until("the completion in the history", func() bool { return len(n.history("s1")) > before })
	text, m = last(slow)
	equal(t, "text that was read late", len(text), pieces*len(long))
	equal(t, "last event", m.name, "result")

	say = func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		sink(spoken("half "))
		<-ctx.Done()
		return llm.Response{}, ctx.Err()
	}
	open := d.streamOf("writer", http.MethodPost, path, aside)
	_, err := open.next()
	must(t, "next", err, nil)
	now, cancel := context.WithCancel(n.ctx)
	cancel()
	d.server.Stop(now)
	_, m = last(open)
	equal(t, "last event", m.name, "problem")
	equal(t, "code", strings.Contains(m.data, `"code":"cancelled"`), true)
	_, err = open.next()
	equal(t, "nothing after it", err != nil, true)
}
