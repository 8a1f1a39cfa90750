package external

import (
	"bytes"
	"os"
	"path/filepath"
)

// sleeping reports whether a process sleeps as the command of a test does.
func sleeping() bool {
	list, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range list {
		if line, err := os.ReadFile(path); err == nil && bytes.HasPrefix(line, []byte("sleep\x0090.0731")) { //nolint:gosec // of a process
			return true
		}
	}
	return false
}
