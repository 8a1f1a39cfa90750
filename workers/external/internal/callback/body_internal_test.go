package callback

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/setting"
)

// piecesOf are the pieces of a body.
func piecesOf(body []byte) (list []*wire.BodyPiece) {
	sum := sha256.Sum256(body)
	for at := 0; at < len(body); at += wire.MaxBodyPiece {
		list = append(list, &wire.BodyPiece{
			Digest: hex.EncodeToString(sum[:]), Size: int64(len(body)), Offset: int64(at), Data: body[at:min(at+wire.MaxBodyPiece, len(body))],
		})
	}
	return list
}

// TestBodyOfPieces adds the pieces of bodies: in order, again from the first one, and of another body in between.
func TestBodyOfPieces(t *testing.T) {
	t.Parallel()
	a, b := bytes.Repeat([]byte("a"), 2*wire.MaxBodyPiece+1), bytes.Repeat([]byte("b"), wire.MaxBodyPiece+1)
	pa, pb := piecesOf(a), piecesOf(b)
	var bodies Bodies
	for i, c := range []struct {
		piece *wire.BodyPiece
		whole []byte
		err   error
	}{
		{pa[1], nil, errNoFollower},
		{pa[0], nil, nil},
		{pa[2], nil, errNoFollower},
		{pa[1], nil, nil},
		{pa[0], nil, nil},
		{pa[1], nil, nil},
		{pa[2], a, nil},
		{pa[2], nil, errNoFollower},
		{pa[0], nil, nil},
		{pb[0], nil, nil},
		{pa[1], nil, errNoFollower},
		{pb[1], b, nil},
	} {
		whole, err := bodies.add(t.Context(), c.piece)
		if !bytes.Equal(whole, c.whole) || !errors.Is(err, c.err) {
			t.Fatalf("piece %d: got %d bytes, %v, want %d bytes, %v", i, len(whole), err, len(c.whole), c.err)
		}
	}
}

// TestBodyHasMemory stores and reads bodies in pieces with the memory of a call: each has that of one body, from its first piece to its last one or
// to the end of the call.
func TestBodyHasMemory(t *testing.T) {
	t.Parallel()
	const size = 2 * wire.MaxBodyPiece
	p := memory.NewPool(2*size, 2*size)
	free := func(what string, want bool) {
		t.Helper()
		all := p.Account("all", time.Nanosecond)
		defer all.Close()
		if err := memory.Take(all.In(t.Context()), 2*size); (err == nil) != want {
			t.Errorf("%s: got %v, want everything free %t", what, err, want)
		}
	}
	call := p.Account("call", 0)
	ctx := call.In(t.Context())
	pieces := piecesOf(bytes.Repeat([]byte("a"), size))
	var bodies Bodies
	for range 5 { // each begins again
		if _, err := bodies.add(ctx, pieces[0]); err != nil {
			t.Fatal(err)
		}
	}
	free("a half of a body", false)
	if whole, err := bodies.add(ctx, pieces[1]); err != nil || len(whole) != size {
		t.Fatalf("the last piece: got %d bytes, %v", len(whole), err)
	}
	free("a whole body", true)
	if err := bodies.keep(ctx, "p", make([]byte, size)); err != nil || bodies.kept("p") == nil {
		t.Fatalf("a body that is read: got %v", err)
	}
	if _, err := bodies.add(ctx, pieces[0]); err != nil {
		t.Fatal(err)
	}
	large := *pieces[0]
	if large.Size++; !errors.Is(errOf(bodies.add(ctx, &large)), api.ErrMemory) {
		t.Error("more than the call may have: it was taken")
	}
	bodies.Close()
	free("after the call", true)
}

func errOf(_ []byte, err error) error { return err }

// TestBodyRefused adds pieces against each limit. None leaves a body.
func TestBodyRefused(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(p *wire.BodyPiece){
		"size":   func(p *wire.BodyPiece) { p.Size = wire.MaxBodyBytes + 1 },
		"data":   func(p *wire.BodyPiece) { p.Data = make([]byte, wire.MaxBodyPiece+1) },
		"digest": func(p *wire.BodyPiece) { p.Data = []byte("x") },
		"offset": func(p *wire.BodyPiece) { p.Offset = -1 },
	} {
		piece := piecesOf([]byte("a"))[0]
		change(piece)
		whole, err := new(Bodies).add(t.Context(), piece)
		if wrong, ok := errors.AsType[*events.FieldError](err); whole != nil || !ok || wrong.Field != field {
			t.Errorf("%s: got %d bytes, %v, want the field refused", field, len(whole), err)
		}
	}
	long := piecesOf([]byte("ab"))[0]
	long.Size = 1
	if whole, err := new(Bodies).add(t.Context(), long); whole != nil || err == nil {
		t.Errorf("more than the size: got %d bytes, %v, want it refused", len(whole), err)
	}
}

// TestBodyIsKeptWhileItIsRead reads a body in pieces: after the last one, the call has nothing of it any more.
func TestBodyIsKeptWhileItIsRead(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	host, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.Create(t.Context(), api.CreateRequest{ID: "s"}); err != nil {
		t.Fatal(err)
	}
	ref, err := host.StoreBlob(t.Context(), "s", make([]byte, wire.MaxBodyPiece+1))
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(Config{Service: host}, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	call := &Call{CallID: wire.CallID{Session: "s", Call: "t/0/0"}, Plugin: &setting.Plugin{Name: "notes", Callbacks: []string{operation.ReadBlob.ID}}, Bodies: new(Bodies)}
	path := "/v1/sessions/s/blobs/" + ref.Digest
	for _, offset := range []int{0, wire.MaxBodyPiece} {
		keeps := offset == 0
		answer := a.Perform(t.Context(), call, &wire.Callback{ID: fmt.Sprint("c", offset), Method: http.MethodGet, Path: fmt.Sprint(path, "?offset=", offset)})
		if kept := call.Bodies.kept(path) != nil; answer.Status != http.StatusOK || kept != keeps {
			t.Errorf("at %d: got %d, and a body is kept: %t, want %t", offset, answer.Status, kept, keeps)
		}
	}
}
