package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// bodies stores and reads bodies by requests of a call, one at a time: the node has one body in pieces.
type bodies struct {
	path    string // of the session's bodies
	request plugin.RequestFunc
	one     chan struct{} // full while a body is stored or read
}

func newBodies(session events.SessionID, request plugin.RequestFunc) *bodies {
	return &bodies{path: "/v1/sessions/" + string(session) + "/blobs", request: request, one: make(chan struct{}, 1)}
}

const (
	bodyPause = 200 * time.Millisecond // before a request that a limit in time refused is sent again
	bodyTries = 10                     // to store a body whose pieces nodes lost
)

// StoreBody implements [plugin.BodyHost].
func (b *bodies) StoreBody(ctx context.Context, body []byte) (ref events.BlobRef, err error) {
	if len(body) == 0 || len(body) > wire.MaxBodyBytes {
		return ref, &events.FieldError{Field: "body", Reason: fmt.Sprintf("has %d bytes, want 1 to %d", len(body), wire.MaxBodyBytes), Err: events.ErrTooLarge}
	}
	done, err := b.begin(ctx)
	if err != nil {
		return ref, err
	}
	defer done()
	sum := sha256.Sum256(body)
	piece := wire.BodyPiece{Digest: hex.EncodeToString(sum[:]), Size: int64(len(body))}
	for tries := 1; ; {
		piece.Data = body[piece.Offset:min(piece.Offset+wire.MaxBodyPiece, piece.Size)]
		status, answer, err := b.send(ctx, http.MethodPost, b.path, &piece)
		switch {
		case err != nil:
			return ref, err
		case status == http.StatusCreated:
			return events.BlobRef{Digest: piece.Digest, Size: piece.Size}, nil
		case status == http.StatusConflict && piece.Offset > 0 && tries < bodyTries: // another node has the call
			piece.Offset = 0
			tries++
		case status == http.StatusAccepted:
			piece.Offset += int64(len(piece.Data))
		default:
			return ref, refused("store", status, answer)
		}
	}
}

// ReadBody implements [plugin.BodyHost].
func (b *bodies) ReadBody(ctx context.Context, digest string) (body []byte, err error) {
	if err := events.CheckDigest("digest", digest); err != nil {
		return nil, err
	}
	done, err := b.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	for {
		status, answer, err := b.send(ctx, http.MethodGet, fmt.Sprintf("%s/%s?offset=%d", b.path, digest, len(body)), nil)
		if err != nil {
			return nil, err
		}
		var piece wire.BodyPiece
		if status != http.StatusOK || json.Unmarshal(answer, &piece) != nil || len(piece.Data) == 0 {
			return nil, refused("read", status, answer)
		}
		if body = append(body, piece.Data...); int64(len(body)) >= piece.Size {
			return body, nil
		}
	}
}

func (b *bodies) begin(ctx context.Context) (done func(), err error) {
	select {
	case b.one <- struct{}{}:
		return func() { <-b.one }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// send sends a request until no limit in time refuses it. Its id is new: pieces are the same for every attempt of a call by their digest.
func (b *bodies) send(ctx context.Context, method, path string, piece *wire.BodyPiece) (status int, answer json.RawMessage, err error) {
	var body json.RawMessage
	if piece != nil {
		if body, err = json.Marshal(piece); err != nil {
			return 0, nil, err
		}
	}
	for {
		status, answer, err = b.request(ctx, ulid.Make().String(), method, path, body)
		if err != nil || status != http.StatusTooManyRequests && status != http.StatusGone {
			return status, answer, err
		}
		select {
		case <-time.After(bodyPause):
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		}
	}
}

// refused is the error of an answer that has no body.
func refused(what string, status int, answer json.RawMessage) error {
	var problem struct {
		Detail string `json:"detail"`
	}
	_ = json.Unmarshal(answer, &problem) // empty where it says nothing
	err := &plugin.Failure{Class: plugin.ClassExternal, Message: fmt.Sprintf("%s body: status %d: %s", what, status, problem.Detail)}
	switch status {
	case http.StatusNotFound:
		return fmt.Errorf("%s body: %s: %w", what, problem.Detail, api.ErrUnknownBlob)
	case http.StatusForbidden:
		err.Class = plugin.ClassPermissionDenied
	case http.StatusRequestEntityTooLarge, http.StatusInsufficientStorage:
		err.Class = plugin.ClassResourceLimit
	}
	return err
}
