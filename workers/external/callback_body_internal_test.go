package external

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestBodyCallbacks stores and reads bodies in pieces. Each callback has its record, another attempt of the call stores no second body, and
// a node that takes the call over begins with the first piece.
func TestBodyCallbacks(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	host, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []events.SessionID{"own", "other"} {
		if _, err := host.Create(t.Context(), api.CreateRequest{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	theirs, err := host.StoreBlob(t.Context(), "other", []byte("theirs"))
	if err != nil {
		t.Fatal(err)
	}
	large, err := host.StoreBlob(t.Context(), "own", make([]byte, wire.MaxBodyBytes+1))
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Bus: b, Plugins: []Plugin{{Name: "notes", Callbacks: []string{operation.StoreBlob.ID, operation.ReadBlob.ID}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	var records []accesslog.Record
	if err := p.ServeAPI(APIConfig{Service: host, Access: func(r accesslog.Record) { records = append(records, r) }}); err != nil {
		t.Fatal(err)
	}
	attempt := func() *instanceCall {
		return &instanceCall{p: p, plugin: "notes", in: &wire.Call{CallID: wire.CallID{Session: "own", Call: "t/0/0"}}, ctx: t.Context()}
	}
	body := strings.Repeat("0123456789", wire.MaxBodyPiece/5)
	sum := sha256.Sum256([]byte(body))
	digest := hex.EncodeToString(sum[:])
	n := 0
	perform := func(o *instanceCall, method, path string, offset, want int) []byte {
		t.Helper()
		n++
		in := &wire.Callback{ID: fmt.Sprint("c", n), Method: method, Path: "/v1/sessions/" + path}
		if method == http.MethodPost {
			in.Body, _ = json.Marshal(&wire.BodyPiece{Digest: digest, Size: int64(len(body)), Offset: int64(offset), Data: []byte(body[offset:min(offset+wire.MaxBodyPiece, len(body))])})
		}
		a := o.perform(t.Context(), in)
		var piece wire.BodyPiece
		if a.Status != want || len(a.Body) > 0 && json.Unmarshal(a.Body, &piece) != nil {
			t.Errorf("%s %s at %d: got %d %.200s, want %d", method, path, offset, a.Status, a.Body, want)
		}
		return piece.Data
	}
	first, second := attempt(), attempt()
	perform(first, "POST", "own/blobs", 0, 202)
	perform(second, "POST", "own/blobs", wire.MaxBodyPiece, 409)
	for _, o := range []*instanceCall{first, second} {
		perform(o, "POST", "own/blobs", 0, 202)
		perform(o, "POST", "own/blobs", wire.MaxBodyPiece, 201)
	}
	read := perform(second, "GET", "own/blobs/"+digest, 0, 200)
	read = append(read, perform(second, "GET", fmt.Sprint("own/blobs/", digest, "?offset=", len(read)), 0, 200)...)
	if string(read) != body {
		t.Errorf("read: got %d bytes, want the %d that were stored", len(read), len(body))
	}
	perform(second, "GET", fmt.Sprint("own/blobs/", digest, "?offset=", len(body)), 0, 400)
	perform(second, "GET", "own/blobs/"+digest+"?offset=x", 0, 400)
	perform(second, "GET", "own/blobs/"+large.Digest, 0, 413)
	perform(second, "GET", "own/blobs/"+theirs.Digest, 0, 404)
	perform(second, "GET", "other/blobs/"+theirs.Digest, 0, 404)
	perform(second, "POST", "other/blobs", 0, 202)
	perform(second, "POST", "other/blobs", wire.MaxBodyPiece, 404)
	stored := 0
	for e, err := range b.Log().Read(t.Context(), "own", 1) {
		if err != nil {
			t.Fatal(err)
		}
		for i := range e.Commit.Events {
			if p, ok := e.Commit.Events[i].Payload.(*events.BodyStored); ok && p.Blob.Digest == digest {
				stored++
			}
		}
	}
	if stored != 1 {
		t.Errorf("stored %d times, want once", stored)
	}
	missing := n
	for _, r := range records {
		if r.Caller == "plugin-notes" && slices.Contains([]string{operation.StoreBlob.ID, operation.ReadBlob.ID}, r.Operation) {
			missing--
		}
	}
	if missing > 0 {
		t.Errorf("records: got %d, %d fewer than callbacks", len(records), missing)
	}
}
