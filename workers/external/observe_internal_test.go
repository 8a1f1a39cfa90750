package external

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestEventOfANewManifest has a node get an event that only a newer manifest observes, which the node has not read: the
// event comes again, for another node. A node with the current manifest, which does not observe it, removes the event.
func TestEventOfANewManifest(t *testing.T) {
	t.Parallel()
	on := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	node := func() *Plugins {
		p, err := New(Config{Bus: on, Plugins: []Plugin{{Name: "notes"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		return p
	}
	register := func(p *Plugins, version string, hooks ...wire.Hook) {
		data, err := json.Marshal(&wire.Registration{Protocol: wire.Version, Instance: "i1", Manifest: wire.Manifest{Version: version, Hooks: hooks}})
		if err == nil {
			_, _, err = p.registry.Register("notes", "register", data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second := node(), node()
	register(first, "1")
	if err := second.registry.Read(t.Context(), "notes"); err != nil {
		t.Fatal(err)
	}
	register(first, "2", wire.Hook{Name: "ends", Point: "turn_persisted"})
	event, err := json.Marshal(&wire.HookCall{Point: "turn_persisted", Session: "s", Invocation: "i"})
	if err != nil {
		t.Fatal(err)
	}
	if err := on.StorePluginEvent(t.Context(), "notes", "e1", event); err != nil {
		t.Fatal(err)
	}
	first.Stop() // it would deliver the event to an instance
	queue, err := on.PluginEvents(t.Context(), "notes")
	if err != nil {
		t.Fatal(err)
	}
	fetch := func(deliveries int, wait time.Duration) (e *bus.PluginEvent) {
		t.Helper()
		e, err := queue.Fetch(t.Context(), wait)
		if err != nil || (e == nil) != (deliveries == 0) || e != nil && e.Deliveries != deliveries {
			t.Fatalf("event: got %+v, %v, want delivery %d", e, err, deliveries)
		}
		return e
	}
	second.deliver("notes", fetch(1, 10*time.Second))
	again := fetch(2, 10*time.Second)
	register(second, "3")
	second.deliver("notes", again)
	fetch(0, bus.AckWait+time.Second)
}
