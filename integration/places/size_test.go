package places

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// tracked are the files of the repository, without those that are removed and not yet committed.
func tracked(t *testing.T) (list []string) {
	t.Helper()
	names, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "-z").Output()
	if err != nil {
		t.Fatalf("the files of the repository: got %v, want a checkout and git", err)
	}
	for _, name := range strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if _, err := os.Lstat(filepath.Join("../..", name)); !errors.Is(err, fs.ErrNotExist) {
			list = append(list, name)
		}
	}
	return list
}

// TestNoLargeFileIsTracked bounds the files of the repository: a program that was built into it is larger.
func TestNoLargeFileIsTracked(t *testing.T) {
	t.Parallel()
	const most = 1 << 20 // bytes
	for _, name := range tracked(t) {
		info, err := os.Lstat(filepath.Join("../..", name))
		if err != nil {
			t.Error(err)
		} else if info.Size() > most {
			t.Errorf("%s: got %d bytes, want at most %d", name, info.Size(), most)
		}
	}
}

// TestWordsOfDocuments bounds the words of the documents, tables and blocks of code included, as wc -w counts them. A document that grows
// beyond that says what another one or --help says. The length of the others follows from what they specify or record.
func TestWordsOfDocuments(t *testing.T) {
	t.Parallel()
	const all, operating = "all documents", "deploy/nats/OPERATING.md"
	others := []string{"events/FORMAT.md", "session/plugin/wire/PROTOCOL.md", "CHANGELOG.md"}
	words := make(map[string]int)
	for _, name := range tracked(t) {
		if filepath.Ext(name) != ".md" || slices.Contains(others, name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", name)) //nolint:gosec // a file of this repository
		runtest.NoError(t, err)
		words[name] = len(bytes.Fields(text))
		words[all] += words[name]
	}
	for name, most := range map[string]int{all: 22_000, operating: 5_000} {
		if words[name] == 0 || words[name] > most {
			t.Errorf("%s: got %d words in %v, want at most %d", name, words[name], words, most)
		}
	}
}
