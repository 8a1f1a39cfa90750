package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// serve offers one operation, "do", until the test ends.
func serve(t *testing.T, on *bus.Bus, do bus.HandlerFunc) *bus.Service {
	t.Helper()
	s, err := on.Serve(bus.ServiceConfig{Version: "1.0.0", Concurrency: 4, Operations: map[string]bus.HandlerFunc{"do": do}})
	runtest.NoError(t, err)
	t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own context has ended
		cancel()
		_ = s.Stop(now)
	})
	return s
}

func TestServiceAnswersOnce(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	var mu sync.Mutex
	done := make(map[string]int)
	for range 2 {
		serve(t, bustest.Open(t, server), func(_ context.Context, r bus.Incoming) ([]byte, string) {
			mu.Lock()
			defer mu.Unlock()
			done[string(r.Data)]++
			return r.Data, ""
		})
	}
	asking := bustest.Open(t, server)
	for _, text := range []string{"a", "b", "c", "d"} {
		got, err := asking.Request(t.Context(), "do", []byte(text), time.Minute, nil)
		if err != nil || string(got) != text {
			t.Errorf("got %q and %v, want %q", got, err, text)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for text, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times, want once", text, n)
		}
	}
}

func TestServiceWithoutResponder(t *testing.T) {
	t.Parallel()
	on := bustest.Start(t)
	_, err := on.Request(t.Context(), "do", nil, time.Minute, nil)
	if !errors.Is(err, bus.ErrNoResponder) || errors.Is(err, events.ErrOutcomeUnknown) {
		t.Errorf("got %v, want %v and no doubt", err, bus.ErrNoResponder)
	}
	large := make([]byte, on.Conn().MaxPayload()+1)
	_, err = on.Request(t.Context(), "do", large, time.Second, nil)
	runtest.WantError(t, "request", err, events.ErrTooLarge)
}

// TestLongServicePatience sends a request that takes longer than the client's limit of silence; the node says that it
// works.
func TestLongServicePatience(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	finish := make(chan struct{})
	runs := make(chan struct{}, 2)
	serve(t, bustest.Open(t, server), func(context.Context, bus.Incoming) ([]byte, string) {
		runs <- struct{}{}
		<-finish
		return []byte("done"), ""
	})
	asking := bustest.Open(t, server)
	working, err := asking.Conn().SubscribeSync("_INBOX.>")
	runtest.NoError(t, err)
	var answers sync.WaitGroup
	answers.Go(func() {
		got, err := asking.Request(t.Context(), "do", nil, 5*time.Second, nil)
		if err != nil || string(got) != "done" {
			t.Errorf("got %q and %v, want done", got, err)
		}
	})
	for n := 0; n < 6; { // one message a second, for longer than the client's limit
		m, err := working.NextMsg(time.Minute)
		if err != nil || string(m.Data) == "done" {
			close(finish)
			t.Fatalf("got %v and %v, want the word that it is worked on", m, err)
		}
		if m.Header.Get("Lash-Working") != "" { // others answer what the bus itself reads
			n++
		}
	}
	close(finish)
	answers.Wait()
	runtest.Equal(t, "runs", len(runs), 1)
}

// TestServiceStops: Stop lets a started request end, and accepts no other.
func TestServiceStops(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	began, finish := make(chan struct{}), make(chan struct{})
	s := serve(t, bustest.Open(t, server), func(_ context.Context, r bus.Incoming) ([]byte, string) {
		if string(r.Data) == "later" {
			return nil, ""
		}
		close(began)
		<-finish
		return []byte("done"), ""
	})
	asking := bustest.Open(t, server)
	var working sync.WaitGroup
	working.Go(func() {
		got, err := asking.Request(t.Context(), "do", []byte("first"), time.Minute, nil)
		if err != nil || string(got) != "done" {
			t.Errorf("request at hand: got %q and %v, want done", got, err)
		}
	})
	<-began
	var stopping sync.WaitGroup
	stopping.Go(func() {
		runtest.WantError(t, "stop", s.Stop(t.Context()), nil)
	})
	for stopped := false; !stopped; { // until the server has handled the stop
		_, err := asking.Request(t.Context(), "do", []byte("later"), time.Minute, nil)
		if stopped = errors.Is(err, bus.ErrNoResponder); err != nil && !stopped {
			t.Fatalf("request after the stop: got %v, want %v", err, bus.ErrNoResponder)
		}
	}
	close(finish)
	stopping.Wait()
	working.Wait()
}

// TestServiceCutOff: at the end of Stop's ctx started requests are cancelled, and not answered.
func TestServiceCutOff(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	began := make(chan struct{})
	s := serve(t, bustest.Open(t, server), func(ctx context.Context, _ bus.Incoming) ([]byte, string) {
		close(began)
		<-ctx.Done()
		return []byte("cut"), ""
	})
	asking := bustest.Open(t, server)
	var working sync.WaitGroup
	working.Go(func() {
		_, err := asking.Request(t.Context(), "do", nil, 2*time.Second, nil)
		runtest.WantError(t, "request that was cut off", err, events.ErrOutcomeUnknown)
	})
	<-began
	now, cancel := context.WithCancel(t.Context())
	cancel()
	_ = s.Stop(now)
	working.Wait()
}

