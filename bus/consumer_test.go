package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
)

// TestFetchAfterConsumerCouldNotBeMade has another consumer in the place of a deleted one: fetches fail until it is
// gone.
func TestFetchAfterConsumerCouldNotBeMade(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q := joinQueue(t, b, bus.ClassTurn)
	js := jetStream(t, b)
	if err := js.DeleteConsumer(t.Context(), "lash-work", "turn"); err != nil {
		t.Fatal(err)
	}
	_, err := js.CreateConsumer(t.Context(), "lash-work", jetstream.ConsumerConfig{
		Durable: "other", FilterSubject: "lash.work.turn.>", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := q.Fetch(t.Context(), 1, fetchWait, func(*bus.Wake) {}); err == nil {
			t.Error("got no error, want that of the consumer that could not be made")
		}
	}
	if err := js.DeleteConsumer(t.Context(), "lash-work", "other"); err != nil {
		t.Fatal(err)
	}
	if recreated, err := q.Fetch(t.Context(), 1, fetchWait, func(*bus.Wake) {}); !recreated || err != nil {
		t.Errorf("got recreated %v, %v, want it made again", recreated, err)
	}
	publish(t, b, turnKey("s"), bus.WakeHint{})
	if w := next(t, q); w.Session != "s" {
		t.Errorf("got %+v, want the wake of s", w)
	}
}
