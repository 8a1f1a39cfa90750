package bus_test

import (
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/projector"
)

// TestBlobOfALateReplica reads a body that is not there yet, as where a replica that is behind answers. It is stored while the read
// waits.
func TestBlobOfALateReplica(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	reader, writer := bustest.Open(t, server), bustest.Open(t, server)
	reader.ExpectLateReplicas(time.Minute)
	body := []byte("stored in another place a moment ago")
	go func() {
		time.Sleep(50 * time.Millisecond)
		if _, err := writer.PutBlob(t.Context(), body); err != nil {
			t.Error(err)
		}
	}()
	got, err := reader.Blob(t.Context(), projector.RefOf(body))
	if err != nil || string(got) != string(body) {
		t.Errorf("got %q, %v, want the body", got, err)
	}
}
