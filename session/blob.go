package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
)

// StoreBlob implements [api.Bodies].
func (h *Host) StoreBlob(ctx context.Context, id events.SessionID, body []byte) (ref events.BlobRef, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	if len(body) == 0 {
		return ref, &events.FieldError{Field: "body", Reason: "is empty", Err: events.ErrInvalid}
	}
	if id == "" {
		return h.b.PutBlob(ctx, body)
	}
	s, err := h.State(ctx, id) // checks the caller's rights before anything is stored
	if err == nil {
		err = check.Open(s)
	}
	if err != nil {
		return ref, err
	}
	if ref, err = h.b.PutBlob(ctx, body); err != nil {
		return ref, fmt.Errorf("store body in session %s: %w", id, err)
	}
	stored := &events.BodyStored{Blob: ref, By: h.actorOf(ctx, reqMeta).ID}
	return ref, h.decideByKey(ctx, id, requestContent{operation.StoreBlob.Name, "store body", &ref}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		return []events.Event{events.Of("", stored)}, errors.Join(check.Open(s), h.quota.CheckStored(ctx, s.Owner))
	})
}

// StoreBody implements [plugin.BodyHost]. The key is that of the bytes, so that a call that runs again records them once.
func (s *runtimeHost) StoreBody(ctx context.Context, body []byte) (events.BlobRef, error) {
	sum := sha256.Sum256(body)
	key := api.RequestMeta{Key: events.DerivedID("body-", hex.EncodeToString(sum[:]))}
	return s.h.StoreBlob(api.WithRequestMeta(ctx, key), s.id, body)
}

// ReadBody implements [plugin.BodyHost].
func (s *runtimeHost) ReadBody(ctx context.Context, digest string) ([]byte, error) {
	return s.h.ReadBlob(ctx, s.id, digest)
}
