package bustest

import (
	"os"
	"syscall"
	"testing"
)

const (
	memoryRoot   = "/dev/shm"
	memoryNeeded = 4 << 30 // free bytes required; containers often have far less
)

// storeDir is the directory of a test's servers until the test ends. It is in memory where that has space: servers
// write many small files, which took a third of the tests' time on a disk.
func storeDir(tb testing.TB) string {
	tb.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryRoot, &fs); err != nil || fs.Bavail < memoryNeeded/uint64(fs.Bsize) { //nolint:gosec // sizes of blocks are positive
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp(memoryRoot, "lash-test-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return tb.TempDir()
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Errorf("remove the servers' files: %v", err)
		}
	})
	return dir
}
