package blob_test

import (
	"errors"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
)

// TestMissingBodyIsOfTheSession fills a state whose message names a body that does not exist: a request that needs it is
// refused with a field, and is no fault of the node.
func TestMissingBodyIsOfTheSession(t *testing.T) {
	t.Parallel()
	for _, ref := range []events.BlobRef{{Digest: "write"}, projector.RefOf([]byte("never stored"))} {
		s := projector.New("s")
		for i, p := range []events.Payload{&events.SessionOpened{}, &events.GraphAppended{Nodes: []events.NewNode{{
			ID: "n", Kind: events.NodeMessage, Message: events.Message{ID: "m", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Blob: ref}}},
		}}}} {
			c := &events.Commit{ID: events.CommitID("c"), Session: "s", At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", p)}}
			runtest.NoError(t, s.Apply(events.Entry{Seq: events.Seq(i + 1), Commit: c}))
		}
		err := blob.FillState(t.Context(), memStore{}, s)
		if field, ok := errors.AsType[*events.FieldError](err); !ok || field.Field != "session" || !errors.Is(err, bus.ErrNotFound) || !errors.Is(err, events.ErrInvalid) {
			t.Errorf("%q: got %v, want a field and %v", ref.Digest, err, bus.ErrNotFound)
		}
	}
}
