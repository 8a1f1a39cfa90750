package places

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoLargeFileIsTracked bounds the files of the repository: a program that was built into it is larger.
func TestNoLargeFileIsTracked(t *testing.T) {
	t.Parallel()
	const root, most = "../..", 1 << 20 // bytes
	list, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-z").Output()
	if err != nil || len(list) == 0 {
		t.Fatalf("the files of the repository: got %v, want a checkout and git", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed, and not yet committed
		}
		if err != nil {
			t.Error(err)
		} else if info.Size() > most {
			t.Errorf("%s: got %d bytes, want at most %d", name, info.Size(), most)
		}
	}
}
