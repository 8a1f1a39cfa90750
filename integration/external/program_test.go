package external

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// programCases are the cases in which the plugin is a program of its own: those of faults, calls, cancels and sessions.
func programCases() []serviceCase {
	return slices.Concat(faultCases, callCases, cancelCases, lifecycleCases)
}

// TestLongPluginServiceInTypeScript runs the cases of programs with the plugin notes as a program of the SDK of TypeScript.
func TestLongPluginServiceInTypeScript(t *testing.T) {
	t.Parallel()
	program := inTypeScript(t)
	for _, c := range programCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			on := oneServer(t)
			on.program = program
			c.run(t, on)
		})
	}
}

// modules is a folder that has node_modules with the client of NATS, the compiler and the SDK, as npm packs it.
func modules(t *testing.T) string {
	t.Helper()
	installed := runtest.NPM(t)
	dir := t.TempDir()
	into := filepath.Join(dir, "node_modules")
	runtest.WantError(t, "node_modules", os.MkdirAll(filepath.Join(into, "@lash"), 0o700), nil)
	entries, err := os.ReadDir(installed)
	runtest.WantError(t, "modules", err, nil)
	for _, e := range entries {
		runtest.WantError(t, "link a module", os.Symlink(filepath.Join(installed, e.Name()), filepath.Join(into, e.Name())), nil)
	}
	source := filepath.Join(dir, "sdk")
	copySDK(t, source)
	archive := filepath.Join(dir, "plugin.tgz")
	runtest.WantError(t, "archive of the SDK", os.WriteFile(archive, archiveOfSDK(t, source), 0o600), nil)
	runIn(t, dir, "tar", "-xzf", archive)
	runtest.WantError(t, "install the SDK", os.Rename(filepath.Join(dir, "package"), filepath.Join(into, "@lash", "plugin")), nil)
	return dir
}

// packedSDK is the archive of the SDK, which the first test that needs it makes: the others have the same one.
var packedSDK struct {
	sync.Mutex
	archive []byte
}

// archiveOfSDK is the archive that npm packs of the SDK in a folder.
func archiveOfSDK(t *testing.T, source string) []byte {
	t.Helper()
	packedSDK.Lock()
	defer packedSDK.Unlock()
	if packedSDK.archive == nil {
		dir := t.TempDir()
		name := strings.TrimSpace(runIn(t, source, "npm", "pack", "--silent", "--pack-destination", dir))
		archive, err := os.ReadFile(filepath.Join(dir, name))
		runtest.WantError(t, "archive of the SDK", err, nil)
		packedSDK.archive = archive
	}
	return packedSDK.archive
}

// copySDK copies the files of the SDK. A test that reads them runs again when they change.
func copySDK(t *testing.T, into string) {
	t.Helper()
	runtest.WantError(t, "copy the SDK", filepath.WalkDir(sdk, func(path string, e os.DirEntry, err error) error {
		name, _ := filepath.Rel(sdk, path) // path begins with it
		switch {
		case err != nil:
			return err
		case e.Name() == "node_modules" && e.IsDir():
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(into, name), 0o700)
		case e.Type().IsRegular():
			copyInto(t, filepath.Join(into, filepath.Dir(name)), path)
		}
		return nil
	}), nil)
}

// copyInto copies a file into a folder, and returns its new path.
func copyInto(t *testing.T, dir, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	runtest.WantError(t, "read", err, nil)
	path := filepath.Join(dir, filepath.Base(file))
	runtest.WantError(t, "copy", os.WriteFile(path, data, 0o600), nil)
	return path
}

// runIn runs a program in a folder, and returns what it prints.
func runIn(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stderr = dir, t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", filepath.Base(name), args, err, out)
	}
	return string(out)
}
