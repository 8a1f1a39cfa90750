package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/lash-go/lash/events"
)

// Errors of the bus. Errors of histories are in package events.
var (
	// ErrNotFound is a key, blob, message or consumer that does not exist.
	ErrNotFound = errors.New("not found")
	// ErrFull is a new or a cold session for whose stream the account has no capacity.
	ErrFull = errors.New("no room for another hot session")
	// ErrStale is a row or entry of which another process wrote a newer version.
	ErrStale = errors.New("a newer version was written")
	// ErrRedacted is an append to a session whose archive was redacted.
	ErrRedacted = errors.New("the session was redacted: it can be read, and not continued; fork it before the redaction")
	// ErrErasing reports a session that is being erased, and takes no commits. An archiver finishes the erasure, or a repeated request does.
	ErrErasing = errors.New("the erasure of the session has begun: erase it again")
	// ErrNoResponder is a request that no node, or not the named worker or instance, received: it was not done.
	ErrNoResponder = errors.New("no node answers")
	// ErrInbox is a user without the right to subscribe to [Config.Inbox]: no answer would arrive.
	ErrInbox = errors.New("no permission to subscribe to the inbox")
)

// Unwrap returns the [events.LostError] by which packages that do not know the bus recognize the error.
func (e *CutOffError) Unwrap() error {
	return &events.LostError{Session: e.Session, From: e.Last + 1, To: e.Known}
}

// errHasStream is a session that already has a stream, sealed or of another name.
var errHasStream = errors.New("the session has a stream already")

// isUnknown reports whether the outcome of a request is unknown.
func isUnknown(err error) bool { return errors.Is(err, events.ErrOutcomeUnknown) }

// isNoResponder reports whether a message had no responder. For a request to a server the outcome is
// [events.ErrOutcomeUnknown], as a server without a leader does not respond. For a request to a worker the worker is
// gone.
func isNoResponder(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// isNoAsset reports whether a stream or bucket does not exist.
func isNoAsset(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound)
}

// isMissing reports whether a message does not exist.
func isMissing(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeMessageNotFound || api.ErrorCode == codeSequenceGone || api.ErrorCode == codeDeleteFailed)
}

// isForbidden reports whether the server refused a subject to the user.
func isForbidden(err error) bool { return errors.Is(err, nats.ErrPermissionViolation) }

// isOffline reports whether a stream exists only on servers that are away.
func isOffline(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == codeOffline
}

// Codes of the server that the client library has no name for.
const (
	codeSealed       jetstream.ErrorCode = 10109
	codeSequenceGone jetstream.ErrorCode = 10043
	codeDeleteFailed jetstream.ErrorCode = 10057
	codeOverlap      jetstream.ErrorCode = 10065
	codeUnavailable  jetstream.ErrorCode = 10008
	codeNoLeader     jetstream.ErrorCode = 10009
	codeAccountFull  jetstream.ErrorCode = 10002
	codeInsufficient jetstream.ErrorCode = 10023
	codeStorageFull  jetstream.ErrorCode = 10047
	codeMaxStreams   jetstream.ErrorCode = 10027
	codeOffline      jetstream.ErrorCode = 10118
	// Also returned while a stream of that name is being removed.
	codeStoreFailed    jetstream.ErrorCode = 10049
	codeUpdateFailed   jetstream.ErrorCode = 10069
	codeClusterNoPeers jetstream.ErrorCode = 10005
	// codeInProcess is a repeated publish on which the replicas have not agreed yet.
	codeInProcess jetstream.ErrorCode = 10158
)

// isAnswer reports whether an error, or nil, is an answer of the servers. A timeout is none, and neither is the error
// of a server that has lost the others.
func isAnswer(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.ErrorCode != codeUnavailable && api.ErrorCode != codeNoLeader
	}
	return !isUnknown(mapError(err))
}

// mapError maps the errors of requests: those of the client and of the server. [Bus.onceWithin], and everything built on
// it, returns mapped errors. Package connect and waiting.go distinguish the errors of connecting.
func mapError(err error) error {
	if err == nil {
		return nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return mapCode(api, err)
	}
	switch {
	case isNoResponder(err), errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrStaleConnection), errors.Is(err, jetstream.ErrNoHeartbeat),
		errors.As(err, new(*net.OpError)), errors.Is(err, io.ErrClosedPipe): // a connection broke in the middle of a write, and is made again
		return fmt.Errorf("%w: %w", events.ErrOutcomeUnknown, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", events.ErrTooLarge, err)
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrObjectNotFound), errors.Is(err, jetstream.ErrNameRequired), errors.Is(err, jetstream.ErrKeyDeleted),
		errors.Is(err, jetstream.ErrNoObjectsFound), errors.Is(err, jetstreamext.ErrNoMessages):
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}

func mapCode(api *jetstream.APIError, err error) error {
	switch api.ErrorCode {
	case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
		return fmt.Errorf("%w: %w", events.ErrMoved, err)
	case codeSealed:
		return fmt.Errorf("%w: %w", events.ErrSealed, err)
	case codeOverlap, jetstream.JSErrCodeStreamNameInUse:
		return fmt.Errorf("%w: %w", errHasStream, err)
	case jetstream.JSErrCodeStreamNotFound:
		return fmt.Errorf("%w: %w", events.ErrNoSession, err)
	case codeAccountFull, codeInsufficient, codeStorageFull:
		return fmt.Errorf("%w: %w", events.ErrStorage, err)
	case codeMaxStreams:
		return fmt.Errorf("%w: %w", ErrFull, err)
	case jetstream.JSErrCodeMessageNotFound, jetstream.JSErrCodeConsumerNotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case jetstream.JSErrCodeStreamMessageExceedsMaximum:
		return fmt.Errorf("%w: %w", events.ErrTooLarge, err)
	case codeUnavailable, codeNoLeader, codeClusterNoPeers, codeStoreFailed, codeUpdateFailed, codeInProcess:
		return fmt.Errorf("%w: %w", events.ErrOutcomeUnknown, err)
	default:
		return err
	}
}
