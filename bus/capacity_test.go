package bus_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestHotLimit refuses new sessions at the limit. Hot sessions take appends, a cold one becomes hot, and a session
// that becomes cold makes space for a new one.
func TestHotLimit(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	limited := func(maxHot int) *bus.Bus {
		b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, MaxHot: maxHot})
		runtest.NoError(t, err)
		t.Cleanup(b.Close)
		return b
	}
	const limit = 16 // an eighth is two
	b := limited(limit)
	opened := 0
	var err error
	for err == nil && opened < limit {
		if err = createSession(t, b, events.SessionID(fmt.Sprintf("s%d", opened))); err == nil {
			opened++
		}
	}
	if !errors.Is(err, bus.ErrFull) || opened < 4 {
		t.Fatalf("opened %d sessions, then got %v, want %v", opened, err, bus.ErrFull)
	}
	runtest.WantError(t, "on another bus", createSession(t, limited(limit), "other"), bus.ErrFull)
	_, err = b.Log().Append(t.Context(), commit("s0", 2), 1)
	runtest.WantError(t, "append to a hot session", err, nil)
	if _, err := b.Log().Append(t.Context(), commit("s0", 9), 0); !errors.As(err, new(*events.ConflictError)) {
		t.Errorf("open a session that exists: got %v, want a conflict", err)
	}
	archive := func(id events.SessionID, last events.Seq) {
		t.Helper()
		runtest.NoError(t, errors.Join(b.Archive(t.Context(), id, last), b.Discard(t.Context(), id)))
	}
	archive("s1", 1)
	fresh := limited(limit)
	runtest.WantError(t, "open where one went cold", createSession(t, fresh, "s9"), nil)
	_, err = fresh.Log().Append(t.Context(), commit("s1", 2), 1)
	runtest.WantError(t, "append to a cold session of a full account", err, nil)
	_, err = limited(1).Log().Append(t.Context(), commit("s1", 3), 2)
	runtest.WantError(t, "append to a session that is hot again", err, nil)
	archive("s1", 3)
	_, err = limited(1).Log().Append(t.Context(), commit("s1", 4), 3)
	runtest.WantError(t, "append to a cold session where there is no room at all", err, bus.ErrFull)
	runtest.WantError(t, "without a limit", createSession(t, limited(-1), "free"), nil)
}

// createSession appends a session's first commit.
func createSession(t *testing.T, b *bus.Bus, id events.SessionID) error {
	t.Helper()
	_, err := b.Log().Append(t.Context(), commit(id, 1), 0)
	return err
}

// TestNow compares a server's clock with this machine's.
func TestNow(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	if off := time.Until(b.Now()).Abs(); off > time.Minute {
		t.Errorf("got a time that is %v off this machine's, which is the server's too", off)
	}
}
