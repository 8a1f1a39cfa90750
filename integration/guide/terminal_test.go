package guide

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// patience bounds one block. The first block that runs a program also builds it.
const patience = 3 * time.Minute

// typed is printed after a block. Text after it on the line is the error of the block.
const typed = "--- the block ends ---"

// A terminal is a shell. Its blocks share its variables.
type terminal struct {
	t      *testing.T
	dir    string
	shell  *exec.Cmd
	in     io.WriteCloser
	out    *os.File
	output bytes.Buffer
}

// open opens a terminal in a directory. It ends with the test.
func open(t *testing.T, dir string, env []string) *terminal {
	t.Helper()
	runtest.Tools(t, nil, "bash")
	ctx, cancel := context.WithCancel(context.Background())
	shell := exec.CommandContext(ctx, "bash", "--noprofile", "--norc", "-euo", "pipefail", "-s")
	shell.Dir, shell.Env = dir, env
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal reaches all its processes, as in a terminal
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	out, w, err := os.Pipe()
	runtest.NoError(t, err)
	shell.Stdout, shell.Stderr = w, w
	in, err := shell.StdinPipe()
	if err == nil {
		err = shell.Start()
	}
	_ = w.Close() // the shell has a copy
	runtest.NoError(t, err)
	term := &terminal{t: t, dir: dir, shell: shell, in: in, out: out}
	t.Cleanup(func() {
		cancel()
		_ = shell.Wait() // it may have ended already
		_ = out.Close()
	})
	return term
}

// run executes a block. It returns the output at the end of the block, or as soon as until accepts it.
func (t *terminal) run(text string, until func(string) bool) (printed string, err error) {
	t.t.Helper()
	script := filepath.Join(t.t.TempDir(), "block")
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(t.in, ". '%s' </dev/null\necho '%s'\n", script, typed); err != nil {
		return t.output.String(), fmt.Errorf("the terminal before has ended: %w", err)
	}
	if err := t.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return "", err
	}
	from := t.output.Len()
	for piece := make([]byte, 1<<16); ; {
		n, err := t.out.Read(piece)
		t.output.Write(piece[:n])
		printed, ended := strings.CutSuffix(t.output.String()[from:], typed+"\n")
		if ended || until(printed) {
			return printed, nil
		}
		if err != nil {
			return printed, fmt.Errorf("it ended with an error, or never: %w", err)
		}
	}
}

// interrupt sends ctrl-c to the running program, and closes the terminal. The program exits, or the signal ends it.
func (t *terminal) interrupt() error {
	_ = t.in.Close()
	if err := syscall.Kill(-t.shell.Process.Pid, syscall.SIGINT); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	_, err := io.Copy(&t.output, t.out)
	ended := t.shell.Wait()
	if status, ok := t.shell.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGINT {
		ended = nil
	}
	return errors.Join(err, ended)
}

// close closes a terminal without a running program.
func (t *terminal) close() error {
	_ = t.in.Close()
	return t.shell.Wait()
}
