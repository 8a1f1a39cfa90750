package archive_test

import (
	"bytes"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/sessiontest"
)

// TestBodiesThatLookEncrypted: tools and callers choose what bodies begin with. An archive of bodies that begin as encrypted ones do
// is restored where there are keys, body for body, and a body that the history does not refer to is not.
func TestBodiesThatLookEncrypted(t *testing.T) {
	t.Parallel()
	var keys [2]*bodykey.Keys
	var err error
	for i := range keys {
		if keys[i], err = bodykey.New(); err != nil {
			t.Fatal(err)
		}
	}
	encrypted := func(k *bodykey.Keys) []byte {
		body, err := k.Store([]byte("text of somebody else"))
		runtest.NoError(t, err)
		return body
	}
	own := encrypted(keys[0])
	bodies := [][]byte{
		[]byte("plain"), []byte("LASHENC1"), []byte("LASHENC1 is no ciphertext"), own[:len(own)-1], append(bytes.Clone(own), 'x'), own, encrypted(keys[1]),
	}
	b := sessiontest.Start(t)
	req := api.TurnRequest{ID: "t1"}
	for _, body := range bodies {
		ref, err := b.Bus.PutBlob(t.Context(), body)
		runtest.NoError(t, err)
		req.Input.Parts = append(req.Input.Parts, events.Part{Kind: events.PartAttachment, MediaType: "image/png", Blob: ref})
	}
	_, err = b.Host.Submit(t.Context(), sessiontest.ID, req)
	runtest.NoError(t, err)
	a := readBack(t, b, b.Bus.Log())
	for name, k := range map[string]*bodykey.Keys{"keys": keys[0], "no keys": nil} {
		other := bustest.OpenWith(t, bustest.Server(t, busembed.Config{}), k)
		done, err := archive.Restore(t.Context(), other, a)
		if err != nil || done.Blobs != int64(len(bodies)) {
			t.Fatalf("%s: got %+v, %v, want %d bodies", name, done, err, len(bodies))
		}
		for i, part := range req.Input.Parts {
			if got, err := other.Blob(t.Context(), part.Blob); err != nil || !bytes.Equal(got, bodies[i]) {
				t.Errorf("%s: body %d: got %q, %v, want %q", name, i, got, err, bodies[i])
			}
		}
	}
}
