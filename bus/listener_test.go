package bus_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// serveChunks offers "do" to clients that take chunks and may be silent for a time.
func serveChunks(t *testing.T, on *bus.Bus, listening time.Duration, do bus.HandlerFunc) {
	t.Helper()
	s, err := on.Serve(bus.ServiceConfig{Version: "1.0.0", Concurrency: 4, Listening: listening, Operations: map[string]bus.HandlerFunc{"do": do}})
	runtest.NoError(t, err)
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own context has ended
		cancel()
		_ = s.Stop(now)
	})
}

// TestLongChunks receives every chunk of an answer, in order, and then the answer, also when that takes longer than a
// client may be silent. A client that does not request chunks gets none.
func TestLongChunks(t *testing.T) {
	t.Parallel()
	const many = 1000
	server := bustest.Server(t, busembed.Config{})
	work := make(chan (<-chan struct{}), 1) // the ctx of the request
	serveChunks(t, bustest.Open(t, server), 5*time.Second, func(ctx context.Context, r bus.Incoming) ([]byte, string) {
		if r.SendChunk == nil {
			return []byte("no chunks"), ""
		}
		for n := range many {
			r.SendChunk([]byte(strconv.Itoa(n)))
		}
		select {
		case <-<-work:
			return []byte("done"), ""
		case <-ctx.Done():
			return []byte(context.Cause(ctx).Error()), ""
		}
	})
	client := bustest.Open(t, server)
	got, err := client.Request(t.Context(), "do", nil, time.Minute, nil)
	if err != nil || string(got) != "no chunks" {
		t.Errorf("got %q and %v, want no chunks", got, err)
	}
	listening, err := client.Conn().SubscribeSync("lash.api.listening")
	runtest.NoError(t, err)
	enough := make(chan struct{})
	work <- enough
	var watching sync.WaitGroup
	watching.Go(func() {
		defer close(enough)
		for range 8 { // one message a second, for longer than the node waits
			if _, err := listening.NextMsg(time.Minute); err != nil {
				t.Errorf("got %v, want the word that the client listens", err)
				return
			}
		}
	})
	next := 0
	got, err = client.Request(t.Context(), "do", nil, time.Minute, func(n int, data []byte) {
		if n != next || string(data) != strconv.Itoa(n) {
			t.Errorf("got chunk %d, %s, want %d", n, data, next)
		}
		next++
	})
	watching.Wait()
	if err != nil || string(got) != "done" || next != many {
		t.Errorf("got %q and %v after %d chunks, want done after %d", got, err, next, many)
	}
}

// TestPiecesEnd loses clients in every way: their requests are cancelled.
func TestPiecesEnd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		listening time.Duration
		request   func(t *testing.T, on *bus.Bus)
	}{
		"gives_up": {time.Hour, func(t *testing.T, on *bus.Bus) {
			t.Helper()
			ctx, cancel := context.WithCancel(t.Context())
			_, err := on.Request(ctx, "do", nil, time.Minute, func(int, []byte) { cancel() })
			runtest.WantError(t, "request", err, events.ErrOutcomeUnknown)
		}},
		"says_nothing": {50 * time.Millisecond, func(t *testing.T, on *bus.Bus) {
			t.Helper()
			m := &nats.Msg{Subject: "lash.api.do", Reply: on.Conn().NewRespInbox(), Header: nats.Header{"Lash-Stream": {"x"}}}
			runtest.WantError(t, "publish msg", on.Conn().PublishMsg(m), nil)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			ended := make(chan error, 1)
			serveChunks(t, bustest.Open(t, server), test.listening, func(ctx context.Context, r bus.Incoming) ([]byte, string) {
				r.SendChunk([]byte("one"))
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil, ""
			})
			client := bustest.Open(t, server)
			test.request(t, client)
			if err := bustest.Receive(t, "the end of the request", ended); err == nil || errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want that the client listens no more", err)
			}
		})
	}
}

