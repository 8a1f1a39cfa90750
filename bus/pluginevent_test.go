package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

func joinPluginEvents(t *testing.T, b *bus.Bus, plugin string) *bus.PluginEvents {
	t.Helper()
	e, err := b.PluginEvents(t.Context(), plugin)
	runtest.NoError(t, err)
	return e
}

func storePluginEvent(t *testing.T, b *bus.Bus, plugin, id string) {
	t.Helper()
	runtest.NoError(t, b.StorePluginEvent(t.Context(), plugin, id, []byte(id)))
}

// nextPluginEvent fetches until an event comes.
func nextPluginEvent(t *testing.T, e *bus.PluginEvents) *bus.PluginEvent {
	t.Helper()
	var event *bus.PluginEvent
	bustest.Eventually(t, "an event", func() bool {
		got, err := e.Fetch(t.Context(), time.Second)
		event = got
		return event != nil && err == nil
	})
	return event
}

// TestPluginEvents stores events of two plugins while no consumer fetches. Each plugin's consumer
// delivers its events in the order of their storage, one at a time on all nodes together. An event that a node returns, or holds without a sign of progress, comes again.
func TestPluginEvents(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, server), bustest.Open(t, server)
	for i := range 5 {
		storePluginEvent(t, b, "a", fmt.Sprint("a", i))
		storePluginEvent(t, b, "a", fmt.Sprint("a", i)) // repeated, as its answer was lost
		storePluginEvent(t, b, "b", fmt.Sprint("b", i))
	}
	first, second := joinPluginEvents(t, b, "a"), joinPluginEvents(t, other, "a")
	held := nextPluginEvent(t, first)
	if event, err := second.Fetch(t.Context(), 300*time.Millisecond); event != nil || err != nil && !errors.Is(err, events.ErrOutcomeUnknown) {
		t.Fatalf("while one is held: got %+v, %v, want none", event, err)
	}
	if string(held.Data) != "a0" || held.Deliveries != 1 {
		t.Errorf("got %s for the time %d, want a0 for the first time", held.Data, held.Deliveries)
	}
	runtest.WantError(t, "nak", held.Nak(), nil)
	if held = nextPluginEvent(t, second); string(held.Data) != "a0" || held.Deliveries != 2 {
		t.Errorf("got %s for the time %d, want a0 for the second time", held.Data, held.Deliveries)
	}
	if held = nextPluginEvent(t, first); string(held.Data) != "a0" || held.Deliveries != 3 { // the other node is silent
		t.Errorf("got %s for the time %d, want a0 for the third time", held.Data, held.Deliveries)
	}
	runtest.WantError(t, "ack", held.Ack(), nil)
	got := []string{"a0"}
	for len(got) < 5 {
		event := nextPluginEvent(t, first)
		got = append(got, string(event.Data))
		_ = event.Ack()
	}
	if want := []string{"a0", "a1", "a2", "a3", "a4"}; !slices.Equal(got, want) {
		t.Errorf("events of a: got %v, want %v", got, want)
	}
	if event := nextPluginEvent(t, joinPluginEvents(t, b, "b")); string(event.Data) != "b0" {
		t.Errorf("event of b: got %s, want b0", event.Data)
	}
}

// TestPluginEventsLost deletes the stream: who stores, or fetches, creates it again.
func TestPluginEventsLost(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *bus.Bus, *bus.PluginEvents){
		"store": func(*testing.T, *bus.Bus, *bus.PluginEvents) {},
		"fetch": func(t *testing.T, _ *bus.Bus, e *bus.PluginEvents) {
			t.Helper()
			_, _ = e.Fetch(t.Context(), time.Second)
		},
		"node": func(t *testing.T, b *bus.Bus, _ *bus.PluginEvents) {
			t.Helper()
			if made, err := b.RecreateMissing(t.Context()); err != nil || !slices.Equal(made, []string{"lash-plugin-events"}) {
				t.Errorf("recreated: got %v, %v, want the stream", made, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.Start(t)
			events := joinPluginEvents(t, b, "a")
			runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), "lash-plugin-events"))
			use(t, b, events)
			storePluginEvent(t, b, "a", "a0")
			if event := nextPluginEvent(t, events); string(event.Data) != "a0" {
				t.Errorf("event: got %s, want a0", event.Data)
			}
		})
	}
}

// TestPluginEventsMissing: a fleet without observing plugins has no such stream and misses none; another one does.
func TestPluginEventsMissing(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	missing := func(want ...string) {
		t.Helper()
		if got, err := b.MissingStreams(t.Context()); err != nil || !slices.Equal(got, want) {
			t.Errorf("missing: got %v, %v, want %v", got, err, want)
		}
	}
	missing()
	if _, err := jetStream(t, b).Stream(t.Context(), "lash-plugin-events"); err == nil {
		t.Error("the stream exists before a plugin observes")
	}
	joinPluginEvents(t, b, "a")
	missing()
	runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), "lash-plugin-events"))
	missing("lash-plugin-events")
}
