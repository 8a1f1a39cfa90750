package guide

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// Scripts that replace the go command in a terminal. `go run PACKAGE` and `go build -o FILE PACKAGE` take the package of
// this repository in any directory, and `go run` builds it once. A node without an address flag uses a free port, because another test may use the
// default port.
const (
	goRun = `[ "$1 $2" = "build -o" ] && { GO build -C "$REPOSITORY" -o "$PWD/$3" "$4"; exit; }
[ "$1" = run ] || { echo "go $*: the test has no such command" >&2; exit 1; }
pkg=$2; shift 2
dir="$BIN/run$(printf %s "$pkg" | tr -c a-zA-Z0-9 _)"
mkdir -p "$dir"
exe="$dir/$(basename "$pkg")"
[ -e "$exe" ] || GO run -C "$REPOSITORY" -exec "$BIN/keep $exe" "$pkg" || exit 1
case "$pkg $*" in
*--listen*|*--nats*) ;;
"./cmd/lash-node serve"*|./examples/owntools*) set -- "$@" --listen 127.0.0.1:0 ;;
esac
exec "$exe" "$@"`
	keep = `cp "$2" "$1"` // the copy is run instead of the program
)

// environment is the initial environment of a terminal: an empty home, and a PATH that starts with the named programs,
// each with its package.
func environment(t *testing.T, programs map[string]string) []string {
	t.Helper()
	real, err := exec.LookPath("go")
	runtest.NoError(t, err)
	repository, err := filepath.Abs(root)
	runtest.NoError(t, err)
	bin := t.TempDir()
	scripts := map[string]string{"go": strings.ReplaceAll(goRun, "GO", real), "keep": keep}
	for name, pkg := range programs {
		scripts[name] = `exec go run ` + pkg + ` "$@"`
	}
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is executable
			t.Fatal(err)
		}
	}
	caches := exec.CommandContext(t.Context(), "go", "env", "-json", "GOCACHE", "GOMODCACHE", "GOPATH", "GOFLAGS")
	data, err := caches.Output()
	env := make(map[string]string)
	if err == nil {
		err = json.Unmarshal(data, &env)
	}
	runtest.NoError(t, err)
	env["BIN"], env["REPOSITORY"], env["HOME"], env["LANG"] = bin, repository, t.TempDir(), "C.UTF-8"
	env["PATH"] = bin + string(os.PathListSeparator) + os.Getenv("PATH")
	env["TMPDIR"] = os.TempDir()
	list := make([]string, 0, len(env))
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	return list
}
