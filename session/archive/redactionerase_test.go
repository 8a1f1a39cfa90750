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
	"github.com/lash-go/lash/internal/runtest"
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

// TestLongErasedUnderRedaction erases a session at each request of a redaction of it, the first one or a repeated one. The redaction is made, or
// the error says that the session is erased, or moved.
func TestLongErasedUnderRedaction(t *testing.T) {
	t.Parallel()
	for name, repeated := range map[string]bool{"first": false, "repeated": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			b := bustest.Open(t, server)
			on := bustest.OpenInterrupted(t, server)
			erased := 0
			for k, done := 1, true; done; k++ {
				id := events.SessionID(fmt.Sprint("s-", k))
				closed(t, b, id, secretHistory(""))
				if repeated {
					_, err := archive.Redact(t.Context(), b, id, record(contents...), nil)
					runtest.NoError(t, err)
				}
				var err error
				done = on.At(k, func() {
					_, err := follow.Erase(t.Context(), b, id, nil, bus.Tombstone{At: 1, By: "ann", Reason: "asked to"}, nil)
					runtest.WantError(t, "erase", err, nil)
				}, func() {
					_, err = archive.Redact(t.Context(), on.Bus, id, record(contents...), nil)
				})
				switch {
				case errors.As(err, new(*events.ErasedError)), errors.Is(err, bus.ErrErasing), errors.Is(err, bus.ErrStale):
					erased++
				case err != nil:
					t.Errorf("erased before write %d: got %v, want that the session is erased", k, err)
				}
			}
			if erased < 5 {
				t.Errorf("the redaction of %d erased sessions failed, want more", erased)
			}
		})
	}
}
