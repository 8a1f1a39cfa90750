package follow_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

// TestLongStoreRestoredUnderStates puts an earlier copy of a store back while states of what came after it are in memory, and another process
// appends fewer commits than are lost, as many, or more. The streams are those of the states, as far as the servers say; the states are of the
// restored history after the next sync, and known to be doubtful before.
func TestLongStoreRestoredUnderStates(t *testing.T) {
	t.Parallel()
	ports, err := busembed.FreePorts(1)
	runtest.NoError(t, err)
	cfg := busembed.Config{StoreDir: filepath.Join(t.TempDir(), "store"), Listen: true, Port: ports[0]}
	server, saved := bustest.Server(t, cfg), cfg.StoreDir+".copy"
	open := func() *bus.Bus {
		t.Helper()
		b, err := bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{URL: server.URL()}))
		runtest.NoError(t, err)
		t.Cleanup(b.Close)
		return b
	}
	b, other := open(), open()
	const kept = 3
	type restored struct {
		id         events.SessionID
		lost, more int
		old        *projector.State
	}
	var list []restored
	for lost := range 3 {
		for more := range 5 {
			r := restored{id: events.SessionID(fmt.Sprintf("s-%d-%d", lost, more)), lost: lost, more: more}
			write(t, b, r.id, kept, "kept")
			list = append(list, r)
		}
	}
	server.Stop()
	runtest.NoError(t, os.CopyFS(saved, os.DirFS(cfg.StoreDir)))
	server = bustest.Server(t, cfg)
	for i, r := range list {
		more(t, b, r.id, kept, r.lost, "lost")
		list[i].old = refold(t, b, r.id)
	}
	before := b.Reconnects()
	server.Stop()
	runtest.NoError(t, os.RemoveAll(cfg.StoreDir))
	runtest.NoError(t, os.Rename(saved, cfg.StoreDir))
	bustest.Server(t, cfg)
	bustest.Eventually(t, "the bus is connected again", func() bool { return b.Reconnects() > before })
	for _, r := range list {
		more(t, other, r.id, kept, r.more, "new")
		want := refold(t, other, r.id)
		stale := r.lost > 0 && follow.IsStale(b, r.old)
		if err := follow.Sync(t.Context(), b.Log(), b, r.old); err != nil || r.old.LastCommit() != want.LastCommit() || !bytes.Equal(encoded(t, r.old), encoded(t, want)) {
			t.Errorf("%d commits were lost and %d appended: got a state at %d of %q, %v, want %d of %q", r.lost, r.more, r.old.Seq, r.old.LastCommit(), err, want.Seq, want.LastCommit())
		}
		if r.lost > 0 && !stale {
			t.Errorf("%d commits were lost and %d appended: the state is not stale before it is compared", r.lost, r.more)
		}
	}
}