// TestChunksWithTakenToken sends requests with tokens that are in use, or too long: they are answered without chunks,
// and their end does not cancel the others.
func TestChunksWithTakenToken(t *testing.T) {
	t.Parallel()
	on := bustest.Start(t)
	began, finish := make(chan struct{}), make(chan struct{})
	serveChunks(t, on, time.Hour, func(ctx context.Context, r bus.Incoming) ([]byte, string) {
		if r.SendChunk == nil {
			return []byte("no chunks"), ""
		}
		close(began)
		select {
		case <-finish:
			return []byte("done"), ""
		case <-ctx.Done():
			return []byte("cut"), ""
		}
	})
	request := func(token string) *nats.Subscription {
		inbox := on.Conn().NewRespInbox()
		sub, err := on.Conn().SubscribeSync(inbox)
		if err == nil {
			err = on.Conn().PublishMsg(&nats.Msg{Subject: "lash.api.do", Reply: inbox, Header: nats.Header{"Lash-Stream": {token}}})
		}
		runtest.NoError(t, err)
		return sub
	}
	answer := func(sub *nats.Subscription) string {
		for {
			m, err := sub.NextMsg(time.Minute)
			runtest.NoError(t, err)
			if m.Header.Get("Lash-Working") == "" {
				return string(m.Data)
			}
		}
	}
	first := request("x")
	<-began
	for _, token := range []string{"x", strings.Repeat("x", 65)} {
		if got := answer(request(token)); got != "no chunks" {
			t.Errorf("token of %d bytes: got %q, want no chunks", len(token), got)
		}
	}
	runtest.NoError(t, on.Conn().PublishMsg(&nats.Msg{Subject: "lash.api.listening", Header: nats.Header{"Lash-Stream": {"y"}, "Lash-End": {"1"}}}))
	close(finish)
	runtest.Equal(t, "answer to the first", answer(first), "done")
}

// TestEndWhileItWaits has clients go away while their requests wait for room: the one that is next, and the one behind it.
// Neither is done when there is room, and what comes then is.
func TestEndWhileItWaits(t *testing.T) {
	t.Parallel()
	on := bustest.Start(t)
	began, finish, heard := make(chan string, 8), make(chan struct{}), make(chan struct{})
	s, err := on.Serve(bus.ServiceConfig{Version: "1.0.0", Concurrency: 1, Listening: time.Hour, Long: []string{"other"}, Operations: map[string]bus.HandlerFunc{
		"other": func(ctx context.Context, r bus.Incoming) ([]byte, string) {
			r.SendChunk(nil)
			<-ctx.Done()
			close(heard)
			return nil, ""
		},
		"do": func(_ context.Context, r bus.Incoming) ([]byte, string) {
			began <- string(r.Data)
			<-finish
			return nil, ""
		},
	}})
	runtest.NoError(t, err)
	defer func() { _ = s.Stop(t.Context()) }()
	say := func(subject, body string, h nats.Header) {
		runtest.NoError(t, on.Conn().PublishMsg(&nats.Msg{Subject: subject, Reply: on.Conn().NewRespInbox(), Header: h, Data: []byte(body)}))
	}
	say("lash.api.do", "first", nil)
	if got := <-began; got != "first" {
		t.Fatalf("got %s, want first", got)
	}
	for _, token := range []string{"next", "behind"} {
		say("lash.api.do", token, nats.Header{"Lash-Stream": {token}})
	}
	for _, token := range []string{"next", "behind"} {
		say("lash.api.listening", "", nats.Header{"Lash-Stream": {token}, "Lash-End": {"1"}})
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, _ = on.Request(ctx, "other", nil, time.Minute, func(int, []byte) { cancel() })
	<-heard // the service takes the words of clients in order
	say("lash.api.do", "last", nil)
	close(finish)
	runtest.Equal(t, "request that began", <-began, "last")
}
