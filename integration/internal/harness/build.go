package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Go is the go command with arguments, for a test that [Main] runs. It has the caches of the user: without them it downloads
// all modules and compiles everything again.
func Go(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // arguments of tests
	cmd.Env = append(os.Environ(), "HOME="+os.Getenv(buildHome))
	return cmd
}

// BuildCommand builds a command of this repository, with flags of go build, and returns the path of the program. The build cache
// keeps programs of go run: a test that needs one which another test has built does not link it again.
func BuildCommand(t testing.TB, name string, flags ...string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	args := append([]string{"run", "-exec", `sh -c 'cp "$0" "$LASH_TEST_PROGRAM"'`}, flags...)
	cmd := Go(t.Context(), append(args, "github.com/lash-go/lash/cmd/"+name)...)
	cmd.Env = append(cmd.Env, "LASH_TEST_PROGRAM="+path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}
