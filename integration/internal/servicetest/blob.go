package servicetest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

var blobCases = []testCase{
	{"bodies", func(b *bench) {
		id, other := b.open(), b.open()
		body := []byte(strings.Repeat("b", 200_000))
		ref, err := b.StoreBlob(b.ctx, id, body)
		b.must("store", err, nil)
		sum := sha256.Sum256(body)
		equal(b, "reference", ref, events.BlobRef{Digest: hex.EncodeToString(sum[:]), Size: 200_000})
		node := api.AppendNode{Message: &events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Blob: ref}}}}
		for range 2 { // the first time named by the stored event, and then by a message
			got, err := b.FindBlobs(b.ctx, id, ref.Digest, ref.Digest)
			b.must("find", err, nil)
			equal(b, "found", fmt.Sprint(got), fmt.Sprint([]events.BlobRef{ref, ref}))
			read, err := b.ReadBlob(b.ctx, id, ref.Digest)
			b.must("read", err, nil)
			equal(b, "body", string(read), string(body))
			_, err = b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{node}})
			b.must("append", err, nil)
		}
		_, err = b.ReadBlob(b.ctx, other, ref.Digest)
		b.must("read in another session", err, api.ErrUnknownBlob)
		_, err = b.AppendNodes(b.ctx, other, api.AppendNodesRequest{Nodes: says("it is " + ref.Digest)})
		b.must("append", err, nil)
		_, err = b.ReadBlob(b.ctx, other, ref.Digest)
		b.must("read where a text says the digest", err, api.ErrUnknownBlob)
	}},
	{"bodies_refused", func(b *bench) {
		id := b.open()
		_, err := b.StoreBlob(b.ctx, id, nil)
		equal(b, "empty", as[*events.FieldError](b, "empty", err).Field, "body")
		for _, digest := range []string{"", "0f", strings.Repeat("0F", 32), strings.Repeat("0", 65), strings.Repeat("x", 64)} {
			_, err = b.FindBlobs(b.ctx, id, digest)
			equal(b, "find", as[*events.FieldError](b, "digest", err).Field, "digest")
		}
		unknown := strings.Repeat("0f", 32)
		_, err = b.FindBlobs(b.ctx, id, unknown)
		b.must("find", err, api.ErrUnknownBlob)
		many := slices.Repeat([]string{unknown}, api.MaxDigests+1)
		_, err = b.FindBlobs(b.ctx, id, many...)
		equal(b, "find more than may be named", as[*events.FieldError](b, "digests", err).Field, "digests")
		_, err = b.FindBlobs(b.ctx, id, many[1:]...)
		b.must("find as many as may be named", err, api.ErrUnknownBlob)
		_, err = b.FindBlobs(b.ctx, "nobody", unknown)
		b.must("find in nothing", err, events.ErrNoSession)
		_, err = b.StoreBlob(b.ctx, "nobody", []byte("x"))
		b.must("store in nothing", err, events.ErrNoSession)
		gone := []events.Part{{Kind: events.PartText, Blob: events.BlobRef{Digest: unknown, Size: 1}}}
		_, err = b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{{Message: &events.Message{Role: events.RoleUser, Parts: gone}}}})
		_, submit := b.Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: gone}})
		if b.caller != "" { // such a caller may refer only to bodies that the session's history names
			b.must("append of what it does not name", err, api.ErrUnknownBlob)
			b.must("submit of what it does not name", submit, api.ErrUnknownBlob)
		} else {
			equal(b, "append of what there is none of", as[*events.FieldError](b, "append", err).Field, "message.parts.blob")
			b.must("submit of what there is none of", submit, nil)
			ended, err := b.Await(b.ctx, id, "t1")
			b.must("await", err, nil)
			equal(b, "its end", ended.End, events.EndInvalidInput)
		}
		b.must("close", b.CloseSession(b.ctx, id, "x"), nil)
		_, err = b.StoreBlob(b.ctx, id, []byte("x"))
		b.must("store in a closed session", err, api.ErrClosed)
	}},
}
