// Package child runs the example programs for their tests, each in a process of its own.
package child

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
)

// variable makes a test binary run the program that it tests.
const variable = "LASH_EXAMPLE"

// Main is the TestMain of the examples. In a process of [Start] it runs the program, and otherwise the tests.
func Main(m *testing.M, program func()) {
	if os.Getenv(variable) == "" {
		bustest.VerifyTestMain(m)
		return
	}
	program()
}

// patience bounds the run of a program in a test.
const patience = time.Minute

// Program is a running program. Tests can wait for lines of its standard output and error.
type Program struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  *bufio.Scanner
	output []string
	ended  bool
}

// Start starts the program with additional environment variables. It ends with the test.
func Start(t *testing.T, env []string, args ...string) *Program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &Program{t: t, cmd: exec.CommandContext(ctx, os.Args[0], args...)} //nolint:gosec // this test binary
	p.cmd.Env = append(os.Environ(), variable+"=1", "GORACE=atexit_sleep_ms=0", "OPENAI_API_KEY=k", "MODEL=m", "ANTHROPIC_API_KEY=")
	p.cmd.Env = append(p.cmd.Env, env...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if p.in, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	_ = w.Close() // the child has a copy
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(r)
	p.lines.Buffer(nil, 1<<20)
	t.Cleanup(func() {
		p.Kill()
		cancel()
		_ = r.Close()
		if t.Failed() {
			t.Logf("%q said:\n%s", args, strings.Join(p.output, "\n"))
		}
	})
	return p
}

// Await returns the next line that contains the text.
func (p *Program) Await(text string) (line string) {
	p.t.Helper()
	for p.lines.Scan() {
		p.output = append(p.output, p.lines.Text())
		if strings.Contains(p.lines.Text(), text) {
			return p.lines.Text()
		}
	}
	p.t.Fatalf("it ended before it said %q", text)
	return ""
}

// Type writes a line to its standard input.
func (p *Program) Type(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// Signal sends a signal.
func (p *Program) Signal(sig os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// Ended waits for exit code 0, and returns all output.
func (p *Program) Ended() (output string) {
	p.t.Helper()
	return p.Failed(0)
}

// Failed is [Program.Ended] for another exit code.
func (p *Program) Failed(code int) (output string) {
	p.t.Helper()
	for p.lines.Scan() {
		p.output = append(p.output, p.lines.Text())
	}
	p.ended = true
	if err := p.cmd.Wait(); p.cmd.ProcessState.ExitCode() != code {
		p.t.Fatalf("the program: got %v, want exit code %d", err, code)
	}
	return strings.Join(p.output, "\n")
}

// Kill kills it at once.
func (p *Program) Kill() {
	if !p.ended {
		p.ended = true
		_ = p.cmd.Process.Kill() // it may have ended by itself
		_ = p.cmd.Wait()
	}
}
