package process_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/internal/process"
)

func TestMain(m *testing.M) {
	// Profiles of login shells must not affect the tests.
	_ = os.Setenv("HOME", "/no-home")
	goleak.VerifyTestMain(m)
}

// run runs a script with a limit of 20 bytes.
func run(ctx context.Context, t *testing.T, script string) process.Output {
	t.Helper()
	out, err := process.Run(ctx, process.Command{Script: script, Dir: t.TempDir(), Env: map[string]string{"GIVEN": "yes"}}, 20)
	runtest.NoError(t, err)
	return out
}

// TestRun keeps the beginning and the end of outputs of any size, and the status.
func TestRun(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"true":                                   "",
		"printf 12345678901234567890":            "12345678901234567890",
		"printf 123456789012345678901":           "1234567890\n[1 bytes are not shown]\n2345678901",
		"head -c 1000000 /dev/zero | tr '\\0' x": "xxxxxxxxxx\n[999980 bytes are not shown]\nxxxxxxxxxx",
		"printf '\\377'":                         "\uFFFD",
		"echo b; echo a >&2; echo c":             "b\na\nc\n",
		"echo $GIVEN":                            "yes\n",
		"cat":                                    "", // its input is empty
	} {
		if got := run(t.Context(), t, script); got.Text != want || got.Status != 0 || got.Killed || got.Err != nil {
			t.Errorf("%s: got %+v, want %q", script, got, want)
		}
	}
	if got := run(t.Context(), t, "exit 7"); got.Status != 7 {
		t.Errorf("exit 7: got %+v", got)
	}
	if _, err := process.Run(t.Context(), process.Command{Script: "true", Dir: "/no/such/directory"}, 20); err == nil {
		t.Error("directory that is not there: got nil, want an error")
	}
}

// TestSlowReaders: what a command printed is read to its end however late the reader comes, and a pipe that a process outside the group keeps
// open does not keep the command.
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	var got []byte
	p, err := process.Start(t.Context(), process.Command{Script: "head -c 50000 /dev/zero", Dir: t.TempDir()}, func(r io.Reader) {
		<-ready
		got, _ = io.ReadAll(r)
	}, nil)
	runtest.NoError(t, err)
	end := make(chan struct{})
	go func() { // ends with the command
		p.Attend(t.Context())
		close(end)
	}()
	run(t.Context(), t, "sleep 1") // longer than a pipe is kept in which there is nothing
	close(ready)
	if <-end; len(got) != 50000 {
		t.Errorf("got %d bytes, want 50000", len(got))
	}
	if out := run(t.Context(), t, "echo a; setsid sleep 1000 & echo b"); out.Text != "a\nb\n" {
		t.Errorf("with a process that keeps the pipe: got %q", out.Text)
	}
}

// TestHowCommandsEnd names signals, of the command and of what a shell ran last.
func TestHowCommandsEnd(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"true":                        "exit status 0",
		"exit 128":                    "exit status 128",
		"exit 255":                    "exit status 255",
		"kill -9 $$":                  "ended by signal 9 (SIGKILL, killed)",
		"kill -SEGV $$":               "ended by signal 11 (SIGSEGV, segmentation fault)",
		"kill -TERM $$":               "ended by signal 15 (SIGTERM, terminated)",
		"sh -c 'kill -9 $$'; true":    "exit status 0",
		"(kill -9 $BASHPID); exit $?": "exit status 137, as after signal 9 (SIGKILL, killed)",
	} {
		runtest.Equal(t, script, run(t.Context(), t, script).How(), want)
	}
}

// TestRunKilled kills a script that ignores TERM.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := run(ctx, t, "trap '' TERM; sleep 1000 & while :; do sleep 1000; done")
	if !got.Killed || got.Status != -1 {
		t.Errorf("got %+v, want it killed", got)
	}
}

// TestEnvironment expects no keys in the environment. It is not parallel: it sets the environment.
func TestEnvironment(t *testing.T) {
	t.Setenv("SOME_API_KEY", "secret")
	t.Setenv("LC_ALL", "C")
	out, err := process.Run(t.Context(), process.Command{Script: "env"}, 64<<10)
	if err != nil || strings.Contains(out.Text, "secret") || !strings.Contains(out.Text, "LC_ALL=C\n") || !strings.Contains(out.Text, "PATH=") {
		t.Errorf("got %q, %v, want the path and no key", out.Text, err)
	}
}
