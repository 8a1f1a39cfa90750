package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
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

// FindBlob implements [api.Bodies]. What merely says the digest, as the text of a message, names nothing.
func (h *Host) FindBlob(ctx context.Context, id events.SessionID, digest string) (ref events.BlobRef, err error) {
	if err := events.CheckDigest("digest", digest); err != nil {
		return ref, err
	}
	s, err := h.State(ctx, id)
	if err != nil {
		return ref, err
	}
	nodes, err := s.AllNodes()
	if err != nil {
		return ref, err
	}
	if ref, found := withDigest(blobRefs(nil, reflect.ValueOf(s.Head)), digest); found {
		return ref, nil
	}
	for _, n := range nodes {
		if ref, found := withDigest(blobRefs(nil, reflect.ValueOf(n)), digest); found {
			return ref, nil
		}
	}
	for entry, err := range h.log.Read(ctx, id, 1) {
		if err != nil {
			return ref, fmt.Errorf("find body: %w", err)
		}
		if !bytes.Contains(entry.Data, []byte(digest)) {
			continue
		}
		for i := range entry.Commit.Events {
			if ref, found := withDigest(BlobRefs(entry.Commit.Events[i].Payload), digest); found {
				return ref, nil
			}
		}
	}
	return ref, fmt.Errorf("body %s of session %s: %w", digest, id, api.ErrUnknownBlob)
}

// ReadBlob implements [api.Bodies].
func (h *Host) ReadBlob(ctx context.Context, id events.SessionID, digest string) ([]byte, error) {
	ref, err := h.FindBlob(ctx, id, digest)
	if err != nil {
		return nil, err
	}
	body, err := h.b.Blob(ctx, ref)
	if errors.Is(err, bus.ErrNotFound) {
		err = fmt.Errorf("body %s of session %s is gone: %w", digest, id, api.ErrUnknownBlob)
	}
	return body, err
}

// withDigest finds a digest among references.
func withDigest(refs []events.BlobRef, digest string) (ref events.BlobRef, found bool) {
	i := slices.IndexFunc(refs, func(r events.BlobRef) bool { return r.Digest == digest })
	if i < 0 {
		return ref, false
	}
	return refs[i], true
}
