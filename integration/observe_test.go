package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// streamer is a model whose calls are functions that stream by themselves.
type streamer struct {
	mu    sync.Mutex
	calls []func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error)
}

func (*streamer) ID() string { return "streamer" }

func (s *streamer) Complete(ctx context.Context, _ llm.Request, sink func(llm.Delta)) (llm.Response, error) {
	s.mu.Lock()
	next := s.calls[0]
	s.calls = s.calls[1:]
	s.mu.Unlock()
	return next(ctx, sink)
}

// stream works with a streamer whose calls are these.
func (b *bundle) stream(calls ...func(context.Context, func(llm.Delta)) (llm.Response, error)) {
	b.t.Helper()
	w, err := workers.NewNode(workers.Config{
		Roles: turnRoles(),
		Bus:   b.bus, Providers: map[string]llm.Provider{"streamer": &streamer{calls: calls}}, Provider: "streamer", Logger: zaptest.NewLogger(b.t),
		ModelRetry: workers.ModelRetry{Base: time.Millisecond, Max: time.Millisecond},
	})
	must(b.t, "new worker", err, nil)
	must(b.t, "start worker", w.Start(b.ctx), nil)
	b.t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		w.Stop(now)
	})
}

func said(parts ...string) (llm.Response, error) {
	r := llm.Response{Stop: events.StopEnd, Usage: events.Usage{Input: 10, Output: 5}}
	for _, p := range parts {
		r.Parts = append(r.Parts, text(p))
	}
	return r, nil
}

func spoken(s string) llm.Delta { return llm.Delta{Kind: events.PartText, Text: s} }

// commitTurn appends events of turn t1 past every check of the host.
func (b *bundle) commitTurn(id events.SessionID, list ...events.Payload) {
	b.t.Helper()
	last := b.last(id)
	c := &events.Commit{ID: "turn", Session: id, At: 1, Actor: events.Actor{Kind: events.ActorSystem}}
	for _, p := range list {
		c.Events = append(c.Events, events.Of("t1", p))
	}
	_, err := b.bus.Log().Append(b.ctx, c, last)
	must(b.t, "append", err, nil)
}

// collect takes observations until enough says so. Each is named: the sequence
// of a commit, the text of a delta in quotes, or gap.
func collect(ctx context.Context, h *session.Host, id events.SessionID, cursor events.Seq, enough func(api.Observed) bool) (list []string, err error) {
	for o, err := range h.Observe(ctx, id, cursor) {
		if err != nil {
			return list, err
		}
		switch {
		case o.Commit != nil:
			list = append(list, fmt.Sprint(o.Seq))
		case o.Delta != nil:
			list = append(list, fmt.Sprintf("%q", o.Delta.Text))
		case o.Gap != nil:
			list = append(list, "gap")
		}
		if enough(o) {
			return list, nil
		}
	}
	return list, nil
}

func until(seq events.Seq) func(api.Observed) bool {
	return func(o api.Observed) bool { return o.Seq == seq }
}

// seqs are the names of the commits from first to last.
func seqs(first, last events.Seq) []string {
	var list []string
	for ; first <= last; first++ {
		list = append(list, fmt.Sprint(first))
	}
	return list
}

func TestObserveLate(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	seen := make(chan string)
	finish := make(chan struct{})
	b.stream(func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		for _, s := range []string{"one ", "two ", "three "} { // each a delta of its own
			sink(spoken(s))
			select {
			case got := <-seen:
				equal(t, "delta", got, s)
			case <-ctx.Done():
			}
		}
		select {
		case <-finish:
		case <-ctx.Done():
		}
		return said("one two three four")
	})
	id := b.open(api.CreateRequest{})
	early, midway := make(chan []string, 1), make(chan struct{})
	go func() { // ends with the turn
		list, err := collect(b.ctx, b.Host, id, 0, func(o api.Observed) bool {
			if o.Delta != nil {
				if o.Delta.N == 1 {
					close(midway)
				}
				seen <- o.Delta.Text
			}
			return o.Seq == 4
		})
		must(t, "observe", err, nil)
		early <- list
	}()
	b.submit(id, "t1", text("hello"))
	joined := 0
	select {
	case <-midway:
	case <-b.ctx.Done():
		t.Fatal("the observer from the start has seen no second delta")
	}
	late, err := collect(b.ctx, b.otherHost(), id, 3, func(o api.Observed) bool {
		if o.Delta != nil {
			if joined++; joined == 3 {
				close(finish)
			}
		}
		return o.Seq == 4
	})
	must(t, "observe late", err, nil)
	equalLists(t, "late", late, []string{`"one "`, `"two "`, `"three "`, "4"})
	equalLists(t, "early", receive(b, "early", early), []string{"1", "2", "3", `"one "`, `"two "`, `"three "`, "4"})

	again, err := collect(b.ctx, b.otherHost(), id, 0, until(4))
	must(t, "observe the end", err, nil)
	equalLists(t, "nothing is streamed of a reply that is recorded", again, seqs(1, 4))
}

func TestObserveLost(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	first := b.last(id)
	const flood = 600 // more than an observer buffers
	list, err := collect(b.ctx, b.Host, id, 0, func(o api.Observed) bool {
		if o.Seq == first { // it does nothing for a while
			for i := range flood {
				b.say(id, fmt.Sprintf("n%d", i))
			}
		}
		return o.Seq == first+flood
	})
	must(t, "observe", err, nil)
	equalLists(t, "seen by a slow observer", list, seqs(1, first+flood))
}

