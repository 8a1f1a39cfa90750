package system

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

func TestObserveLate(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	seen := make(chan string)
	finish := make(chan struct{})
	b.StartStreaming(func(ctx context.Context, sink func(llm.Delta)) (llm.Response, error) {
		for _, s := range []string{"one ", "two ", "three "} { // each a delta of its own
			sink(harness.TextDelta(s))
			select {
			case got := <-seen:
				runtest.Equal(t, "delta", got, s)
			case <-ctx.Done():
			}
		}
		select {
		case <-finish:
		case <-ctx.Done():
		}
		return harness.StreamedReply("one two three four")
	})
	id := b.Open(api.CreateRequest{})
	firstLines, midway := make(chan []string, 1), make(chan struct{})
	go func() { // ends with the turn
		list, err := harness.Observations(b.Ctx, b.Host, id, 0, func(o api.Observed) bool {
			if o.Delta != nil {
				if o.Delta.N == 1 {
					close(midway)
				}
				seen <- o.Delta.Text
			}
			return o.Seq == 4
		})
		runtest.WantError(t, "observe", err, nil)
		firstLines <- list
	}()
	b.StartTurn(id, "t1", harness.Text("hello"))
	joined := 0
	select {
	case <-midway:
	case <-b.Ctx.Done():
		t.Fatal("the observer from the start has seen no second delta")
	}
	late, err := harness.Observations(b.Ctx, b.OtherHost(), id, 3, func(o api.Observed) bool {
		if o.Delta != nil {
			if joined++; joined == 3 {
				close(finish)
			}
		}
		return o.Seq == 4
	})
	runtest.WantError(t, "observe late", err, nil)
	runtest.EqualLists(t, "late", late, []string{`"one "`, `"two "`, `"three "`, "4"})
	runtest.EqualLists(t, "early", harness.Receive(b, "early", firstLines), []string{"1", "2", "3", `"one "`, `"two "`, `"three "`, "4"})

	again, err := harness.Observations(b.Ctx, b.OtherHost(), id, 0, harness.UpTo(4))
	runtest.WantError(t, "observe the end", err, nil)
	runtest.EqualLists(t, "nothing is streamed of a reply that is recorded", again, harness.Seqs(1, 4))
}

func TestObserveLost(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	first := b.LastSeq(id)
	const flood = 600 // more than an observer buffers
	list, err := harness.Observations(b.Ctx, b.Host, id, 0, func(o api.Observed) bool {
		if o.Seq == first { // it does nothing for a while
			for i := range flood {
				b.AppendTexts(id, fmt.Sprintf("n%d", i))
			}
		}
		return o.Seq == first+flood
	})
	runtest.WantError(t, "observe", err, nil)
	runtest.EqualLists(t, "seen by a slow observer", list, harness.Seqs(1, first+flood))
}

func TestObserveLostDeltas(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	b.CommitToTurn(id, &events.TurnRequested{}, &events.TurnStarted{Attempt: 1, Worker: "w1"})
	last := b.LastSeq(id)
	publish := func(from, to int64) {
		for n := from; n < to; n++ {
			data, err := events.EncodePayload(&api.Delta{Turn: "t1", Call: 1, Attempt: 1, N: n, Kind: events.PartText, Text: fmt.Sprint(n)})
			runtest.WantError(t, "encode", err, nil)
			runtest.WantError(t, "publish", b.Bus.PublishDelta(id, "t1", data), nil)
		}
		runtest.WantError(t, "flush", b.Bus.Conn().Flush(), nil)
	}
	publish(0, 1)
	const flood = 600
	var want []string
	for n := range flood {
		want = append(want, fmt.Sprintf("%q", fmt.Sprint(n)))
	}
	want = append(want, "gap", fmt.Sprintf("%q", fmt.Sprint(flood+1)))
	list, err := harness.Observations(b.Ctx, b.Host, id, last, func(o api.Observed) bool {
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
	runtest.WantError(t, "observe", err, nil)
	runtest.EqualLists(t, "seen by a slow observer", list, want)
}

func TestObserveCut(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	first := b.LastSeq(id)
	mine, err := bus.Open(b.Ctx, bustest.WithKeys(t, bus.Config{Options: []nats.Option{b.Server.InProcess()}, Timeout: time.Second}))
	runtest.WantError(t, "open bus", err, nil)
	defer mine.Close()
	list, err := harness.Observations(b.Ctx, b.NewHost(mine), id, 0, func(o api.Observed) bool {
		switch o.Seq {
		case first: // the connection breaks, and comes back by itself
			runtest.WantError(t, "reconnect", mine.Conn().ForceReconnect(), nil)
			b.AppendTexts(id, "a", "b")
		case first + 1:
			b.AppendTexts(id, "c")
		case first + 2: // and is closed for good
			mine.Close()
			b.AppendTexts(id, "d")
		}
		return false
	})
	if err == nil {
		t.Error("observe on a closed connection: got no error")
	}
	runtest.EqualLists(t, "seen before the end", list, harness.Seqs(1, first+2))
	b.AppendTexts(id, "e")
	list, err = harness.Observations(b.Ctx, b.OtherHost(), id, first+2, harness.UpTo(first+4))
	runtest.WantError(t, "resume", err, nil)
	runtest.EqualLists(t, "seen after it", list, harness.Seqs(first+3, first+4))
}

// TestObserveMany has many watchers of one session. Each is disconnected at another point, during turns or later,
// and resumes at its last commit, with another host. No watcher loses or doubles a commit, or delays a turn.
func TestObserveMany(t *testing.T) {
	t.Parallel()
	const turns, watchers = 8, 40
	var script []harness.Step
	for range turns {
		script = append(script, harness.Reply(harness.Text("Let me see."), harness.Call("k1", "add", `{"A":1,"B":2}`)), harness.Reply(harness.Text("Three.")))
	}
	b := harness.StartIdle(t, script...)
	harness.AddTool(b, events.EffectsNone)
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	hosts := []*session.Host{b.OtherHost(), b.OtherHost(), b.OtherHost()}
	step := make(chan struct{}) // lets the slow ones go on
	done := make(chan []string, watchers)
	for i := range watchers {
		go func() { // ends with the session
			cut := events.Seq(1 + i%(3*turns)) // there are more commits than that
			first, err := harness.Observations(b.Ctx, hosts[i%3], id, 0, func(o api.Observed) bool {
				if o.Commit != nil && i%2 == 1 && o.Seq == 3 {
					<-step
				}
				return o.Commit != nil && o.Seq == cut
			})
			runtest.WantError(t, "observe up to the cut", err, nil)
			rest, err := harness.Observations(b.Ctx, hosts[(i+1)%3], id, cut, func(o api.Observed) bool {
				if o.Commit != nil && i%4 == 2 {
					<-step
				}
				return o.Commit != nil && o.Commit.Events[0].Kind == events.KindSessionClosed
			})
			runtest.WantError(t, "observe from the cut on", err, nil)
			done <- slices.DeleteFunc(append(first, rest...), func(s string) bool { return s[0] == '"' || s == "gap" })
		}()
	}
	for n := range turns { // no watcher keeps a turn waiting
		runtest.Equal(t, "end", b.RunTurn(id, events.TurnID(fmt.Sprint("t", n)), harness.Text("go")).End, events.EndFinished)
	}
	b.CommitUnchecked(id, &events.SessionClosed{})
	last := b.LastSeq(id)
	if last < 3*turns {
		t.Errorf("got %d commits, want some behind every cut", last)
	}
	close(step)
	for range watchers {
		runtest.EqualLists(t, "seen", harness.Receive(b, "seen", done), harness.Seqs(1, last))
	}
}
