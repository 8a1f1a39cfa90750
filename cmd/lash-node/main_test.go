package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
)

func TestMain(m *testing.M) {
	_ = os.Setenv("HOME", "/no-home") // nodes run commands in login shells: no user's profile may change them
	testscript.Main(bustest.LeakChecked{M: m}, map[string]func(){"lash-node": main, "exits": exits})
}

// exits CODE COMMAND...: runs the command and checks its exit code.
func exits() {
	cmd := exec.Command(os.Args[2], os.Args[3:]...) //nolint:gosec // the script names it
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		fmt.Fprintln(os.Stderr, exit, err)
		os.Exit(99)
	}
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != os.Args[1] {
		fmt.Fprintf(os.Stderr, "exit code: got %s, want %s\n", got, os.Args[1])
		os.Exit(99)
	}
}

func TestScripts(t *testing.T) { runScripts(t, "testdata") }

// TestLongScripts runs every command on a store.
func TestLongScripts(t *testing.T) { runScripts(t, "testdata/long") }

func runScripts(t *testing.T, dir string) {
	t.Helper()
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			ports, err := busembed.FreePorts(1)
			if err != nil {
				return err
			}
			e.Setenv("SERVER", fmt.Sprintf("127.0.0.1:%d", ports[0]))
			e.Setenv("GORACE", "atexit_sleep_ms=0") // a race build otherwise waits a second at each exit
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"keys": keys},
	})
}

// keys FILE KEY...: the keys of the file's outermost JSON object are these, in this order.
func keys(ts *testscript.TestScript, _ bool, args []string) {
	var got []string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, `  "`), `"`); ok && strings.HasPrefix(line, `  "`) {
			got = append(got, name)
		}
	}
	if want := args[1:]; !slices.Equal(got, want) {
		ts.Fatalf("keys: got %v, want %v", got, want)
	}
}