func TestObserveLostDeltas(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	b.commitTurn(id, &events.TurnRequested{}, &events.TurnStarted{Attempt: 1, Worker: "w1"})
	last := b.last(id)
	publish := func(from, to int64) {
		for n := from; n < to; n++ {
			data, err := events.EncodePayload(&api.Delta{Turn: "t1", Call: 1, Attempt: 1, N: n, Kind: events.PartText, Text: fmt.Sprint(n)})
			must(t, "encode", err, nil)
			must(t, "publish", b.bus.PublishDelta(id, "t1", data), nil)
		}
		must(t, "flush", b.bus.Conn().Flush(), nil)
	}
	publish(0, 1)
	const flood = 600
	var want []string
	for n := range flood {
		want = append(want, fmt.Sprintf("%q", fmt.Sprint(n)))
	}
	want = append(want, "gap", fmt.Sprintf("%q", fmt.Sprint(flood+1)))
	list, err := collect(b.ctx, b.Host, id, last, func(o api.Observed) bool {
		if o.Delta == nil {
			return false
		}
		switch o.Delta.N {
		case 0:
			publish(1, flood-1) // most of them find the buffer full
		case 200:
			publish(flood-1, flood) // behind the hole
		case flood - 1:
			publish(flood+1, flood+2) // one that never was
		}
		return o.Delta.N > flood
	})
	must(t, "observe", err, nil)
	equalLists(t, "seen by a slow observer", list, want)
}

func TestObserveCut(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	first := b.last(id)
	mine, err := bus.Open(b.ctx, bus.Config{Options: []nats.Option{b.server.InProcess()}, Timeout: time.Second})
	must(t, "open bus", err, nil)
	defer mine.Close()
	list, err := collect(b.ctx, b.newHost(mine), id, 0, func(o api.Observed) bool {
		switch o.Seq {
		case first: // the connection breaks, and comes back by itself
			must(t, "reconnect", mine.Conn().ForceReconnect(), nil)
			b.say(id, "a", "b")
		case first + 1:
			b.say(id, "c")
		case first + 2: // and is closed for good
			mine.Close()
			b.say(id, "d")
		}
		return false
	})
	if err == nil {
		t.Error("observe on a closed connection: got no error")
	}
	equalLists(t, "seen before the end", list, seqs(1, first+2))
	b.say(id, "e")
	list, err = collect(b.ctx, b.otherHost(), id, first+2, until(first+4))
	must(t, "resume", err, nil)
	equalLists(t, "seen after it", list, seqs(first+3, first+4))
}

// TestObserveMany has many watchers of one session. Each is cut somewhere else,
// while turns run or later, and resumes at the commit that it saw last, with
// another host. No one loses or doubles a commit, or keeps a turn waiting.
func TestObserveMany(t *testing.T) {
	t.Parallel()
	const turns = 8
	watchers := 100
	if testing.Short() {
		watchers = 20
	}
	var script []step
	for range turns {
		script = append(script, reply(text("Let me see."), call("k1", "add", `{"A":1,"B":2}`)), reply(text("Three.")))
	}
	b := setupIdle(t, script...)
	adder(b, events.EffectsNone)
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	hosts := []*session.Host{b.otherHost(), b.otherHost(), b.otherHost()}
	step := make(chan struct{}) // lets the slow ones go on
	done := make(chan []string, watchers)
	for i := range watchers {
		go func() { // ends with the session
			cut := events.Seq(1 + i%(3*turns)) // there are more commits than that
			first, err := collect(b.ctx, hosts[i%3], id, 0, func(o api.Observed) bool {
				if o.Commit != nil && i%2 == 1 && o.Seq == 3 {
					<-step
				}
				return o.Commit != nil && o.Seq == cut
			})
			must(t, "observe up to the cut", err, nil)
			rest, err := collect(b.ctx, hosts[(i+1)%3], id, cut, func(o api.Observed) bool {
				if o.Commit != nil && i%4 == 2 {
					<-step
				}
				return o.Commit != nil && o.Commit.Events[0].Kind == events.KindSessionClosed
			})
			must(t, "observe from the cut on", err, nil)
			done <- slices.DeleteFunc(append(first, rest...), func(s string) bool { return s[0] == '"' || s == "gap" })
		}()
	}
	for n := range turns { // no watcher keeps a turn waiting
		equal(t, "end", b.run(id, events.TurnID(fmt.Sprint("t", n)), text("go")).End, events.EndFinished)
	}
	b.commitWith(id, &events.SessionClosed{})
	last := b.last(id)
	if last < 3*turns {
		t.Errorf("got %d commits, want some behind every cut", last)
	}
	close(step)
	for range watchers {
		equalLists(t, "seen", receive(b, "seen", done), seqs(1, last))
	}
}

func TestObserveRefused(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	never := func(api.Observed) bool { return false }
	_, err := collect(b.ctx, b.Host, "nobody", 0, never)
	must(t, "an unknown session", err, events.ErrNoSession)
	_, err = collect(b.ctx, b.Host, id, 99, never)
	var cursor *api.CursorError
	if !errors.As(err, &cursor) || cursor.Last != b.last(id) || cursor.Cursor != 99 {
		t.Errorf("a cursor beyond the end: got %v, want one that tells the last sequence", err)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	list, err := collect(ctx, b.Host, id, 0, func(api.Observed) bool { cancel(); return false })
	must(t, "its context ended", err, context.Canceled)
	equalLists(t, "seen before", list, seqs(1, b.last(id)))
}
