package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestBodyInPieces stores and reads a body at nodes that refuse a request for a while, and where another node takes the call over after
// the first piece.
func TestBodyInPieces(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("body "), wire.MaxBodyPiece/2)
	sum := sha256.Sum256(body)
	want := events.BlobRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(body))}
	synctest.Test(t, func(t *testing.T) {
		var got []byte
		asked, ids := 0, make(map[string]bool)
		b := newBodies("s", func(_ context.Context, id, method, path string, sent json.RawMessage) (int, json.RawMessage, error) {
			if asked++; ids[id] {
				return 0, nil, fmt.Errorf("id %s comes again", id)
			}
			ids[id] = true
			piece := wire.BodyPiece{Digest: want.Digest, Size: want.Size}
			switch {
			case asked == 2 || asked == 9:
				return http.StatusTooManyRequests, nil, nil
			case asked == 4: // another node has the call
				return http.StatusConflict, nil, nil
			case method == http.MethodGet:
				var offset int
				if _, err := fmt.Sscanf(path, "/v1/sessions/s/blobs/"+want.Digest+"?offset=%d", &offset); err != nil {
					return 0, nil, fmt.Errorf("path %s: %w", path, err)
				}
				piece.Data = body[offset:min(offset+wire.MaxBodyPiece, len(body))]
				data, err := json.Marshal(&piece)
				return http.StatusOK, data, err
			}
			if err := json.Unmarshal(sent, &piece); err != nil || len(sent) > wire.MaxCallbackBytes {
				return 0, nil, fmt.Errorf("%d bytes: %w", len(sent), err)
			}
			if got = append(got[:piece.Offset:piece.Offset], piece.Data...); len(got) < len(body) {
				return http.StatusAccepted, nil, nil
			}
			return http.StatusCreated, nil, nil
		})
		if ref, err := b.StoreBody(t.Context(), body); ref != want || err != nil || !bytes.Equal(got, body) {
			t.Errorf("store: got %v, %v and %d bytes, want %v", ref, err, len(got), want)
		}
		if read, err := b.ReadBody(t.Context(), want.Digest); !bytes.Equal(read, body) || err != nil {
			t.Errorf("read: got %d bytes, %v, want %d", len(read), err, len(body))
		}
	})
}

// TestBodyRefused has requests that nodes, or the limits of a body, refuse.
func TestBodyRefused(t *testing.T) {
	t.Parallel()
	status, asked := http.StatusNotFound, 0
	b := newBodies("s", func(context.Context, string, string, string, json.RawMessage) (int, json.RawMessage, error) {
		asked++
		return status, json.RawMessage(`{"detail":"no"}`), nil
	})
	digest := hex.EncodeToString(make([]byte, sha256.Size))
	if _, err := b.ReadBody(t.Context(), digest); !errors.Is(err, api.ErrUnknownBlob) {
		t.Errorf("an unknown body: got %v, want %v", err, api.ErrUnknownBlob)
	}
	status = http.StatusConflict
	if _, err := b.StoreBody(t.Context(), []byte("x")); err == nil || asked != 2 {
		t.Errorf("a conflict of the first piece: got %v after %d requests, want an error after one more", err, asked)
	}
	for _, n := range []int{0, wire.MaxBodyBytes + 1} {
		if _, err := b.StoreBody(t.Context(), make([]byte, n)); !errors.Is(err, events.ErrTooLarge) || asked != 2 {
			t.Errorf("%d bytes: got %v, want the limit", n, err)
		}
	}
	if _, err := b.ReadBody(t.Context(), "x"); err == nil || asked != 2 {
		t.Errorf("no digest: got %v, want an error", err)
	}
}
