package busembed

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/internal/runtest"
)

// TestSyncFails has a store that cannot be synced. The server stops with the next message.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	s, err := Start(Config{StoreDir: t.TempDir()})
	runtest.NoError(t, err)
	t.Cleanup(s.Stop)
	s.syncer.store.close()
	down := make(chan struct{})
	nc, err := nats.Connect("", s.InProcess(), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(down) }))
	runtest.NoError(t, err)
	runtest.NoError(t, nc.Publish("x", nil))
	<-down // a server that goes on keeps the connection
	nc.Close()
}

// TestSyncSchedule syncs once more after the last message.
func TestSyncSchedule(t *testing.T) {
	t.Parallel()
	var p syncSchedule
	for i, look := range []struct {
		took int64
		due  bool
	}{{0, false}, {3, true}, {4, true}, {4, true}, {4, false}, {5, true}, {5, true}, {5, false}} {
		if got := p.due(look.took); got != look.due {
			t.Errorf("look %d, %d messages: got %v, want %v", i+1, look.took, got, look.due)
		}
	}
}
