//go:build unix

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestLimitsAboveTheNodes starts a node whose own limits are below those of two environments, and as high as those of the third: it names
// the two.
func TestLimitsAboveTheNodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node, file := filepath.Join(dir, "lash-node"), filepath.Join(dir, "environments.json") // this name makes the test binary run the command
	runtest.NoError(t, os.Symlink(os.Args[0], node))
	const text = `{"environments": {
		"fits": {"directory": "/", "max_cpu_time": "59s", "max_memory_bytes": 4096000000},
		"large": {"directory": "/", "max_memory_bytes": 4096000001},
		"long": {"directory": "/", "max_cpu_time": "60s"}}}`
	runtest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	out, err := exec.CommandContext(limited(t), "sh", "-c", `ulimit -t 60 && ulimit -d 4000000 && exec "$0" serve "$@"`, node,
		"--store", t.TempDir(), "--listen", "127.0.0.1:0", "--root", dir, "--set", "environments="+file).CombinedOutput()
	for _, want := range []string{`"large": max_memory_bytes: is 4096000001, limit of this process is 4096000000 (`, `"long": max_cpu_time: is 1m0s, and a second more for its end; limit of this process is 60s (`} {
		if err == nil || !bytes.Contains(out, []byte(want)) || bytes.Contains(out, []byte(`"fits"`)) {
			t.Errorf("got %s, %v, want %q", out, err, want)
		}
	}
}
