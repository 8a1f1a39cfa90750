package blob_test

import (
	"bytes"
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
)

// memStore is a store of bodies by digest.
type memStore map[string][]byte

func (b memStore) put(body string) events.BlobRef {
	ref := projector.RefOf([]byte(body))
	b[ref.Digest] = []byte(body)
	return ref
}

func (b memStore) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	if body, ok := b[ref.Digest]; ok {
		return body, nil
	}
	return nil, bus.ErrNotFound
}

func (b memStore) PutBlob(_ context.Context, body []byte) (events.BlobRef, error) {
	return b.put(string(body)), nil
}

// TestSpillCopies spills every body of every kind: the caller's payload keeps its own.
func TestSpillCopies(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				p := eventstest.Payload(kind).Draw(rt, "payload")
				before := encoded(rt, p)
				spilled, err := blob.SpillAbove(t.Context(), memStore{}, p, 0, 0)
				if err != nil {
					rt.Fatal(err)
				}
				if left := blob.Size(spilled); left > 0 {
					rt.Errorf("got %d bytes of bodies left, want none", left)
				}
				if after := encoded(rt, p); !bytes.Equal(after, before) {
					rt.Errorf("got %x after, want %x", after, before)
				}
			})
		})
	}
}

func encoded(t *rapid.T, p events.Payload) []byte {
	data, err := events.EncodePayload(p)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Every reference of an event is found.
func TestBlobRefs(t *testing.T) {
	t.Parallel()
	ref := events.BlobRef{Digest: "d", Size: 1}
	part := []events.Part{{Kind: events.PartText, Blob: ref}}
	nodes := []events.NewNode{{Blob: ref, Message: events.Message{Parts: part}}}
	for _, tc := range []struct {
		p    events.Payload
		want int
	}{
		{&events.TurnRequested{Input: events.TurnInput{Parts: part}}, 1},
		{&events.InputInjected{Parts: part}, 1},
		{&events.ModelReplied{Parts: part}, 1},
		{&events.ToolReturned{Results: []events.ToolResult{{Blob: ref, Attachments: part}}}, 2},
		{&events.GraphAppended{Nodes: nodes}, 2},
		{&events.FrameOpened{Nodes: nodes}, 2},
		{&events.SessionClosed{}, 0},
		{nil, 0},
	} {
		if got := events.Refs(tc.p); len(got) != tc.want {
			t.Errorf("%T: got %v, want %d", tc.p, got, tc.want)
		}
	}
}
