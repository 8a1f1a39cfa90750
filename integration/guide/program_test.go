package guide

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a terminal has in place of Go's command: `go run PACKAGE` runs the package of this repository, wherever the user is, and
// builds it once. A node that names no address gets any: another test may have the default.
const (
	goRun = `[ "$1" = run ] || { echo "go $*: the test has no such command" >&2; exit 1; }
pkg=$2; shift 2
exe="$BIN/run$(printf %s "$pkg" | tr -c a-zA-Z0-9 _)"
[ -e "$exe" ] || GO run -C "$REPOSITORY" -exec "$BIN/keep $exe" "$pkg" || exit 1
case "$pkg $*" in
*--listen*|*--nats*) ;;
"./cmd/lash-node serve"*|./examples/owntools*) set -- "$@" --listen 127.0.0.1:0 ;;
esac
exec "$exe" "$@"`
	keep = `cp "$2" "$1"` // go run starts it in place of the program
)

// environment is what a terminal has at first: an empty home, and before the programs of the system those that are named, each by
// its package.
func environment(t *testing.T, programs map[string]string) []string {
	t.Helper()
	real, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	scripts := map[string]string{"go": strings.ReplaceAll(goRun, "GO", real), "keep": keep}
	for name, pkg := range programs {
		scripts[name] = `exec go run ` + pkg + ` "$@"`
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
	}
	caches := exec.CommandContext(t.Context(), "go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS")
	data, err := caches.Output()
	env := make(map[string]string)
	if err == nil {
		err = json.Unmarshal(data, &env)
	}
	if err != nil {
		t.Fatal(err)
	}
	env["BIN"], env["REPOSITORY"], env["HOME"], env["LANG"] = bin, repository, t.TempDir(), "C.UTF-8"
	env["PATH"] = bin + string(os.PathListSeparator) + os.Getenv("PATH")
	env["TMPDIR"] = os.TempDir()
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}
