package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// serving is a node in a process of its own.
type serving struct {
	cmd   *exec.Cmd
	url   string
	store string // directory of its embedded server
	http  string // address of its HTTP server
	ops   string // address of its metrics, with --ops
	err   *tail
	out   bytes.Buffer // standard output, complete once the process has ended
	lines []string     // lines of standard error
}

// tail has the lines that a process writes. It reads all the time, so that the process does not block.
type tail struct {
	mu    sync.Mutex
	more  *sync.Cond
	lines []string
	ended bool
	text  string
}

func tailOf(r io.Reader) *tail {
	t := &tail{}
	t.more = sync.NewCond(&t.mu)
	go func() { // ends with the process
		for lines := bufio.NewScanner(r); lines.Scan(); {
			t.mu.Lock()
			t.lines = append(t.lines, lines.Text())
			t.mu.Unlock()
			t.more.Signal()
		}
		t.mu.Lock()
		t.ended = true
		t.mu.Unlock()
		t.more.Signal()
	}()
	return t
}

// Scan waits for the next line. It is false after the last one.
func (t *tail) Scan() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.lines) == 0 && !t.ended {
		t.more.Wait()
	}
	if len(t.lines) == 0 {
		return false
	}
	t.text, t.lines = t.lines[0], t.lines[1:]
	return true
}

func (t *tail) Text() string { return t.text }

// limited is a context that ends with the test, and before the test's time limit.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// served starts a node and waits until it serves.
func served(t *testing.T, args ...string) *serving {
	t.Helper()
	return serveModel(t, "", args...)
}

// serveModel is served with an OpenAI-compatible endpoint.
func serveModel(t *testing.T, model string, args ...string) *serving {
	t.Helper()
	if model != "" {
		args = append(args, "--model", "m")
	}
	return serveIn(t, []string{"OPENAI_BASE_URL=" + model}, args...)
}

// serveIn is served with additional environment variables.
func serveIn(t *testing.T, env []string, args ...string) *serving {
	t.Helper()
	return serveAs(t, exec.CommandContext(limited(t), os.Args[0]), env, args...)
}

// serveAs is serveIn with a command that sets the path of the program.
func serveAs(t *testing.T, cmd *exec.Cmd, env []string, args ...string) *serving {
	t.Helper()
	cmd.Args = append([]string{"lash-node", "serve"}, args...) // this name makes the test binary run the command
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "ANTHROPIC_API_KEY=", "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, env...)
	return serveCommand(t, cmd)
}

// serveCommand is served with a command that the test made.
func serveCommand(t *testing.T, cmd *exec.Cmd) *serving {
	t.Helper()
	s := &serving{cmd: cmd}
	cmd.Stdout = &s.out
	stderr, err := cmd.StderrPipe()
	runtest.NoError(t, err)
	runtest.NoError(t, cmd.Start())
	s.err = tailOf(stderr)
	for s.err.Scan() {
		line := s.err.Text()
		s.lines = append(s.lines, line)
		if _, rest, ok := strings.Cut(line, "NATS on "); ok {
			s.url, rest, _ = strings.Cut(rest, ", for programs with the credentials in ")
			s.store = filepath.Dir(rest)
		}
		if _, rest, ok := strings.Cut(line, "metrics on "); ok {
			s.ops, _, _ = strings.Cut(rest, "/metrics, for everyone")
		}
		if _, rest, ok := strings.Cut(line, "HTTP on "); ok {
			s.http, _, _ = strings.Cut(rest, ",")
		}
		if strings.Contains(line, "serving, provider ") {
			return s
		}
	}
	t.Fatalf("it ended before it served: %v\n%s", cmd.Wait(), strings.Join(s.lines, "\n"))
	return nil
}

// open opens a bus on the node's embedded server, by the key in its store.
func (s *serving) open(t *testing.T) *bus.Bus {
	t.Helper()
	key, err := busembed.ReadAccess(s.store)
	runtest.NoError(t, err)
	b, err := bus.Open(limited(t), bus.Config{URL: s.url, Options: []nats.Option{key.Option()}})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// stop sends a signal to the node and checks for exit code 0.
func (s *serving) stop(t *testing.T, signal os.Signal) {
	t.Helper()
	runtest.NoError(t, s.cmd.Process.Signal(signal))
	var rest []string
	for s.err.Scan() {
		rest = append(rest, s.err.Text())
	}
	s.lines = append(s.lines, rest...)
	if t.Failed() {
		t.Logf("the node wrote:\n%s", strings.Join(rest, "\n"))
	}
	if err := s.cmd.Wait(); err != nil || !strings.Contains(strings.Join(rest, "\n"), "handing running turns over") {
		t.Errorf("after %v: got %v and %q, want exit code 0", signal, err, rest)
	}
}

// TestServe runs a turn on a node in another process and stops the node. The next node, on the same store by a
// configuration file, has the history.
func TestServe(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "st")
	config := filepath.Join(t.TempDir(), "config.json")
	runtest.NoError(t, os.WriteFile(config, []byte(`{"store":"`+store+`","listen":"127.0.0.1:0","profile":"always","grace":"3s"}`), 0o600))
	ask := func(s *serving, turn events.TurnID) {
		t.Helper()
		h, err := session.New(session.Config{Bus: s.open(t), Plugins: session.NoPlugins()})
		runtest.NoError(t, err)
		if _, err := h.Create(limited(t), api.CreateRequest{ID: "s"}); err != nil && !errors.Is(err, api.ErrExists) {
			t.Fatal(err)
		}
		r, err := h.Run(limited(t), "s", api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "hi"}}}})
		if err != nil || r.End != events.EndFinished || !strings.Contains(r.Text, "This node has no model") {
			t.Errorf("turn %s: got %+v, %v, want the advice of a node without a model", turn, r, err)
		}
		if want := int64(len(turn)); r.Index != want {
			t.Errorf("turn %s: got index %d, want %d", turn, r.Index, want)
		}
	}
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	one := served(t, "--store", store, "--listen", "127.0.0.1:0", "--set", "trace="+trace)
	ask(one, "t")
	second := exec.CommandContext(limited(t), os.Args[0])
	second.Args = []string{"lash-node", "serve", "--store", store, "--listen", "127.0.0.1:0"}
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "store is in use by a running process") {
		t.Errorf("a second node on the store: got %v, %s, want a refusal", err, out)
	}
	one.stop(t, syscall.SIGTERM)
	lines, err := os.ReadFile(trace)
	if err != nil || !strings.Contains(string(lines), `"event":{"type":"turn_completed","status":"finished","reason":"finished",`) || !strings.HasSuffix(string(lines), "}\n") {
		t.Errorf("trace: got %s, %v, want lines with the end of the turn", lines, err)
	}
	two := served(t, "--config", config)
	ask(two, "tt")
	two.stop(t, os.Interrupt)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	s := &streams{Out: io.Discard, Err: io.Discard, Env: func(string) string { return "" }}
	for _, tc := range []struct {
		args []string
		want int
	}{{[]string{"--help"}, exitOK}, {[]string{"fly"}, exitFailed}, {nil, exitFailed}} {
		if got := run(t.Context(), tc.args, s); got != tc.want {
			t.Errorf("%q: got exit code %d, want %d", tc.args, got, tc.want)
		}
	}
}
