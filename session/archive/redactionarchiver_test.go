package archive_test

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/archive"
)

// TestLongArchivedUnderRedaction has a node archive a session at each request of a redaction of it. The redaction is made.
func TestLongArchivedUnderRedaction(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	on := bustest.OpenInterrupted(t, server)
	for k, done := 1, true; done; k++ {
		id := events.SessionID(fmt.Sprint("s-", k))
		closed(t, b, id, secretHistory(""))
		done = on.At(k, func() {
			_, err := follow.NewArchiver(b, follow.ArchiverConfig{}).Archive(t.Context(), id)
			runtest.WantError(t, fmt.Sprintf("archive before write %d", k), err, nil)
		}, func() {
			_, err := archive.Redact(t.Context(), on.Bus, id, record(contents...), nil)
			runtest.WantError(t, fmt.Sprintf("archived before write %d", k), err, nil)
		})
		if n := inHistory(t, b, id); n > 0 {
			t.Errorf("archived before write %d: got %d commits with the secret, want none", k, n)
		}
	}
}
