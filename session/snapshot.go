package session

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
)

// RestoreSnapshot makes a state whole from a snapshot's head and segments, of
// which those that are in blobs may be left out. Only callers with the right
// to configure may have it done. Errors: an [*events.FieldError] of snapshot.
func (h *Host) RestoreSnapshot(ctx context.Context, head []byte, segments [][]byte) (*projector.State, error) {
	if err := api.Configuring(ctx, "snapshot"); err != nil { // before the work that it makes
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
		err = h.shown(ctx, s)
	}
	if err != nil {
		return nil, &events.FieldError{Field: "snapshot", Reason: err.Error(), Err: events.ErrInvalid}
	}
	return s, nil
}

// shown holds a caller that is bounded to its own sessions to the bodies that it
// may read: a session that begins with the snapshot names all that the snapshot
// names, and so gives it to its owner. They are those that the history names of which it is a snapshot.
func (h *Host) shown(ctx context.Context, s *projector.State) error {
	if caller, ok := api.CallerOf(ctx); !ok || !caller.Own {
		return nil
	}
	nodes, err := s.AllNodes()
	if err != nil {
		return err
	}
	var digests []string
	for _, ref := range blob.RefsIn(s.Frames, nodes) {
		digests = append(digests, ref.Digest)
	}
	if len(digests) > 0 { // as many as a session has
		_, err = h.reader.FindAnyBlobs(api.Naming(api.Needing(ctx, api.RightRead), s.Session), s.Session, digests)
	}
	return err
}

// attach completes a state from the segments that came with it and from blobs. Those that came are
// stored: a copy of the state names them.
func (h *Host) attach(ctx context.Context, s *projector.State, segments [][]byte) error {
	came := make(map[events.BlobRef][]byte, len(segments))
	for _, data := range segments {
		came[projector.RefOf(data)] = data
	}
	return follow.Complete(ctx, blobsBeside{h.b, came}, s)
}

// blobsBeside are those that came with a request, which it stores when they are asked for, and those that are stored.
type blobsBeside struct {
	*bus.Bus
	came map[events.BlobRef][]byte
}

func (b blobsBeside) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if data, ok := b.came[ref]; ok {
		_, err := b.PutBlob(ctx, data)
		return data, err
	}
	return b.Bus.Blob(ctx, ref)
}
