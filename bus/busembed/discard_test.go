package busembed_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/internal/runtest"
)

// TestFailedStartLeavesNoStore removes the store directory of a start that fails, where that start made it.
func TestFailedStartLeavesNoStore(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.NoError(t, err)
	defer taken.Close() //nolint:errcheck // of a test
	existing := t.TempDir()
	for dir, stays := range map[string]bool{filepath.Join(t.TempDir(), "new"): false, existing: true} {
		cfg := busembed.Config{StoreDir: dir, Listen: true, Keyed: true, Port: taken.Addr().(*net.TCPAddr).Port}
		if _, err := busembed.Start(cfg); err == nil {
			t.Fatalf("start at a port that is in use: got no error")
		}
		if _, err := os.Stat(dir); (err == nil) != stays {
			t.Errorf("%s: got %v, want that it stays: %v", dir, err, stays)
		}
		cfg.Port = 0
		s, err := busembed.Start(cfg)
		if err != nil {
			t.Fatalf("next start: %v", err)
		}
		s.Stop()
		_, err = os.Stat(dir)
		runtest.WantError(t, "after a stop", err, nil)
	}
}
