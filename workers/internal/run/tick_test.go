package run

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

// TestTimeComesToFullPool makes a scheduled turn due while another turn of the session fills the pool, which fetches
// no wakes; also if the timer is lost.
func TestTimeComesToFullPool(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"told": false, "lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, g := setup(t), newGate()
			b.start(b.pool("w1", 1, g.script(says("hi")), nil))
			b.submit("t1")
			bustest.Receive(t, "an event", g.asked)
			if _, err := b.Host.SubmitAt(t.Context(), sid, time.Now().Add(6*time.Second), sessionAsk("t2")); err != nil {
				t.Fatal(err)
			}
			if lost {
				b.purge("lash-timers")
			}
			b.awaitQueued("t2")
			close(g.open)
			b.await("t2")
		})
	}
}

// TestTimerAgain loses the timer of a scheduled turn, as the firing of an earlier one can: the worker that handles the firing stores it again.
func TestTimerAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start(b.pool("w1", 1, says("hi"), nil))
	at := time.Now().Add(time.Hour)
	if _, err := b.Host.SubmitAt(t.Context(), sid, at, sessionAsk("t1")); err != nil {
		t.Fatal(err)
	}
	b.purge("lash-timers")
	if err := b.Bus.SetTimer(sid, 1); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the timer of the turn", func() bool {
		got, err := b.Bus.Timer(t.Context(), sid)
		return err == nil && got == events.MillisOf(at)
	})
}

// purge waits for a message in a stream and empties the stream.
func (b *bundle) purge(name string) {
	b.T.Helper()
	js, err := jetstream.New(b.Bus.Conn())
	if err != nil {
		b.T.Fatal(err)
	}
	var s jetstream.Stream
	bustest.Eventually(b.T, "a message in "+name, func() bool {
		if s, err = js.Stream(b.T.Context(), name); err != nil {
			b.T.Fatal(err)
		}
		return s.CachedInfo().State.Msgs > 0
	})
	if err := s.Purge(b.T.Context()); err != nil {
		b.T.Fatal(err)
	}
}

// awaitQueued waits until a turn is queued behind the running one.
func (b *bundle) awaitQueued(id string) {
	b.T.Helper()
	bustest.Eventually(b.T, id+" is queued behind the running turn", func() bool {
		s := b.State()
		return len(s.Queue) == 1 && string(s.Queue[0].ID) == id && s.Turn() != nil
	})
}

// TestRunMarks expects marks for projectors during a long turn and at its end, and one for a short turn.
func TestRunMarks(t *testing.T) {
	t.Parallel()
	b, g := setup(t), newGate()
	marks, err := b.Bus.Conn().SubscribeSync("lash.dirty.s")
	if err != nil {
		t.Fatal(err)
	}
	marked := func(what string) {
		t.Helper()
		if _, err := marks.NextMsg(time.Minute); err != nil {
			t.Errorf("%s: got no mark, %v", what, err)
		}
	}
	p := b.start(b.pool("w1", 1, g.script(says("hi")), nil))
	b.submit("t1")
	bustest.Receive(t, "an event", g.asked)
	marked("it runs")
	close(g.open)
	b.await("t1")
	marked("it has ended")
	idle(t, p)
	b.submit("t2")
	b.await("t2")
	marked("a short one")
	idle(t, p)
	if err := b.Bus.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := marks.Pending(); n > 0 || err != nil {
		t.Errorf("a short one: got %d marks more, %v", n, err)
	}
}
