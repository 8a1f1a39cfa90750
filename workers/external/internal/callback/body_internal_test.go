package callback

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
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
		whole, err := bodies.add(c.piece)
		if !bytes.Equal(whole, c.whole) || !errors.Is(err, c.err) {
			t.Fatalf("piece %d: got %d bytes, %v, want %d bytes, %v", i, len(whole), err, len(c.whole), c.err)
		}
	}
}

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
		whole, err := new(Bodies).add(piece)
		if wrong, ok := errors.AsType[*events.FieldError](err); whole != nil || !ok || wrong.Field != field {
			t.Errorf("%s: got %d bytes, %v, want the field refused", field, len(whole), err)
		}
	}
	long := piecesOf([]byte("ab"))[0]
	long.Size = 1
	if whole, err := new(Bodies).add(long); whole != nil || err == nil {
		t.Errorf("more than the size: got %d bytes, %v, want it refused", len(whole), err)
	}
}