// TestServiceAnswersInboxesOnly requests answers at subjects where nodes have the right to publish, and the client
// does not.
func TestServiceAnswersInboxesOnly(t *testing.T) {
	t.Parallel()
	on := bustest.Start(t)
	looked := make(chan struct{}, 8)
	serve(t, on, func(context.Context, bus.Incoming) ([]byte, string) {
		looked <- struct{}{}
		return nil, ""
	})
	stopAnswer, err := on.ServeWorker("w1", func([]byte) []byte {
		looked <- struct{}{}
		return nil
	})
	runtest.NoError(t, err)
	defer stopAnswer()
	stopNotifies, err := on.OnNotify("w1", func(events.SessionID) { looked <- struct{}{} })
	runtest.NoError(t, err)
	defer stopNotifies()
	runtest.NoError(t, on.StoreWake(t.Context(), turnKey("s1"), bus.WakeHint{}))
	for _, subject := range []string{"lash.api.do", "lash.ask.w1", "lash.notify.w1"} {
		for _, reply := range []string{"$JS.API.STREAM.PURGE.lash-work", "_INBOX", "_INBOXES.x", "lash.work.turn.s2"} {
			runtest.NoError(t, on.Conn().PublishRequest(subject, reply, nil))
		}
	}
	// A subscription delivers in order, so the valid request is answered last.
	_, err = on.Request(t.Context(), "do", nil, time.Minute, nil)
	runtest.NoError(t, err)
	_, err = on.RequestWorker(t.Context(), "w1", nil)
	runtest.NoError(t, err)
	if on.WorkerGone(t.Context(), "w1") {
		t.Error("got a worker that listens gone")
	}
	runtest.Equal(t, "looked at", len(looked), 2)
	if wakes, err := on.Wakes(t.Context()); err != nil || len(wakes) != 1 || !wakes[turnKey("s1")] {
		t.Errorf("queue: got %v, %v, want the wake and no answer in it", wakes, err)
	}
}

// TestInboxIsOne refuses a configured inbox to which nodes would not answer.
func TestInboxIsOne(t *testing.T) {
	t.Parallel()
	for _, inbox := range []string{"mine", "_INBOXES", "_INBOX2.me", "$JS.API"} {
		if _, err := bus.OpenReader(t.Context(), bus.Config{URL: "nats://127.0.0.1:1", Inbox: inbox}); err == nil || !strings.Contains(err.Error(), "inbox: ") {
			t.Errorf("%s: got %v, want a refusal", inbox, err)
		}
	}
}

func TestServiceStatistics(t *testing.T) {
	t.Parallel()
	on := bustest.Start(t)
	serve(t, on, func(_ context.Context, r bus.Incoming) ([]byte, string) { return nil, string(r.Data) })
	for _, code := range []string{"", "not_there", "not_there"} {
		_, err := on.Request(t.Context(), "do", []byte(code), time.Minute, nil)
		runtest.NoError(t, err)
	}
	for verb, into := range map[string]any{"PING": &micro.Ping{}, "INFO": &micro.Info{}, "STATS": &micro.Stats{}} {
		m, err := on.Conn().Request("$SRV."+verb+".lash-api", nil, time.Minute)
		runtest.NoError(t, err)
		runtest.NoError(t, json.Unmarshal(m.Data, into))
		if s, ok := into.(*micro.Stats); ok {
			var own bus.OperationStats
			runtest.NoError(t, json.Unmarshal(s.Endpoints[0].Data, &own))
			if s.Endpoints[0].NumRequests != 3 || own.Answered != 3 || own.Errors["not_there"] != 2 || own.Working != 0 {
				t.Errorf("got %d requests and %+v, want 3, and 2 errors", s.Endpoints[0].NumRequests, own)
			}
		}
	}
}

// TestServesAsksNoHandler asks whether a node serves: before a service starts, while it runs, and after it stops.
func TestServesAsksNoHandler(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	asking := bustest.Open(t, server)
	runtest.WantError(t, "before", asking.Serves(t.Context(), "do"), bus.ErrNoResponder)
	s := serve(t, bustest.Open(t, server), func(context.Context, bus.Incoming) ([]byte, string) {
		t.Error("the handler ran")
		return nil, ""
	})
	runtest.WantError(t, "while it runs", asking.Serves(t.Context(), "do"), nil)
	runtest.NoError(t, s.Stop(t.Context()))
	runtest.WantError(t, "after", asking.Serves(t.Context(), "do"), bus.ErrNoResponder)
}

// TestServiceAtItsLimit has a request hold all of a service's capacity: the service says at once that it serves, a request
// that cannot begin ends as one that was not done, and one that comes just before the end is done.
func TestServiceAtItsLimit(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	began, finish := make(chan string, 8), make(chan struct{})
	s, err := bustest.Open(t, server).Serve(bus.ServiceConfig{Version: "1.0.0", Concurrency: 1, Operations: map[string]bus.HandlerFunc{
		"do": func(_ context.Context, r bus.Incoming) ([]byte, string) {
			began <- string(r.Data)
			<-finish
			return r.Data, ""
		},
	}})
	runtest.NoError(t, err)
	defer func() { _ = s.Stop(t.Context()) }()
	asking := bustest.Open(t, server)
	answers := make(chan error, 2)
	do := func(text string) {
		go func() { _, err := asking.Request(t.Context(), "do", []byte(text), time.Minute, nil); answers <- err }()
	}
	do("first")
	<-began
	for range 6 { // more than may wait
		do("later")
	}
	for range 6 {
		if err := <-answers; !errors.Is(err, bus.ErrNoResponder) || errors.Is(err, events.ErrOutcomeUnknown) {
			t.Errorf("at the limit: got %v, want an error that says that it was not done", err)
		}
	}
	runtest.WantError(t, "a service at its limit", asking.Serves(t.Context(), "do"), nil)
	close(finish)
	do("last")
	for range 2 {
		runtest.WantError(t, "answers", <-answers, nil)
	}
	if got := <-began; got != "last" {
		t.Errorf("got %s begun, want only the last", got)
	}
}
