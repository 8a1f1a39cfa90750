package bustest

import (
	"os"
	"syscall"
	"testing"
)

const (
	memoryRoot = "/dev/shm"
	memoryRoom = 4 << 30 // bytes that are free there; containers often have far less
)

// storeDir is where a test's servers keep their files until the test ends: in
// memory where there is room, since servers make many small files, which took a
// third of the tests' time on a disk.
func storeDir(tb testing.TB) string {
	tb.Helper()
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryRoot, &fs); err != nil || fs.Bavail < memoryRoom/uint64(fs.Bsize) { //nolint:gosec // sizes of blocks are positive
		return tb.TempDir()
	}
	dir, err := os.MkdirTemp(memoryRoot, "lash-test-") //nolint:usetesting // that one is on a disk
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
