package session

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// RestoreSnapshot builds a complete state from a snapshot's head and segments. Segments that are in blobs may be left
// out. It needs the right to configure. Errors: an [*events.FieldError] of snapshot.
func (h *Host) RestoreSnapshot(ctx context.Context, head []byte, segments [][]byte) (*projector.State, error) {
	if err := api.Configuring(ctx, "snapshot"); err != nil { // first, because the rest is expensive
		return nil, err
	}
	s, err := projector.Restore(head)
	if err == nil {
		err = events.CheckToken("session", s.Session)
	}
	if err == nil {
		err = h.attach(ctx, s, segments)
	}
	if err == nil {
		err = h.checkBodies(ctx, s)
	}
	if err != nil {
		return nil, &events.FieldError{Field: "snapshot", Reason: err.Error(), Err: events.ErrInvalid}
	}
	return s, nil
}

// checkBodies limits a bounded caller ([api.Caller.Bounded]) to the bodies that it may read. A session that starts
// from the snapshot refers to all bodies of the snapshot, and so lets its owner read them. Allowed are the bodies
// that the history of the snapshot's session names.
func (h *Host) checkBodies(ctx context.Context, s *projector.State) error {
	if caller, ok := api.CallerOf(ctx); !ok || !caller.Bounded() {
		return nil
	}
	nodes, err := s.AllNodes()
	if err != nil {
		return err
	}
	var digests []string
	for _, ref := range events.RefsIn(s.Frames, nodes, s.Plugins, s.Catalog.Tools, s.Overlay.Tools) {
		digests = append(digests, ref.Digest)
	}
	if len(digests) > 0 { // as many as a session has
		_, err = h.reader.FindAnyBlobs(api.WithSession(api.WithNeeds(ctx, api.RightRead), s.Session), s.Session, digests)
	}
	return err
}

// attach completes a state from the segments in the request and from blobs. It stores the segments of the request,
// because a copy of the state refers to them.
func (h *Host) attach(ctx context.Context, s *projector.State, segments [][]byte) error {
	provided := make(map[events.BlobRef][]byte, len(segments))
	for _, data := range segments {
		provided[projector.RefOf(data)] = data
	}
	return follow.Complete(ctx, segmentStore{h.b, provided}, s)
}

// segmentStore are the segments of a request and the stored blobs. It stores a segment of the request when it is read.
type segmentStore struct {
	*bus.Bus
	segments map[events.BlobRef][]byte
}

func (b segmentStore) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if data, ok := b.segments[ref]; ok {
		_, err := b.PutBlob(ctx, data)
		return data, err
	}
	return b.Bus.Blob(ctx, ref)
}
