package bus_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestDropBlob removes a listed blob, but not one that was stored again since.
func TestDropBlob(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	old, err := b.PutBlob(t.Context(), []byte("old"))
	runtest.NoError(t, err)
	kept, err := b.PutBlob(t.Context(), bytes.Repeat([]byte("kept"), 100000))
	runtest.NoError(t, err)
	list, err := b.Blobs(t.Context())
	if err != nil || len(list) != 2 {
		t.Fatalf("blobs: got %v, %v, want two", list, err)
	}
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	store, err := js.ObjectStore(t.Context(), "lash-blobs")
	runtest.NoError(t, err)
	if _, err := store.PutBytes(t.Context(), old.Digest, []byte("old")); err != nil { // a writer needs the body again
		t.Fatal(err)
	}
	for _, blob := range list {
		runtest.NoError(t, b.DropBlob(t.Context(), blob))
	}
	if body, err := b.Blob(t.Context(), old); err != nil || string(body) != "old" {
		t.Errorf("blob that was stored again: got %q, %v", body, err)
	}
	if _, err := b.Blob(t.Context(), kept); err == nil {
		t.Error("blob that was listed: got its body, want none")
	}
	if list, err = b.Blobs(t.Context()); err != nil || len(list) != 1 || list[0].Digest != old.Digest {
		t.Errorf("blobs: got %v, %v, want the one that was stored again", list, err)
	}
	runtest.NoError(t, b.DropBlob(t.Context(), list[0]))
	runtest.WantError(t, "drop again", b.DropBlob(t.Context(), list[0]), nil)
	runtest.EqualLists(t, "what is left", remainingSubjects(t, b), nil)
}

// TestBlobChunks lists the chunks of a blob without a description.
func TestBlobChunks(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	_, err = js.Publish(t.Context(), "$O.lash-blobs.C.halfway", []byte("piece"))
	runtest.NoError(t, err)
	list, err := b.Blobs(t.Context())
	if err != nil || len(list) != 1 || list[0].Digest != "" {
		t.Fatalf("blobs: got %v, %v, want chunks without a name", list, err)
	}
	runtest.NoError(t, b.DropBlob(t.Context(), list[0]))
	runtest.EqualLists(t, "what is left", remainingSubjects(t, b), nil)
}

// TestBlobMentions yields hot and cold histories, and archives in blobs.
func TestBlobMentions(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	appendUpTo(t, b, "hot", nil, 1)
	for n := range 8 {
		_, err := b.Log().Append(t.Context(), largeCommit("cold", n), events.Seq(n))
		runtest.NoError(t, err)
	}
	mustMakeCold(t, b, "cold", 8)
	stored, err := b.Blobs(t.Context())
	if err != nil || len(stored) != 1 {
		t.Fatalf("blobs: got %v, %v, want the archive", stored, err)
	}
	var got [][]byte
	for data, err := range b.BlobMentions(t.Context()) {
		runtest.NoError(t, err)
		got = append(got, data.Data...)
	}
	hot, err := events.Encode(commit("hot", 1))
	runtest.NoError(t, err)
	for _, want := range [][]byte{hot, []byte(stored[0].Digest)} {
		if !slices.ContainsFunc(got, func(data []byte) bool { return bytes.Equal(data, want) }) {
			t.Errorf("mentions: got none of %.20q", want)
		}
	}
	runtest.Equal(t, "mentions", len(got), 1+1+8)
}
