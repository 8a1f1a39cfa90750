package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestFetchAfterConsumerCouldNotBeMade has another consumer in the place of a deleted one: fetches fail until it is
// gone.
func TestFetchAfterConsumerCouldNotBeMade(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q := joinQueue(t, b, bus.ClassTurn)
	js := jetStream(t, b)
	runtest.NoError(t, js.DeleteConsumer(t.Context(), "lash-work", "turn"))
	_, err := js.CreateConsumer(t.Context(), "lash-work", jetstream.ConsumerConfig{
		Durable: "other", FilterSubject: "lash.work.turn.>", AckPolicy: jetstream.AckExplicitPolicy,
	})
	runtest.NoError(t, err)
	for range 2 {
		if _, err := q.Fetch(t.Context(), 1, fetchWait, func(*bus.Wake) {}); err == nil {
			t.Error("got no error, want that of the consumer that could not be made")
		}
	}
	runtest.NoError(t, js.DeleteConsumer(t.Context(), "lash-work", "other"))
	if recreated, err := q.Fetch(t.Context(), 1, fetchWait, func(*bus.Wake) {}); !recreated || err != nil {
		t.Errorf("got recreated %v, %v, want it made again", recreated, err)
	}
	publish(t, b, turnKey("s"), bus.WakeHint{})
	if w := next(t, q); w.Session != "s" {
		t.Errorf("got %+v, want the wake of s", w)
	}
}
