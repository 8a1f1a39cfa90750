package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestBodyIsLookedForAfterReconnect stores a body again that the servers have lost, over another connection, without a read that says so.
func TestBodyIsLookedForAfterReconnect(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	body := []byte("a contract")
	ref, err := b.PutBlob(t.Context(), body)
	runtest.NoError(t, err)
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	stream, err := js.Stream(t.Context(), "OBJ_lash-blobs")
	if err == nil {
		err = stream.Purge(t.Context())
	}
	runtest.NoError(t, err)
	before := b.Reconnects()
	runtest.NoError(t, b.Conn().ForceReconnect())
	bustest.Eventually(t, "the bus is connected again", func() bool { return b.Reconnects() > before && b.Conn().IsConnected() })
	_, err = b.PutBlob(t.Context(), body)
	runtest.NoError(t, err)
	if got, err := b.Blob(t.Context(), ref); string(got) != string(body) || err != nil {
		t.Errorf("got %q, %v, want the body", got, err)
	}
}
