package places

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// direct are the files that open files without package localfile, which would not wait for pipes: their names are not a user's, but
// of the program's own files, or they do not read.
func direct() map[string]string {
	return map[string]string{
		"events/localfile/localfile.go":                          "the package itself",
		"events/localfile/write.go":                              "the package itself",
		"bus/busembed/lock.go":                                   "lock of a store",
		"bus/busembed/repair.go":                                 "files that the server writes",
		"bus/busembed/access.go":                                 "a new file",
		"bus/busembed/sync_linux.go":                             "a folder, to sync it",
		"session/keyring/file.go":                                "a new file",
		"cmd/lash-node/demo_edit.go":                             "a file of its own",
		"cmd/lash-node/rerun_session.go":                         "a new file",
		"workers/internal/process/process.go":                    "a folder, the directory of a command",
		"workers/internal/trace/file.go":                         "for reads and writes, which waits for no reader of a pipe",
		"workers/builtin/files/tool.go":                          "a folder",
		"workers/builtin/files/files.go":                         "a folder",
		"workers/builtin/code/internal/sandbox/process_linux.go": "what the system says of the process",
	}
}

// TestFilesAreOpenedInOnePlace finds the calls that open, read or write a file in programs and what they use. Each is in package localfile,
// which refuses what a program would wait for, or the list says why it need not be.
func TestFilesAreOpenedInOnePlace(t *testing.T) {
	t.Parallel()
	opens := regexp.MustCompile(`\bos\.(Open|OpenFile|OpenRoot|Create|ReadFile|WriteFile)\(`)
	want, used := direct(), make(map[string]bool)
	for _, root := range []string{"bus", "cmd", "events", "projector", "session", "workers"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, e fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "bus/bustest/") {
				return err
			}
			source, err := os.ReadFile(path)
			for line := range strings.Lines(string(source)) {
				code, _, _ := strings.Cut(line, "//")
				if call := opens.FindString(code); call != "" && want[name] == "" {
					t.Errorf("%s: %s...): use events/localfile, whose functions refuse named pipes, folders and devices", name, call)
				}
			}
			if opens.Match(source) {
				used[name] = true
			}
			return err
		})
		runtest.NoError(t, err)
	}
	for name := range want {
		if !used[name] {
			t.Errorf("%s: opens no file", name)
		}
	}
}
