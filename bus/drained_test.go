package bus_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
)

// TestQueueOfEarlierVersion is replaced, unless commands wait in it.
func TestQueueOfEarlierVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		subjects []string
		refused  bool
	}{
		"empty":   {},
		"task":    {subjects: []string{"lash.work.task.s1.k1", "lash.work.tool.s1.k1"}},
		"command": {subjects: []string{"lash.work.turn.s1.t1"}, refused: true},
		"both":    {subjects: []string{"lash.work.task.s1.k1", "lash.work.turn.s1.t1"}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			nc, err := nats.Connect("", server.InProcess())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{
				Name: "lash-work", Subjects: []string{"lash.work.>"}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy,
				Discard: jetstream.DiscardNew, DiscardNewPerSubject: true, MaxMsgsPerSubject: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, subject := range c.subjects {
				if _, err := js.Publish(t.Context(), subject, []byte("command")); err != nil {
					t.Fatal(err)
				}
			}
			b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}})
			if c.refused {
				if !errors.Is(err, bus.ErrUndrained) || !strings.Contains(err.Error(), "1 in stream lash-work; start a node of that version") {
					t.Errorf("got %v, want %v and what to do", err, bus.ErrUndrained)
				}
				stream, err := js.Stream(t.Context(), "lash-work")
				if err != nil || stream.CachedInfo().State.Msgs != uint64(len(c.subjects)) {
					t.Errorf("the queue was touched: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if wakes, err := b.Wakes(t.Context()); err != nil || len(wakes) != 0 {
				t.Errorf("wakes: got %v, %v, want none", wakes, err)
			}
			publish(t, b, turnKey("s1"), bus.WakeHint{Worker: "first"})
			publish(t, b, turnKey("s1"), bus.WakeHint{Worker: "second"})
			if w := next(t, joinQueue(t, b, bus.ClassTurn)); w.Worker != "second" {
				t.Errorf("got %+v, want the second wake in place of the first", w.WakeHint)
			}
		})
	}
}

// TestTimersOfEarlierVersion refuses to start while one waits, or came and was not performed.
func TestTimersOfEarlierVersion(t *testing.T) {
	t.Parallel()
	for _, subject := range []string{"lash.timer.at.s1.t1", "lash.timer.due.s1.t1"} {
		t.Run(subject, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			options := bus.Config{Options: []nats.Option{server.InProcess()}}
			b, err := bus.Open(t.Context(), options)
			if err != nil {
				t.Fatal(err)
			}
			js := jetStream(t, b)
			if _, err := js.Publish(t.Context(), subject+"-not", []byte("what a server stored for somebody")); err != nil {
				t.Fatal(err)
			}
			again, err := bus.Open(t.Context(), options)
			if err != nil {
				t.Fatalf("with a message that is no timer: got %v", err)
			}
			again.Close()
			timer := nats.NewMsg(subject)
			timer.Header.Set("Lash-Due", "1")
			if _, err := js.PublishMsg(t.Context(), timer); err != nil {
				t.Fatal(err)
			}
			b.Close()
			_, err = bus.Open(t.Context(), options)
			if !errors.Is(err, bus.ErrUndrained) || !strings.Contains(err.Error(), "1 in stream lash-timers; with a node of that version") ||
				!strings.HasSuffix(err.Error(), "session and turn: s1 t1") {
				t.Errorf("got %v, want %v and what to do", err, bus.ErrUndrained)
			}
		})
	}
}
