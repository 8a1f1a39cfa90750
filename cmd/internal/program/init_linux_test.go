package program

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lash-go/lash/internal/runtest"
)

// scriptVariable has the script of [TestChildWaitsForOrphans].
const scriptVariable = "LASH_TEST_SCRIPT"

// TestChildWaitsForOrphans makes this process a subreaper, and runs a script below it.
func TestChildWaitsForOrphans(t *testing.T) {
	if mustWaitForOrphans() {
		t.Fatal("before: got a process that must wait for orphans")
	}
	runtest.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	if !mustWaitForOrphans() {
		t.Fatal("a subreaper: got no need to wait for orphans")
	}
	code, err := waitForOrphans("/bin/sh", []string{"sh", "-c", os.Getenv(scriptVariable)})
	runtest.NoError(t, err)
	if code != 0 { // a test may not end its process so with 0
		os.Exit(code)
	}
}

// TestOrphansAreWaitedFor has scripts that end when their parent has no child but them, and ends of several kinds.
func TestOrphansAreWaitedFor(t *testing.T) {
	t.Parallel()
	const alone = `i=0; while [ $i -lt 10 ]; do (sleep 0 &); i=$((i+1)); done; while [ $(grep -sl "^PPid:.$PPID$" /proc/[0-9]*/status | wc -l) != 1 ]; do :; done; `
	for name, tc := range map[string]struct {
		script string
		signal os.Signal // sent once the script prints a line
		want   int
	}{
		"orphans":           {script: alone + "exit 7", want: 7},
		"success":           {script: "exit 0"},
		"killed":            {script: "kill -9 $$", want: 128 + 9},
		"a signal passes":   {script: `trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done`, signal: syscall.SIGTERM, want: 3},
		"an interrupt, too": {script: `trap 'exit 4' INT; echo up; while :; do sleep 0.01; done`, signal: syscall.SIGINT, want: 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := runtest.Child(ctx, "TestChildWaitsForOrphans", scriptVariable+"="+tc.script)
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.StdoutPipe()
			runtest.NoError(t, err)
			runtest.NoError(t, cmd.Start())
			if tc.signal != nil {
				_, err = out.Read(make([]byte, 1))
				runtest.NoError(t, err)
				runtest.NoError(t, cmd.Process.Signal(tc.signal))
			}
			err = cmd.Wait()
			if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != tc.want {
				t.Errorf("got exit code %d, want %d; %s", got, tc.want, errs.String())
			}
		})
	}
}
