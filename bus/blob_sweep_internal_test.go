package bus

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestOldest has the times that nats-server 2.15.2 gives a stream: a new one, an empty one, and one that was restored a day later, which
// is created then and keeps the times of its messages.
func TestOldest(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct{ created, first time.Time }{
		"new": {made, made.Add(time.Second)}, "empty": {made, time.Time{}}, "restored": {made.Add(24 * time.Hour), made},
	} {
		if got := oldest(&jetstream.StreamInfo{Created: c.created, State: jetstream.StreamState{FirstTime: c.first}}); !got.Equal(made) {
			t.Errorf("%s: got %v, want %v", name, got, made)
		}
	}
}
