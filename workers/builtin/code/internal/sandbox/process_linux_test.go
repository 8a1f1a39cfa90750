package sandbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lash-go/lash/internal/runtest"
)

const nodeEnv = "LASH_SANDBOX_NODE"

// children is the processes that this one has started.
func children() string {
	var all []string
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		data, _ := os.ReadFile(file)
		all = append(all, strings.Fields(string(data))...)
	}
	return strings.Join(all, " ")
}

// telling is a caller that prints the process of its program.
type telling struct{ Caller }

func (telling) Message(string, string) { fmt.Println("process", children()) }

// TestProcessEndsWithItsNode kills a process that runs a program, and waits for the end of the program's process.
func TestProcessEndsWithItsNode(t *testing.T) {
	if os.Getenv(nodeEnv) != "" {
		_, err := Run(context.Background(), Limits{Steps: 1 << 60, Timeout: time.Hour}, Request{Code: "message('up')\nwhile True: pass"}, telling{})
		fmt.Println("ended", err)
		os.Exit(9)
	}
	t.Parallel()
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessEndsWithItsNode$") //nolint:gosec // this binary
	node.Env = append(os.Environ(), nodeEnv+"=1")
	out, err := node.StdoutPipe()
	runtest.NoError(t, err)
	runtest.NoError(t, node.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, pidErr := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "process ")))
	if err != nil || pidErr != nil {
		t.Fatalf("got %q, %v, want one process", line, err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatalf("the process of the program: %v", err)
	}
	defer unix.Close(fd) //nolint:errcheck // it was only polled
	_ = node.Process.Kill()
	_ = node.Wait()
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}} //nolint:gosec // small
	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		_, err = unix.Poll(poll, 120_000)
	}
	if poll[0].Revents == 0 || err != nil {
		t.Errorf("the process still runs: %v", err)
	}
}

// TestWallIsWithinThatOfTheNode has a node with less memory than the wall of a program.
func TestWallIsWithinThatOfTheNode(t *testing.T) {
	if os.Getenv(nodeEnv) != "" {
		own := unix.Rlimit{Cur: 1 << 29, Max: 1 << 29}
		err := errors.Join(unix.Setrlimit(unix.RLIMIT_DATA, &own), wall(1<<30), unix.Getrlimit(unix.RLIMIT_DATA, &own))
		fmt.Println(own.Max, err)
		os.Exit(0)
	}
	t.Parallel()
	node := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestWallIsWithinThatOfTheNode$") //nolint:gosec // this binary
	node.Env = append(os.Environ(), nodeEnv+"=1")
	if out, err := node.Output(); err != nil || string(out) != "536870912 <nil>\n" {
		t.Errorf("got %q, %v, want the limit of the node", out, err)
	}
}

// TestProcessSeesNothing expects no environment in the process of a program.
func TestProcessSeesNothing(t *testing.T) {
	t.Setenv("SOME_API_KEY", "secret")
	p, err := startProcess(t.Context())
	runtest.NoError(t, err)
	defer p.wait()
	defer p.kill()
	pid := strings.Fields(children())
	environ, err := os.ReadFile("/proc/" + pid[len(pid)-1] + "/environ")
	if err != nil || len(environ) > 0 {
		t.Errorf("environment: got %q, %v", environ, err)
	}
}

func BenchmarkProgram(b *testing.B) {
	for b.Loop() {
		_, err := Run(b.Context(), Limits{}, Request{Code: "x = add(a=1, b=2)", Tools: []string{"add"}}, newDesk())
		runtest.NoError(b, err)
	}
}
