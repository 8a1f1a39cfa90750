package archive_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/archive"
)

// TestRedactErased kills the erasure of a session at each request, before and after it is sent, and redacts the session then. It is redacted,
// or the error says that it is erased, or is about to be.
func TestRedactErased(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	redacted, erasing, erased := 0, 0, 0
	for k, late, done := 1, false, false; !done; k, late = k+1, !late {
		id := events.SessionID(fmt.Sprint("s-", k))
		closed(t, b, id, secretHistory(""))
		done = bustest.KilledAt(t, server, k, late, func(ctx context.Context, victim *bus.Bus) error {
			_, err := follow.Erase(ctx, victim, id, nil, bus.Tombstone{At: 1, By: "ann", Reason: "asked to"}, nil)
			return err
		})
		_, err := archive.Redact(t.Context(), b, id, record(contents...), nil)
		switch {
		case err == nil:
			redacted++
		case errors.Is(err, bus.ErrErasing):
			erasing++
		case errors.As(err, new(*events.ErasedError)):
			erased++
		default:
			t.Errorf("died at request %d, late %t: got %v, want that the session is erased", k, late, err)
		}
	}
	if redacted == 0 || erasing == 0 || erased == 0 {
		t.Errorf("got %d sessions redacted, %d whose erasure has begun, %d erased, want some of each", redacted, erasing, erased)
	}
}
