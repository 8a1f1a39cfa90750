package runtest

import (
	"os"
	"os/exec"
	"testing"
)

// What a test needs beside Go is asked for here. integration/report/skips.txt lists the tests that Chromium, NPM and Root skip.

// Chromium skips a test where there is no browser, and returns its program.
func Chromium(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("there is no chromium here: apt-get install chromium")
	}
	return path
}

// NPM skips a test where nothing of npm is installed, and returns the folder of what
// integration/system/testdata/typescript/package.json lists, which has a name in the environment.
func NPM(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("LASH_NODE_MODULES") //nolint:forbidigo // a switch of tests
	if dir == "" {
		t.Skip("nothing of npm is here: LASH_NODE_MODULES names a folder that npm ci filled for integration/system/testdata/typescript/package.json, as in .ci/run")
	}
	return dir
}

// Programs skips a test where the programs of cmd/lash-node/testdata/programs/package.json are not installed, and returns their folder,
// which has a name in the environment.
func Programs(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("LASH_PROGRAMS") //nolint:forbidigo // a switch of tests
	if dir == "" {
		t.Skip("the programs of npm are not here: LASH_PROGRAMS names a folder that npm ci filled for cmd/lash-node/testdata/programs/package.json, as in .ci/run")
	}
	return dir
}

// Root skips a test that only the superuser can run.
func Root(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

// Tools fails a test where a program is missing. packages are the Debian packages of the programs that have another name.
func Tools(t testing.TB, packages map[string]string, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			pkg := tool
			if packages[tool] != "" {
				pkg = packages[tool]
			}
			t.Fatalf("there is no %s here: apt-get install %s", tool, pkg)
		}
	}
}
