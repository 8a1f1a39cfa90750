package bus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

func TestMapError(t *testing.T) {
	t.Parallel()
	code := func(c jetstream.ErrorCode) error { return &jetstream.APIError{ErrorCode: c, Description: "scripted"} }
	unknown := errors.New("unheard of")
	all := []error{
		events.ErrMoved, events.ErrSealed, events.ErrNoSession, events.ErrTooLarge, events.ErrOutcomeUnknown, events.ErrStorage, ErrNotFound, ErrFull,
	}
	for _, tc := range []struct {
		err, want error // want nil: no error of this package
	}{
		{code(10071), events.ErrMoved},
		{code(10164), events.ErrMoved},
		{code(10109), events.ErrSealed},
		{code(10059), events.ErrNoSession},
		{code(10077), nil},
		{code(10027), ErrFull},
		{code(10037), ErrNotFound},
		{code(10014), ErrNotFound},
		{code(10054), events.ErrTooLarge},
		{code(10008), events.ErrOutcomeUnknown},
		{code(10009), events.ErrOutcomeUnknown},
		{code(10005), events.ErrOutcomeUnknown},
		{code(10002), events.ErrStorage},
		{code(10023), events.ErrStorage},
		{code(10047), events.ErrStorage},
		{code(10158), events.ErrOutcomeUnknown},
		{code(10065), nil},
		{nats.ErrNoResponders, events.ErrOutcomeUnknown},
		{jetstream.ErrNoStreamResponse, events.ErrOutcomeUnknown},
		{nats.ErrTimeout, events.ErrOutcomeUnknown},
		{context.DeadlineExceeded, events.ErrOutcomeUnknown},
		{context.Canceled, events.ErrOutcomeUnknown},
		{nats.ErrConnectionReconnecting, events.ErrOutcomeUnknown},
		{nats.ErrDisconnected, events.ErrOutcomeUnknown},
		{nats.ErrReconnectBufExceeded, events.ErrOutcomeUnknown},
		{nats.ErrStaleConnection, events.ErrOutcomeUnknown},
		{&net.OpError{Op: "write", Err: syscall.ECONNRESET}, events.ErrOutcomeUnknown},
		{io.ErrClosedPipe, events.ErrOutcomeUnknown},
		{nats.ErrConnectionClosed, nil},
		{nats.ErrMaxPayload, events.ErrTooLarge},
		{jetstream.ErrKeyNotFound, ErrNotFound},
		{jetstream.ErrKeyDeleted, ErrNotFound},
		{jetstream.ErrObjectNotFound, ErrNotFound},
		{jetstream.ErrNameRequired, ErrNotFound}, // the empty digest, which no body has
		{jetstream.ErrMsgNotFound, ErrNotFound},
		{jetstream.ErrNoObjectsFound, ErrNotFound},
		{jetstreamext.ErrNoMessages, ErrNotFound},
		{jetstream.ErrKeyExists, events.ErrMoved},
		{unknown, nil},
	} {
		wrapped := fmt.Errorf("deep down: %w", tc.err)
		got := mapError(wrapped)
		runtest.WantError(t, fmt.Sprintf("%v", tc.err), got, tc.err)
		for _, sentinel := range all {
			if errors.Is(got, sentinel) != (sentinel == tc.want) { //nolint:errorlint // compares the table's own values
				t.Errorf("%v: is %v: got %v", tc.err, sentinel, errors.Is(got, sentinel))
			}
		}
	}
	runtest.WantError(t, "nil", mapError(nil), nil)
}
