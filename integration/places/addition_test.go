package places

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lash-go/lash/internal/runtest"
)

// root is the folder of the module.
const root = "../.."

// edit is a change of one place.
type edit struct {
	file, how, anchor string
	text              []byte
	proof             bool // a test of the addition, which the additions' author need not write
}

// additionOf reads testdata/NAME.txtar. The name of an entry is that of a new file, or of a file and where its text
// belongs: "FILE after TEXT", behind the one line with the text, "FILE line TEXT", in place of that line, or "FILE end".
func additionOf(t *testing.T, name string) (list []edit) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	runtest.WantError(t, name, err, nil)
	for _, f := range archive.Files {
		e := edit{text: f.Data}
		e.file, e.proof = strings.CutPrefix(f.Name, "proof ")
		e.file, e.how, _ = strings.Cut(e.file, " ")
		e.how, e.anchor, _ = strings.Cut(e.how, " ")
		list = append(list, e)
	}
	return list
}

// files are contents of files of the module, by path.
type files map[string][]byte

// apply makes an edit.
func (f files) apply(t *testing.T, e edit) {
	t.Helper()
	path := filepath.Join(root, e.file)
	if e.how == "" {
		if _, err := os.Stat(path); err == nil || f[e.file] != nil {
			t.Fatalf("%s: exists", e.file)
		}
		f[e.file] = e.text
		return
	}
	if f[e.file] == nil {
		data, err := os.ReadFile(path) //nolint:gosec // a file of this module
		runtest.WantError(t, e.file, err, nil)
		f[e.file] = data
	}
	if e.how == "end" {
		f[e.file] = slices.Concat(f[e.file], e.text)
		return
	}
	before, after, _ := bytes.Cut(f[e.file], []byte(e.anchor))
	line, rest, found := bytes.Cut(after, []byte("\n"))
	if e.how != "after" && e.how != "line" || !found || bytes.Contains(after, []byte(e.anchor)) {
		t.Fatalf("%s: want one line with %q", e.file, e.anchor)
	}
	if e.how == "line" {
		f[e.file] = slices.Concat(before[:bytes.LastIndexByte(before, '\n')+1], e.text, rest)
		return
	}
	f[e.file] = slices.Concat(before, []byte(e.anchor), line, []byte("\n"), e.text, rest)
}

// formatted checks that the files are as gofmt writes them.
func (f files) formatted(t *testing.T) {
	t.Helper()
	for name, data := range f {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		if want, err := format.Source(data); err != nil || !bytes.Equal(data, want) {
			t.Errorf("%s: is not as gofmt writes it: %v", name, err)
		}
	}
}

// overlay writes the files into a folder, and beside them the file for the flag -overlay of the go command.
func (f files) overlay(t *testing.T) string {
	t.Helper()
	dir, replace := t.TempDir(), make(map[string]string)
	for i, name := range slices.Sorted(maps.Keys(f)) {
		at, err := filepath.Abs(filepath.Join(root, name))
		runtest.WantError(t, name, err, nil)
		replace[at] = filepath.Join(dir, fmt.Sprint(i))
		runtest.WantError(t, name, os.WriteFile(replace[at], f[name], 0o600), nil)
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	runtest.WantError(t, "overlay", err, nil)
	file := filepath.Join(dir, "overlay.json")
	runtest.WantError(t, "overlay", os.WriteFile(file, data, 0o600), nil)
	return file
}
