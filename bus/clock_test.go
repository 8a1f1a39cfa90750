package bus_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestServersSayHowOld has the servers' clocks hours apart from this machine's. Whether a body is stored again, and how long a session has
// been quiet, is by theirs.
func TestServersSayHowOld(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		later := time.Duration(rapid.IntRange(-180, 180).Filter(func(m int) bool { return m != 60 }).Draw(rt, "minutes")) * time.Minute
		body, id := fmt.Appendf(nil, "body %d", n), events.SessionID(fmt.Sprint("s", n))
		b.Later(0)
		stored := putBody(t, b, body)
		runtest.NoError(t, createSession(t, b, id))
		b.Later(later)
		if again := putBody(t, b, body) != stored; again != (later > time.Hour) {
			rt.Errorf("a body that was stored %v ago: stored again %v", later, again)
		}
		found := false
		for hot, err := range b.Hot(t.Context()) {
			runtest.NoError(rt, err)
			found = found || hot.ID == id
			if off := (hot.Quiet - max(later, 0)).Abs(); hot.ID == id && off > time.Minute {
				rt.Errorf("a commit %v ago: got %v", later, hot.Quiet)
			}
		}
		if !found {
			rt.Errorf("session %s is not listed", id)
		}
	})
}

// putBody stores a body, and returns which storage of it there is now.
func putBody(t *testing.T, b *bus.Bus, body []byte) bus.StorageID {
	t.Helper()
	ref, err := b.PutBlob(t.Context(), body)
	runtest.NoError(t, err)
	list, err := b.Blobs(t.Context())
	runtest.NoError(t, err)
	for _, stored := range list {
		if stored.Digest == ref.Digest {
			return stored.ID()
		}
	}
	t.Fatalf("body %s is not stored", ref.Digest)
	return bus.StorageID{}
}
