package system

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/builtin/files"
)

// TestSmokeFiles reads, lists, searches, writes and edits.
func TestSmokeFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	harness.WriteFiles(t, dir, map[string]string{
		"a.txt": "one\ntwo\nthree\n", "sub/b.go": "func main() {\n\tone()\n}", "empty": "", ".git/config": "one", "long": strings.Repeat("x", 100),
	})
	runtest.WantError(t, "mode", os.Chmod(filepath.Join(dir, "a.txt"), 0o640), nil)
	harness.CheckCalls(t, []harness.CallCase{
		{"read_file", `{"path":"a.txt"}`, "one\ntwo\nthree\n"},
		{"read_file", `{"path":"./sub/../a.txt","line":2,"lines":1}`, "two\n[lines 2 to 2 of 3]"},
		{"read_file", `{"path":"a.txt","line":4}`, "[failed] line: 4, the file has 3 lines"},
		{"read_file", `{"path":"empty"}`, ""},
		{"read_file", `{"path":"long"}`, strings.Repeat("x", 50) + " [the line is cut]\n"},
		{"list_files", `{}`, ".git/\na.txt (14 bytes)\nempty (0 bytes)\nlong (100 bytes)\nsub/\n"},
		{"list_files", `{"path":"sub"}`, "b.go (22 bytes)\n"},
		{"search_files", `{"pattern":"^\\s*one"}`, "a.txt:1: one\nsub/b.go:2: \tone()\n[not searched, begins with a dot: .git]\n"},
		{"search_files", `{"pattern":"o","path":"a.txt"}`, "a.txt:1: one\na.txt:2: two\n"},
		{"search_files", `{"pattern":"nowhere"}`, "[nothing found; files searched: 4]\n[not searched, begins with a dot: .git]\n"},
		{"search_files", `{"pattern":"("}`, "[failed] pattern: …"},
		{"write_file", `{"path":"new/deep/c.txt","content":"é"}`, "2 bytes written to new/deep/c.txt"},
		{"write_file", `{"path":"a.txt","content":"one\ntwo\ntwo\n"}`, "12 bytes written to a.txt"},
		{"edit_file", `{"path":"a.txt","old":"one\ntwo","new":"1"}`, "a.txt is changed at line 1"},
		{"edit_file", `{"path":"a.txt","old":"t","new":"2"}`, "a.txt is changed at line 2"},
		{"edit_file", `{"path":"a.txt","old":"absent","new":""}`, "[failed] old: stands 0 times in a.txt, want once"},
		{"edit_file", `{"path":"long","old":"x","new":""}`, "[failed] old: stands 100 times in long, want once"},
		{"edit_file", `{"path":"a.txt","old":"","new":"x"}`, "[failed] old: is empty"},
	}, harness.FilesPlugin(t, files.Config{Root: dir, MaxShown: 50}))
	runtest.Equal(t, "edited", harness.ReadFile(t, filepath.Join(dir, "a.txt")), "1\n2wo\n")
	runtest.Equal(t, "created", harness.ReadFile(t, filepath.Join(dir, "new/deep/c.txt")), "é")
	info, err := os.Stat(filepath.Join(dir, "a.txt"))
	runtest.WantError(t, "stat", err, nil)
	runtest.Equal(t, "rights", info.Mode(), fs.FileMode(0o640))
	left, err := filepath.Glob(filepath.Join(dir, ".lash-*"))
	runtest.WantError(t, "look", err, nil)
	runtest.Equal(t, "temporary files", len(left), 0)
}

