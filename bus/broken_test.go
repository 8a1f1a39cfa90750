package bus_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongReadOfBrokenMessage flips a bit of a commit on the disk of a stopped server. The server counts the commit, and gives it to nobody: the
// reader has those before it, and then an error, and does not wait for ever.
func TestLongReadOfBrokenMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, err := busembed.Start(busembed.Config{StoreDir: dir})
	runtest.NoError(t, err)
	b := bustest.Open(t, server)
	grow(t, b.Log(), "s", 3)
	b.Close()
	server.Stop()
	broken := 0
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".blk" {
			return err
		}
		data, err := os.ReadFile(path) //nolint:gosec // of the test's server
		if at := bytes.Index(data, []byte(commit("s", 2).ID)); err == nil && at >= 0 && bytes.Contains(data, []byte("lash.s.s.")) {
			broken++
			data[at] ^= 1
			err = os.WriteFile(path, data, 0o600)
		}
		return err
	})
	if err != nil || broken != 1 {
		t.Fatalf("got %d broken files, %v, want 1", broken, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got := 0
	for _, err = range bustest.Open(t, bustest.Server(t, busembed.Config{StoreDir: dir})).Log().Read(ctx, "s", 1) {
		if err == nil {
			got++
		}
	}
	if got != 1 || !errors.Is(err, events.ErrMalformed) {
		t.Errorf("got %d commits and %v, want 1 and %v", got, err, events.ErrMalformed)
	}
}
