package api

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
)

// ErrUnknownBlob is a body that the session's history does not name, or that is gone.
var ErrUnknownBlob = errors.New("the session's history names no such body")

// MaxDigests is how many bodies one request may name, counted as often as they are named.
const MaxDigests = 4096

// Bodies keeps bodies outside of histories, up to [events.MaxBlobBytes]. A body
// has no owner: whoever may read a session whose history names it may read it,
// and nobody else. Finding one costs a look at the fold; what that does not
// name, as the whole output behind a shortened one or a body that no message
// refers to yet, a read of the history.
type Bodies interface {
	// StoreBlob stores a body and says so in the session's history, for parts of
	// messages that refer to it; without a session no history names it yet. Over
	// NATS it has to fit a request. Errors:
	// [*events.FieldError], which is [events.ErrTooLarge] above the limit; [ErrClosed].
	StoreBlob(ctx context.Context, id events.SessionID, body []byte) (events.BlobRef, error)
	// FindBlobs are the references with which the session's history names digests, in their order. It reads the
	// history once, whatever their number. Errors: [ErrUnknownBlob] where it does not name one of them,
	// [*events.FieldError] for more than [MaxDigests].
	FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error)
	// ReadBlob gives the body of what FindBlobs finds, checked against its digest. Errors: [ErrUnknownBlob].
	ReadBlob(ctx context.Context, id events.SessionID, digest string) ([]byte, error)
}
