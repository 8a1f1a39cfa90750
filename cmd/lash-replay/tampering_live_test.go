package main

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// tampered is a server whose operator writes streams.
type tampered struct {
	server *busembed.Server
	js     jetstream.JetStream
	bus    *bus.Bus
}

func startTampered(t *testing.T) *tampered {
	t.Helper()
	server, err := busembed.Start(busembed.Config{StoreDir: t.TempDir(), Listen: true})
	runtest.NoError(t, err)
	t.Cleanup(server.Stop)
	b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}}) // makes the shared assets
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	conn, err := nats.Connect("", server.InProcess())
	runtest.NoError(t, err)
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	runtest.NoError(t, err)
	return &tampered{server, js, b}
}

// store stores bodies.
func (l *tampered) store(t *testing.T, bodies map[string][]byte) {
	t.Helper()
	for _, body := range bodies {
		_, err := l.bus.PutBlob(t.Context(), body)
		runtest.NoError(t, err)
	}
}

// verify makes a stream with the commits, and verifies it on the server. The stream is in memory: in a file store, one that is made
// again at once may still have the messages of the last one.
func (l *tampered) verify(t *testing.T, id events.SessionID, list []stored, args []string) verified {
	t.Helper()
	ctx := context.Background()
	name := "lash-s-" + string(id)
	if err := l.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	if _, err := l.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: name, Subjects: []string{"lash.s." + string(id) + ".>"}, Storage: jetstream.MemoryStorage, AllowDirect: true, Metadata: map[string]string{"lash_format": "1"},
	}); err != nil {
		t.Fatal(err)
	}
	for i := range list {
		_, err := l.js.Publish(ctx, "lash.s."+string(id)+".turn", list[i].data)
		runtest.NoError(t, err)
	}
	return verifyOf(t, append([]string{string(id), "--nats", l.server.URL()}, args...)...)
}
