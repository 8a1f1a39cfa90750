package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// nextLive waits for the next message of a subscription.
func nextLive(t *testing.T, c <-chan *nats.Msg) bus.LiveMessage {
	t.Helper()
	return bus.ParseLive(bustest.Receive(t, "a delivery", c))
}

func TestLive(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	live, err := b.Live("s", 16)
	runtest.NoError(t, err)
	defer live.Close()
	grow(t, b.Log(), "other", 1)
	grow(t, b.Log(), "s", 2)
	end := commit("s", 3)
	end.Events = append(end.Events, events.Of("t1", &events.TurnCompleted{End: events.EndFinished}))
	_, err = b.Log().Append(t.Context(), end, 2)
	runtest.NoError(t, err)
	for want := events.Seq(1); want <= 3; want++ {
		m := nextLive(t, live.C)
		c, err := events.Decode(m.Data)
		if err != nil || m.Seq != want || m.MayEndTurn != (want == 3) || c.ID != commit("s", int(want)).ID {
			t.Errorf("got sequence %d, ends %v, %v, want %d", m.Seq, m.MayEndTurn, err, want)
		}
	}
	runtest.NoError(t, b.PublishDelta("s", "t1", []byte("piece")))
	if m := nextLive(t, live.C); m.Seq != 0 || string(m.Data) != "piece" || m.MayEndTurn {
		t.Errorf("delta: got %+v, want piece", m)
	}
}

func TestOnCommit(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	got := make(chan bus.LiveMessage, 4)
	stop, err := b.OnCommit("s", func(m bus.LiveMessage) { got <- m })
	runtest.NoError(t, err)
	runtest.NoError(t, b.PublishDelta("s", "t1", []byte("deltas are not heard")))
	grow(t, b.Log(), "s", 2)
	for want := events.Seq(1); want <= 2; want++ {
		if m := bustest.Receive(t, "a delivery", got); m.Seq != want {
			t.Errorf("got sequence %d, want %d", m.Seq, want)
		}
	}
	stop()
}

func TestLiveRefuses(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	_, err := b.Live("a.*", 1)
	runtest.WantError(t, "live", err, events.ErrInvalidID)
	_, err = b.OnCommit(">", nil)
	runtest.WantError(t, "hear", err, events.ErrInvalidID)
}

// TestDirty merges a hundred marks into one. A mark that arrives while the first is handled is delivered too.
func TestDirty(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	marks, err := b.Dirty(t.Context())
	runtest.NoError(t, err)
	for range 99 {
		runtest.NoError(t, b.MarkDirty("s"))
	}
	js := jetStream(t, b)
	if _, err := js.Publish(t.Context(), "lash.dirty.s", nil); err != nil { // acked after the earlier ones are stored
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "lash-dirty")
	runtest.NoError(t, err)
	runtest.Equal(t, "marks", stream.CachedInfo().State.Msgs, 1)
	take := func() *bus.DirtyMark {
		t.Helper()
		var mark *bus.DirtyMark
		if err := marks.Fetch(t.Context(), 1, fetchWait, func(m *bus.DirtyMark) { mark = m }); err != nil || mark == nil {
			t.Fatalf("fetch: got %v, %v, want a mark", mark, err)
		}
		return mark
	}
	first := take()
	runtest.Equal(t, "session", first.Session, "s")
	runtest.NoError(t, b.MarkDirty("s"))
	second := take()
	runtest.NoError(t, first.Ack())
	runtest.NoError(t, second.Nak(0))
	if third := take(); third.Session != "s" {
		t.Errorf("given back: got %s, want s", third.Session)
	}
}
