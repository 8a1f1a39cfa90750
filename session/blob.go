package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/operation"
)

// StoreBlob implements [api.Bodies].
func (h *Host) StoreBlob(ctx context.Context, id events.SessionID, body []byte) (ref events.BlobRef, err error) {
	ctx, asked := api.TakeAsked(ctx)
	if len(body) == 0 {
		return ref, &events.FieldError{Field: "body", Reason: "is empty", Err: events.ErrInvalid}
	}
	if id == "" {
		return h.b.PutBlob(ctx, body)
	}
	s, err := h.State(ctx, id) // before anything is stored for a caller that may not
	if err == nil {
		err = open(s)
	}
	if err != nil {
		return ref, err
	}
	if ref, err = h.b.PutBlob(ctx, body); err != nil {
		return ref, fmt.Errorf("store body in session %s: %w", id, err)
	}
	stored := &events.BodyStored{Blob: ref, By: h.stamp("", asked).actor.ID}
	return ref, h.decideAsked(ctx, id, command{operation.PutBlob.Name, "store body", &ref}, asked, func(s *projector.State) ([]events.Event, error) {
		return []events.Event{events.Of("", stored)}, open(s)
	})
}

// FindBlobs implements [api.Bodies]. What merely says the digest, as the text of a message, names nothing.
func (h *Host) FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error) {
	if len(digests) > api.MaxDigests {
		return nil, &events.FieldError{Field: "digests", Reason: fmt.Sprintf("name %d bodies, limit is %d", len(digests), api.MaxDigests), Err: events.ErrTooLarge}
	}
	return h.findBlobs(ctx, id, digests)
}

// findBlobs is FindBlobs of any number.
func (h *Host) findBlobs(ctx context.Context, id events.SessionID, digests []string) ([]events.BlobRef, error) {
	look := search{found: make(map[string]events.BlobRef, len(digests))}
	for _, digest := range digests {
		if err := events.CheckDigest("digest", digest); err != nil {
			return nil, err
		}
		look.found[digest] = events.BlobRef{}
	}
	look.left = len(look.found)
	s, err := h.State(ctx, id)
	if err != nil {
		return nil, err
	}
	nodes, err := s.AllNodes()
	if err != nil {
		return nil, err
	}
	look.take(blob.RefsIn(s.Head))
	for i := 0; i < len(nodes) && look.left > 0; i++ {
		look.take(blob.RefsIn(nodes[i]))
	}
	if err := h.searchLog(ctx, id, &look); err != nil {
		return nil, fmt.Errorf("find body: %w", err)
	}
	refs := make([]events.BlobRef, len(digests))
	for i, digest := range digests {
		if refs[i] = look.found[digest]; refs[i].IsZero() {
			return nil, fmt.Errorf("body %s of session %s: %w", digest, id, api.ErrUnknownBlob)
		}
	}
	return refs, nil
}

// search looks for references by their digests.
type search struct {
	found map[string]events.BlobRef // zero where it was not found yet
	left  int
}

// take finds what is wanted among references. Of one digest the first counts.
func (f *search) take(refs []events.BlobRef) {
	for _, ref := range refs {
		if have, wanted := f.found[ref.Digest]; wanted && have.IsZero() {
			f.found[ref.Digest] = ref
			f.left--
		}
	}
}

// searchLog looks through a history, once, while something is wanted.
func (h *Host) searchLog(ctx context.Context, id events.SessionID, look *search) error {
	if look.left == 0 {
		return nil
	}
	for entry, err := range h.log.Read(ctx, id, 1) {
		if err != nil {
			return err
		}
		if !look.mayBeIn(entry.Data) {
			continue
		}
		for i := range entry.Commit.Events {
			if look.take(blob.Refs(entry.Commit.Events[i].Payload)); look.left == 0 {
				return nil
			}
		}
	}
	return nil
}

// mayBeIn is false for a commit that names nothing that is wanted. Where much is wanted the commit itself is looked at.
func (f *search) mayBeIn(data []byte) bool {
	if f.left > 4 {
		return true
	}
	for digest, have := range f.found {
		if have.IsZero() && bytes.Contains(data, []byte(digest)) {
			return true
		}
	}
	return false
}

// ReadBlob implements [api.Bodies].
func (h *Host) ReadBlob(ctx context.Context, id events.SessionID, digest string) ([]byte, error) {
	refs, err := h.FindBlobs(ctx, id, digest)
	if err != nil {
		return nil, err
	}
	body, err := h.b.Blob(ctx, refs[0])
	if errors.Is(err, bus.ErrNotFound) {
		err = fmt.Errorf("body %s of session %s is gone: %w", digest, id, api.ErrUnknownBlob)
	}
	return body, err
}
