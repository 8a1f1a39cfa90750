package bus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/internal/runtest"
)

func newBodyKeys(t *testing.T) *bodykey.Keys {
	t.Helper()
	k, err := bodykey.New()
	runtest.NoError(t, err)
	return k
}

// plainBus opens a bus without keys, also where every bus of the run has keys.
func plainBus(t *testing.T, server *busembed.Server) *bus.Bus {
	t.Helper()
	b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// forgotten returns a set that begins with the keys of k, and the same set once these are forgotten.
func forgotten(t *testing.T, k *bodykey.Keys) (both, later *bodykey.Keys) {
	t.Helper()
	both, id, err := k.Add()
	if err == nil {
		both, err = both.Use(id)
	}
	if err == nil {
		later, err = both.Forget(k.Current())
	}
	runtest.NoError(t, err)
	return both, later
}

// TestPlainBusStopsToWrite: a bus that was opened before the first one with keys writes no body any more soon after it, by any method.
func TestPlainBusStopsToWrite(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := plainBus(t, server)
	ctx := t.Context()
	row := func(rows bus.Rows) error {
		_, err := rows.Update(ctx, "s1", func(now bus.Row) ([]byte, error) { return append(now.Value, 'x'), nil })
		return err
	}
	n := 0
	writes := map[string]func() error{
		"commit": func() error {
			_, err := b.Log().Append(ctx, &events.Commit{
				ID: events.CommitID(fmt.Sprint("c", n)), Session: events.SessionID(fmt.Sprint("s", n)), At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "w"},
				Events: []events.Event{events.Of("", &events.SessionOpened{})},
			}, 0)
			return err
		},
		"blob":        func() error { _, err := b.PutBlob(ctx, []byte("body")); return err },
		"directory":   func() error { return row(b.Directory()) },
		"catalogue":   func() error { return row(b.Catalogs()) },
		"snapshot":    func() error { return row(b.Snapshots()) },
		"index":       func() error { rows, _ := b.Index(); return row(rows) },
		"dead letter": func() error { return b.PutDeadLetter(ctx, &bus.DeadLetter{Session: "s1"}) },
		"trial": func() error {
			return b.PutTrial(ctx, bus.TrialKey{Session: "s1", Of: bus.TrialFold}, bus.Trial{Count: 1})
		},
		"event":  func() error { return b.StorePluginEvent(ctx, "p", fmt.Sprint(n), []byte("event")) },
		"delta":  func() error { return b.PublishDelta("s1", "t1", []byte("delta")) },
		"output": func() error { return b.PublishOutput("s1", []byte("output")) },
	}
	joinPluginEvents(t, b, "p")
	for name, write := range writes {
		if n++; write() != nil {
			t.Errorf("%s: refused before there are keys: %v", name, write())
		}
	}
	bustest.OpenWith(t, server, newBodyKeys(t))
	bustest.Eventually(t, "a bus without keys writes no more", func() bool {
		_, err := b.PutBlob(ctx, []byte("body"))
		return err != nil
	})
	for name, write := range writes {
		if n++; !errors.Is(write(), events.ErrLocked) {
			t.Errorf("%s: got %v, want locked", name, write())
		}
	}
}

// TestCheckOfKeysIsCiphertext stores other checks in place of the one of a store with keys: no bus takes them for its own, with or
// without keys.
func TestCheckOfKeysIsCiphertext(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	bustest.OpenWith(t, server, newBodyKeys(t))
	other, err := newBodyKeys(t).Check()
	runtest.NoError(t, err)
	manifests, err := jetStream(t, plainBus(t, server)).KeyValue(t.Context(), "lash-plugins")
	runtest.NoError(t, err)
	for name, check := range map[string][]byte{"the text": []byte("lash bodies"), "empty": {}, "no key": []byte("LASHENC1"), "id 0": append([]byte("LASHENC1\x01\x00\x00\x00\x00"), other[13:]...)} {
		_, err = manifests.Put(t.Context(), "=bodies", check)
		runtest.NoError(t, err)
		for what, keys := range map[string]*bodykey.Keys{"no": nil, "other": newBodyKeys(t)} {
			b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, Keys: keys})
			runtest.WantError(t, fmt.Sprintf("%s, %s keys", name, what), err, events.ErrMalformed)
			if err == nil {
				b.Close()
			}
		}
	}
}

// TestForgottenKeyHidesNoDeadLetter: letters of a key that was forgotten, or with other bytes, are listed, found and dropped as others are.
func TestForgottenKeyHidesNoDeadLetter(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	k := newBodyKeys(t)
	both, later := forgotten(t, k)
	put := func(keys *bodykey.Keys, id events.SessionID) *bus.Bus {
		b := bustest.OpenWith(t, server, keys)
		runtest.NoError(t, b.PutDeadLetter(t.Context(), &bus.DeadLetter{Session: id, Error: "of " + string(id), Attempts: 3, At: 1000, Worker: "w"}))
		return b
	}
	put(k, "old")
	put(both, "new")
	b := bustest.OpenWith(t, server, later)
	_, err := jetStream(t, b).Publish(t.Context(), "lash.dead.broken", []byte("LASHENC1"))
	runtest.NoError(t, err)
	if got := fmt.Sprint(deadLetters(t, b)); got != "[broken new old]" {
		t.Errorf("list: got %s", got)
	}
	for id, readable := range map[events.SessionID]bool{"old": false, "new": true, "broken": false} {
		letter, err := b.DeadLetter(t.Context(), id)
		if err != nil || letter.Session != id || letter.At == 0 || (letter.Error == "of "+string(id)) != readable || letter.Error == "" {
			t.Errorf("%s: got %+v, %v", id, letter, err)
		}
		runtest.WantError(t, "drop dead letter", b.DropDeadLetter(t.Context(), &letter), nil)
	}
	if got := deadLetters(t, b); len(got) != 0 {
		t.Errorf("dropped: got %v", got)
	}
}

// TestForgottenKeyHoldsNoPluginEvents: an event that no node can read is removed after some deliveries, one that is malformed at
// once, and the plugin gets the next one.
func TestForgottenKeyHoldsNoPluginEvents(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	k := newBodyKeys(t)
	both, later := forgotten(t, k)
	first := bustest.OpenWith(t, server, k)
	joinPluginEvents(t, first, "p")
	storePluginEvent(t, first, "p", "old")
	bustest.OpenWith(t, server, both)
	b := bustest.OpenWith(t, server, later)
	_, err := jetStream(t, b).Publish(t.Context(), "lash.plugin-event.p", []byte("LASHENC1"))
	runtest.NoError(t, err)
	storePluginEvent(t, b, "p", "new")
	events := joinPluginEvents(t, b, "p")
	if event, err := events.Fetch(t.Context(), time.Minute); event != nil || err == nil {
		t.Fatalf("without the key: got %+v, %v, want the missing key", event, err)
	}
	deliver(t, jetStream(t, b), 29)
	if event := nextPluginEvent(t, events); string(event.Data) != "new" {
		t.Errorf("got %s, want the newer event", event.Data)
	}
}

// deliver returns the first event of the plugin p so many times, as nodes without its key do.
func deliver(t *testing.T, js jetstream.JetStream, times int) {
	t.Helper()
	c, err := js.Consumer(t.Context(), "lash-plugin-events", "p")
	runtest.NoError(t, err)
	for range times {
		msg, err := c.Next(jetstream.FetchMaxWait(time.Minute))
		if err == nil {
			err = msg.Nak()
		}
		runtest.NoError(t, err)
	}
}
