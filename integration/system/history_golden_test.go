package system

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestGoldenByOthers has an encoder in JavaScript decode each golden commit and encode it again: the bytes are the same, since both use the
// shortest form of each value.
func TestGoldenByOthers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	runtest.WantError(t, "modules", os.Symlink(runtest.NPM(t), filepath.Join(dir, "node_modules")), nil)
	program, err := os.ReadFile("testdata/golden.mjs")
	runtest.WantError(t, "program", err, nil)
	runtest.WantError(t, "program", os.WriteFile(filepath.Join(dir, "golden.mjs"), program, 0o600), nil)
	files, err := filepath.Glob("../../events/testdata/golden/*.hex")
	runtest.WantError(t, "golden files", err, nil)
	var in bytes.Buffer
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // of this repository
		runtest.WantError(t, "golden file", err, nil)
		in.WriteString(strings.Join(strings.Fields(string(text)), "") + "\n")
	}
	cmd := exec.CommandContext(t.Context(), "node", "golden.mjs")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, &in, t.Output()
	out, err := cmd.Output()
	runtest.WantError(t, "node", err, nil)
	runtest.Equal(t, "lines that differ, and their number", string(out), fmt.Sprintln(len(files)))
}
