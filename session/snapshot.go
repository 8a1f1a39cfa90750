package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// RestoreSnapshot builds a complete state from a snapshot's head and segments. Segments of the snapshot's session as it is now may be left
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

// attach completes a state from the segments in the request, and from those that the state's session has. It stores the segments of the request,
// because a copy of the state refers to them.
func (h *Host) attach(ctx context.Context, s *projector.State, segments [][]byte) error {
	provided := make(map[events.BlobRef][]byte, len(segments))
	for _, data := range segments {
		provided[projector.RefOf(data)] = data
	}
	return follow.Complete(ctx, &segmentStore{Bus: h.b, given: provided, state: func(ctx context.Context) (*projector.State, error) {
		return h.State(api.WithSession(api.WithNeeds(ctx, api.RightRead), s.Session), s.Session)
	}}, s)
}

// segmentStore are the segments of a request and those of a session: no other body becomes a part of a copy by its digest, nor what was redacted
// since. It stores a segment of the request when it is read.
type segmentStore struct {
	*bus.Bus
	given  map[events.BlobRef][]byte // and those of the session that no snapshot of it has stored
	state  func(context.Context) (*projector.State, error)
	listed []events.BlobRef
}

func (b *segmentStore) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if b.given[ref] == nil && b.listed == nil {
		if err := b.list(ctx); err != nil {
			return nil, err
		}
	}
	if data, ok := b.given[ref]; ok {
		_, err := b.PutBlob(ctx, data)
		return data, err
	}
	if !slices.Contains(b.listed, ref) {
		return nil, fmt.Errorf("segment %s is neither in the request nor one of the session", ref.Digest)
	}
	return b.Bus.Blob(ctx, ref)
}

// list lists the segments of the session.
func (b *segmentStore) list(ctx context.Context) error {
	now, err := b.state(ctx)
	if err != nil {
		return err
	}
	_, fresh, err := now.Snapshot()
	if err != nil {
		return err
	}
	for _, seg := range fresh {
		b.given[seg.Ref] = seg.Data
	}
	b.listed, err = now.SnapshotBodies()
	return err
}
