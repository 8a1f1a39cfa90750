package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongServeWaits starts a node before its servers. The node prints what it waits for, and serves once they run.
func TestLongServeWaits(t *testing.T) {
	t.Parallel()
	ports, err := busembed.FreePorts(1)
	runtest.NoError(t, err)
	s := &serving{cmd: exec.CommandContext(limited(t), os.Args[0])}
	s.cmd.Args = []string{"lash-node", "serve", "--nats", fmt.Sprintf("nats://127.0.0.1:%d", ports[0])} // this name makes the test binary run the command
	s.cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "ANTHROPIC_API_KEY=", "GORACE=atexit_sleep_ms=0")
	stderr, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	runtest.NoError(t, err)
	s.err = tailOf(stderr)
	output := func(want string) {
		t.Helper()
		for s.err.Scan() {
			if strings.Contains(s.err.Text(), want) {
				return
			}
		}
		t.Fatalf("it ended before it said %q", want)
	}
	for range 2 {
		output("lash-node: waiting: connect to nats://127.0.0.1:")
	}
	bustest.Server(t, busembed.Config{Listen: true, Port: ports[0]})
	output("serving, provider ")
	s.stop(t, syscall.SIGTERM)
}

// TestLongServeKeepsReplicas starts a node with fewer replicas than the shared streams have. The node reports that and
// keeps them.
func TestLongServeKeepsReplicas(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	c.Open(t)
	node := served(t, "--nats", c.URL)
	if want := "lash-node: shared streams have 3 replicas, this node was told 1: keeps 3"; !slices.Contains(node.lines, want) {
		t.Errorf("said %q, want %q", node.lines, want)
	}
	node.stop(t, syscall.SIGTERM)
	runtest.Equal(t, "replicas", c.Open(t).Replicas(), 3)
}

// TestLongServeChecksModel starts nodes with each shipped provider. A missing model is refused with the list of models, and so
// is a wrong key. A model that the list lacks is a warning, and an endpoint without a list is accepted.
func TestLongServeChecksModel(t *testing.T) {
	t.Parallel()
	listing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/models" && r.URL.Path != "/v1/models":
			http.NotFound(w, r)
		case r.Header.Get("Authorization") == "Bearer wrong" || r.Header.Get("X-Api-Key") == "wrong":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"type":"authentication_error","message":"no such key"}}`)
		default:
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"large"},{"id":"b-small"}]}`)
		}
	}))
	t.Cleanup(listing.Close)
	bare := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(bare.Close)
	for provider, dialect := range map[string]string{"openai": "OPENAI", "openai-responses": "OPENAI", "anthropic": "ANTHROPIC"} {
		for _, tc := range []struct{ url, key, model, says string }{
			{listing.URL, "k", "", "lash-node: --model is missing: " + provider + " has b-small, large"},
			{listing.URL, "wrong", "large", "lash-node: --provider " + provider + ": auth (HTTP 401): no such key (check the API key of the endpoint): check the key in the environment"},
			{bare.URL, "k", "", "lash-node: --model is missing, and " + provider + " gives no list to choose from: "},
		} {
			env := []string{dialect + "_API_KEY=" + tc.key, dialect + "_BASE_URL=" + tc.url}
			output, code := refusedServe(t, env, provider, tc.model)
			if code != exitFailed || !strings.Contains(output, tc.says) {
				t.Errorf("%s %+v: got exit %d and %q, want %d and %q", provider, tc, code, output, exitFailed, tc.says)
			}
		}
		for _, url := range []string{bare.URL, "http://127.0.0.1:1", listing.URL} {
			node := serveIn(t, []string{dialect + "_API_KEY=k", dialect + "_BASE_URL=" + url}, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--provider", provider, "--model", "large")
			warned := slices.ContainsFunc(node.lines, func(line string) bool {
				return strings.HasPrefix(line, "lash-node: --model large is not checked: "+provider+" gives no list of models: ") && strings.Contains(line, "is its base URL") == (url == "http://127.0.0.1:1") &&
					strings.HasSuffix(line, "OPENAI_BASE_URL mostly ends with /v1") == (url == bare.URL && dialect == "OPENAI")
			})
			if warned != (url != listing.URL) {
				t.Errorf("%s at %s: said %q", provider, url, node.lines)
			}
			node.stop(t, syscall.SIGTERM)
		}
		node := serveIn(t, []string{dialect + "_API_KEY=k", dialect + "_BASE_URL=" + listing.URL}, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--provider", provider, "--model", "larg")
		if want := "lash-node: --model larg: the list of " + provider + " has none of that name; it has b-small, large"; !slices.Contains(node.lines, want) {
			t.Errorf("%s: said %q, want %q", provider, node.lines, want)
		}
		node.stop(t, syscall.SIGTERM)
	}
}

// refusedServe is the output of a node that does not start, and its exit code.
func refusedServe(t *testing.T, env []string, provider, model string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(limited(t), os.Args[0])
	cmd.Args = []string{"lash-node", "serve", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--provider", provider}
	if model != "" {
		cmd.Args = append(cmd.Args, "--model", model)
	}
	cmd.Env = append(os.Environ(), "OPENAI_API_KEY=", "OPENAI_BASE_URL=", "ANTHROPIC_API_KEY=", "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, env...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}
