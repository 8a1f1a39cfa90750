//go:build !linux

package bustest

import "testing"

func storeDir(tb testing.TB) string {
	tb.Helper()
	return tb.TempDir()
}

func keepFilesInMemory() {}
