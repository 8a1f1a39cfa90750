package bustest

import (
	"os"
	"syscall"
	"testing"
)

const (
	memoryRoot   = "/dev/shm"
	memoryNeeded = 4 << 30 // free bytes required; containers often have far less
	noExec       = 0x8     // flag of a file system whose files are not run
)

// keepFilesInMemory makes the temporary directories of tests and of the programs that they start directories in memory, where
// that has space and TMPDIR names no other place. Nodes and servers write many small files, which took a third of the time.
func keepFilesInMemory() {
	fs, ok := memoryWithSpace()
	if ok && fs.Flags&noExec == 0 && os.Getenv("TMPDIR") == "" { //nolint:forbidigo // of tests
		_ = os.Setenv("TMPDIR", memoryRoot)
	}
}

// memoryWithSpace is the file system in memory, if it has space for the files of tests.
func memoryWithSpace() (fs syscall.Statfs_t, ok bool) {
	err := syscall.Statfs(memoryRoot, &fs)
	return fs, err == nil && fs.Bavail >= memoryNeeded/uint64(fs.Bsize) //nolint:gosec // sizes of blocks are positive
}

// storeDir is the directory of a test's servers until the test ends. It is in memory where that has space, also in a package
// without [VerifyTestMain].
func storeDir(tb testing.TB) string {
	tb.Helper()
	if _, ok := memoryWithSpace(); !ok || os.TempDir() == memoryRoot {
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
