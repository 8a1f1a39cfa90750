package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
)

// TestServeWaits starts a node before its servers: it says what it waits for, and serves once they are there.
func TestServeWaits(t *testing.T) {
	t.Parallel()
	ports, err := busembed.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	s := &serving{cmd: exec.CommandContext(limited(t), os.Args[0])}
	s.cmd.Args = []string{"lash-node", "serve", "--nats", fmt.Sprintf("nats://127.0.0.1:%d", ports[0])} // the name makes the test binary the command
	s.cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "ANTHROPIC_API_KEY=", "GORACE=atexit_sleep_ms=0")
	stderr, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.err = tailOf(stderr)
	said := func(want string) {
		t.Helper()
		for s.err.Scan() {
			if strings.Contains(s.err.Text(), want) {
				return
			}
		}
		t.Fatalf("it ended before it said %q", want)
	}
	for range 2 {
		said("lash-node: waiting: connect to nats://127.0.0.1:")
	}
	bustest.Server(t, busembed.Config{Listen: true, Port: ports[0]})
	said("serving, provider ")
	s.stop(t, syscall.SIGTERM)
}

// TestServeKeepsReplicas starts a node that is told fewer replicas than the shared streams have: it says so and keeps them.
func TestServeKeepsReplicas(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	c.Open(t)
	node := serve(t, "--nats", c.URL)
	if want := "lash-node: shared streams have 3 replicas, this node was told 1: keeps 3"; !slices.Contains(node.said, want) {
		t.Errorf("said %q, want %q", node.said, want)
	}
	node.stop(t, syscall.SIGTERM)
	if has := c.Open(t).Replicas(); has != 3 {
		t.Errorf("replicas: got %d, want 3", has)
	}
}

// TestServeNamesNoModel starts nodes with and without a model: one that asks a real provider says that sessions have to name it.
func TestServeNamesNoModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		endpoint string
		args     []string
		says     bool
	}{{"http://127.0.0.1:1", nil, true}, {"http://127.0.0.1:1", []string{"--model", "m"}, false}, {"", nil, false}} {
		node := serveModel(t, tc.endpoint, append([]string{"--store", t.TempDir(), "--listen", "127.0.0.1:0"}, tc.args...)...)
		if got := slices.Contains(node.said, "lash-node: no --model: sessions have to name one"); got != tc.says {
			t.Errorf("endpoint %q, %q: said %q, want the hint: %v", tc.endpoint, tc.args, node.said, tc.says)
		}
		node.stop(t, syscall.SIGTERM)
	}
}