// TestFilesHostile refuses paths out of the directory, entries that are no text or no file, and texts that are too
// large to write.
func TestFilesHostile(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "root")
	harness.WriteFiles(t, top, map[string]string{
		"secret": "secret", "root/big": strings.Repeat("x", 101), "root/fits": strings.Repeat("x", 100),
		"root/binary": "a\x00b", "root/latin": "\xe9", "root/dir/x": "",
	})
	for name, to := range map[string]string{"out": "../secret", "up": "..", "absolute": filepath.Join(top, "secret"), "loop": "loop", "inside": "fits", "dangling": "nothing"} {
		runtest.WantError(t, "link", os.Symlink(to, filepath.Join(dir, name)), nil)
	}
	runtest.WantError(t, "pipe", syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600), nil)
	long := strings.Repeat("a/", 2100)
	outside := " is not below this directory: paths are relative to it"
	large, err := json.Marshal(map[string]string{"path": "fits", "content": strings.Repeat("x", 101)})
	runtest.WantError(t, "arguments", err, nil)
	harness.CheckCalls(t, []harness.CallCase{
		{"read_file", `{"path":"../secret"}`, `[failed] path: "../secret"` + outside},
		{"read_file", `{"path":"dir/../../secret"}`, `[failed] path: "dir/../../secret"` + outside},
		{"read_file", `{"path":"/etc/passwd"}`, `[failed] path: "/etc/passwd"` + outside},
		{"read_file", `{"path":"a\u0000b"}`, "[failed] path: is no path of at most 4096 bytes"},
		{"read_file", `{"path":"` + long + `"}`, "[failed] path: is no path of at most 4096 bytes"},
		{"read_file", `{"path":"out"}`, "[failed] path: out: path escapes from parent"},
		{"read_file", `{"path":"absolute"}`, "[failed] path: absolute: path escapes from parent"},
		{"read_file", `{"path":"up/secret"}`, "[failed] path: up/secret: path escapes from parent"},
		{"read_file", `{"path":"loop"}`, "[failed] path: loop: …"},
		{"read_file", `{"path":"inside"}`, strings.Repeat("x", 100)},
		{"read_file", `{"path":"big"}`, strings.Repeat("x", 101)},
		{"read_file", `{"path":"binary"}`, "[failed] path: binary: is no text (UTF-8)"},
		{"read_file", `{"path":"latin"}`, "[failed] path: latin: is no text (UTF-8)"},
		{"read_file", `{"path":"pipe"}`, "[failed] path: pipe: is no regular file"},
		{"read_file", `{"path":"dir"}`, "[failed] path: dir: is a directory: list_files lists it"},
		{"read_file", `{"path":""}`, "[failed] path: .: is a directory: list_files lists it"},
		{"read_file", `{"path":"none"}`, "[failed] path: none: no such file or directory"},
		{"list_files", `{"path":"up"}`, "[failed] path: up: path escapes from parent"},
		{"list_files", `{"path":"fits"}`, "[failed] path: fits: not a directory"},
		{"search_files", `{"pattern":"secret","path":"up"}`, "[failed] path: up: path escapes from parent"},
		{"search_files", `{"pattern":"secret"}`, "[nothing found; files searched: 2]\n[not searched, a link: absolute, dangling, inside, loop, out and 1 more]\n[not searched, no regular file: pipe]\n[not searched, above the limit of 100 bytes unless it is the path of the search: big (101 bytes)]\n…"},
		{"write_file", `{"path":"../new","content":""}`, `[failed] path: "../new"` + outside},
		{"write_file", `{"path":"out","content":"x"}`, "[failed] path: out: is no regular file"},
		{"write_file", `{"path":"up/new","content":"x"}`, "[failed] path: up/new: path escapes from parent"},
		{"write_file", `{"path":"up/a/new","content":"x"}`, "[failed] path: up/a/new: path escapes from parent"},
		{"write_file", `{"path":"dangling","content":"x"}`, "[failed] path: dangling: is no regular file"},
		{"write_file", `{"path":"fits/x","content":"x"}`, "[failed] path: fits/x: not a directory"},
		{"write_file", `{"path":"dir","content":"x"}`, "[failed] path: dir: is no regular file"},
		{"write_file", string(large), "[failed] content: 101 bytes, the limit is 100"},
		{"edit_file", `{"path":"out","old":"secret","new":"x"}`, "[failed] path: out: is a link: edit what it leads to"},
		{"edit_file", `{"path":"up/secret","old":"secret","new":"x"}`, "[failed] path: up/secret: path escapes from parent"},
		{"edit_file", `{"path":"big","old":"x","new":"y"}`, "[failed] old: stands 101 times in big, want once"},
	}, harness.FilesPlugin(t, files.Config{Root: dir, MaxBytes: 100}))
	runtest.Equal(t, "secret", harness.ReadFile(t, filepath.Join(top, "secret")), "secret")
	entries, err := os.ReadDir(top)
	runtest.WantError(t, "look", err, nil)
	runtest.Equal(t, "entries beside the directory", len(entries), 2)
	if _, err := files.Factory(files.Config{Root: filepath.Join(top, "nowhere")}); err == nil {
		t.Error("a directory that is not there: got nil, want an error")
	}
}
