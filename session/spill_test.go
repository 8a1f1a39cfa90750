package session_test

import (
	"bytes"
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/session"
)

func (b bodies) PutBlob(_ context.Context, body []byte) (events.BlobRef, error) {
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
				spilled, err := session.SpillAbove(t.Context(), bodies{}, p, 0, 0)
				if err != nil {
					rt.Fatal(err)
				}
				if left := session.BodyBytes(spilled); left > 0 {
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
