package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// watchedCommit is one delivery of [bus.Bus.WatchCommits].
type watchedCommit struct {
	id         events.SessionID
	seq        events.Seq
	background bool
}

// TestWatchCommits delivers the commits of every session, and which are about background tasks.
func TestWatchCommits(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	got := make(chan watchedCommit, 8)
	m, err := b.WatchCommits(func(id events.SessionID, seq events.Seq, background bool) { got <- watchedCommit{id, seq, background} })
	runtest.NoError(t, err)
	defer m.Close()
	for _, c := range []struct {
		id         events.SessionID
		payloads   []events.Payload
		background bool
	}{
		{"s1", []events.Payload{&events.TurnStarted{Attempt: 1, Worker: "w"}}, false},
		{"s2", []events.Payload{&events.TaskProgressed{Task: "k", Message: "m"}}, true},
		{"s3", []events.Payload{&events.MonitorArmed{Monitor: "m"}}, true},
		{"s4", []events.Payload{&events.SessionClosed{}}, false},
		{"s5", []events.Payload{&events.SessionClosed{}, &events.TaskProgressed{Task: "k", Message: "m"}}, true},
	} {
		next := commit(c.id, 1)
		next.Events = nil
		for _, p := range c.payloads {
			next.Events = append(next.Events, events.Of("", p))
		}
		_, err = b.Log().Append(t.Context(), next, 0)
		runtest.NoError(t, err)
		if seen := bustest.Receive(t, "a delivery", got); seen != (watchedCommit{c.id, 1, c.background}) {
			t.Errorf("got %+v, want sequence 1 of %s, background %v", seen, c.id, c.background)
		}
	}
	if m.Missed() {
		t.Error("got lost messages, want none")
	}
}

// TestWatchCommitsAfterReconnect: Lost reports a reconnect once.
func TestWatchCommitsAfterReconnect(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{Listen: true})
	b, err := bus.Open(t.Context(), bus.Config{URL: server.URL()})
	runtest.NoError(t, err)
	defer b.Close()
	got := make(chan watchedCommit, 8)
	m, err := b.WatchCommits(func(id events.SessionID, seq events.Seq, background bool) { got <- watchedCommit{id, seq, background} })
	runtest.NoError(t, err)
	defer m.Close()
	if m.Missed() {
		t.Error("at first: got lost messages")
	}
	back := b.Conn().StatusChanged(nats.CONNECTED)
	runtest.NoError(t, b.Conn().ForceReconnect())
	bustest.Receive(t, "a delivery", back)
	bustest.Eventually(t, "the status listener has the reconnect", m.Missed)
	if m.Missed() {
		t.Error("the second time: got lost messages")
	}
	grow(t, b.Log(), "s", 1)
	if seen := bustest.Receive(t, "a delivery", got); seen.id != "s" {
		t.Errorf("got %+v, want s", seen)
	}
}
