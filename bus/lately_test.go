package bus_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
)

// TestBodyIsLookedForAfterReconnect stores a body again that the servers have lost, over another connection, without a read that says so.
func TestBodyIsLookedForAfterReconnect(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	body := []byte("a contract")
	ref, err := b.PutBlob(t.Context(), body)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(b.Conn())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "OBJ_lash-blobs")
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	before := b.Reconnects()
	if err := b.Conn().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the bus is connected again", func() bool { return b.Reconnects() > before && b.Conn().IsConnected() })
	if _, err := b.PutBlob(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Blob(t.Context(), ref); string(got) != string(body) || err != nil {
		t.Errorf("got %q, %v, want the body", got, err)
	}
}
