package api

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
)

// ErrUnknownBlob reports a body that the session's history does not name, or that was deleted.
var ErrUnknownBlob = errors.New("the session's history names no such body")

// MaxDigests is the number of digests that one request may have, repeats included.
const MaxDigests = 4096

// Bodies stores bodies outside of histories, of at most [events.MaxBlobBytes] bytes each. A body has no owner:
// exactly the callers that may read a session whose history names the body may read it. Most references are found in
// the folded state. Others need a read of the history, for example the full output behind a shortened one, or a body
// that no message refers to yet.
type Bodies interface {
	BodyReader

	// StoreBlob stores a body and records it in the session's history, for message parts that refer to it. Without a
	// session no history names it yet. Over NATS the body must fit in a request. Errors: [*events.FieldError], which
	// is [events.ErrTooLarge] above the limit; [ErrClosed].
	StoreBlob(ctx context.Context, id events.SessionID, body []byte) (events.BlobRef, error)
}

// BodyReader finds and reads bodies of sessions.
type BodyReader interface {
	// FindBlobs returns the references with which the session's history names digests, in their order. It reads the
	// history at most once. Errors: [ErrUnknownBlob] where the history does not name one of them,
	// [*events.FieldError] for more than [MaxDigests].
	FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error)
	// ReadBlob returns a body that FindBlobs finds, checked against its digest. Errors: [ErrUnknownBlob].
	ReadBlob(ctx context.Context, id events.SessionID, digest string) ([]byte, error)
}
