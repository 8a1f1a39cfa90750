package localfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/internal/runtest"
)

// TestBelow opens directories by each kind of path. Links are refused wherever they are, and the error names them.
func TestBelow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a/b/c", "up"} {
		runtest.NoError(t, os.MkdirAll(filepath.Join(dir, name), 0o700))
	}
	runtest.NoError(t, os.WriteFile(filepath.Join(dir, "a/file"), nil, 0o600))
	for name, to := range map[string]string{"link": "a", "a/link": "b", "a/b/link": "c", "loop": "loop", "out": "..", "nowhere": "none", "absolute": dir, "a/named": "file"} {
		runtest.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	top, err := os.OpenRoot(dir)
	runtest.NoError(t, err)
	defer top.Close() //nolint:errcheck // it is only read
	for name, want := range map[string]struct {
		err  error
		text string
	}{
		".": {}, "a": {}, "a/b/c": {}, "./a//b/.": {}, "a/../a/b": {},
		"link": {localfile.ErrLink, "link leads to a"}, "link/b": {localfile.ErrLink, "link leads to a"}, "a/link": {localfile.ErrLink, "link leads to b"},
		"a/link/c": {localfile.ErrLink, "link leads to b"}, "a/b/link": {localfile.ErrLink, "link leads to c"}, "loop": {localfile.ErrLink, "loop leads to loop"},
		"out": {localfile.ErrLink, "out leads to .."}, "nowhere": {localfile.ErrLink, "nowhere leads to none"}, "absolute/a": {localfile.ErrLink, "absolute leads to /"},
		"none": {fs.ErrNotExist, ""}, "a/none/c": {fs.ErrNotExist, ""}, "a/file": {nil, "not a directory"}, "..": {nil, "escapes"}, "a/../../a": {nil, "escapes"}, "/": {nil, "escapes"},
	} {
		for _, perm := range []fs.FileMode{0, 0o700} {
			if perm != 0 && errors.Is(want.err, fs.ErrNotExist) {
				continue
			}
			got, err := localfile.Below(top, name, perm)
			if got != nil {
				_ = got.Close()
			}
			if fine := want.err == nil && want.text == ""; fine != (err == nil) || want.err != nil && !errors.Is(err, want.err) || err != nil && !strings.Contains(err.Error(), want.text) {
				t.Errorf("%s, %o: got %v, want %v %q", name, perm, err, want.err, want.text)
			}
		}
	}
	made, err := localfile.Below(top, "a/new/deep", 0o700)
	runtest.NoError(t, err)
	defer made.Close() //nolint:errcheck // it is only read
	if info, err := os.Stat(filepath.Join(dir, "a/new/deep")); err != nil || !info.IsDir() {
		t.Errorf("made: got %v, %v, want a directory", info, err)
	}
	a, err := localfile.Below(top, "a", 0)
	runtest.NoError(t, err)
	defer a.Close() //nolint:errcheck // it is only read
	for name, want := range map[string]error{"file": nil, "named": localfile.ErrLink, "link": localfile.ErrLink, "none": fs.ErrNotExist} {
		file, _, err := localfile.OpenIn(a, name, os.O_RDONLY)
		if file != nil {
			_ = file.Close()
		}
		if !errors.Is(err, want) || (want == nil) != (err == nil) {
			t.Errorf("open %s: got %v, want %v", name, err, want)
		}
	}
}
