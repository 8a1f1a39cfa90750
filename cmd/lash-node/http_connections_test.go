package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// TestLongIdleConnections opens more connections to a node than its limit of open files. Turns and a client with a token
// continue.
func TestLongIdleConnections(t *testing.T) {
	t.Parallel()
	node := filepath.Join(t.TempDir(), "lash-node") // this name makes the test binary run the command
	runtest.NoError(t, os.Symlink(os.Args[0], node))
	tokens := tokenFile(t, "x")
	limit := func(args ...string) *exec.Cmd {
		return exec.CommandContext(limited(t), "sh", append([]string{"-c", `ulimit -n 1024 && exec "$0" serve "$@"`, node, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokens}, args...)...)
	}
	out, err := limit("--set", "http-connections=513").CombinedOutput()
	if want := "setting http-connections 513: want 1 to 512, half of the 1024 files"; err == nil || !bytes.Contains(out, []byte(want)) {
		t.Errorf("one too many: got %s, %v, want %q", out, err, want)
	}
	s := serveCommand(t, limit())
	address := strings.TrimSuffix(strings.TrimPrefix(s.http, "http://"), "/v1")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if got := s.request(t, client, "x", "POST", "/sessions", `{"id":"s"}`); got != http.StatusCreated {
		t.Fatalf("create: got %d, want 201", got)
	}
	for n := range 1200 {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, byte(n%50), 1)}}
		c, err := dialer.DialContext(limited(t), "tcp", address)
		runtest.NoError(t, err)
		defer c.Close() //nolint:errcheck // the node has closed it
		_, _ = c.Write([]byte("GET /v1/sessions/s HTTP/1.1\r\nX: "[:n%2*30]))
		if n%200 != 199 {
			continue
		}
		if open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)); err == nil && len(open) > 768 { // half of the limit is for connections, and the rest for the node
			t.Fatalf("after %d connections: got %d files open, want room below 1024", n, len(open))
		}
		r, _ := http.NewRequestWithContext(limited(t), http.MethodPost, s.http+"/sessions/s/turns?wait=60", strings.NewReader(fmt.Sprintf(`{"id":"t%d","text":"hi"}`, n)))
		r.Header.Set("Authorization", "Bearer x")
		got, err := client.Do(r)
		if err != nil {
			t.Fatalf("turn after %d connections: %v", n, err)
		}
		answer, err := io.ReadAll(got.Body)
		_ = got.Body.Close()
		if err != nil || !strings.Contains(string(answer), "This node has no model") {
			t.Errorf("turn after %d connections: got %s, %v", n, answer, err)
		}
	}
	s.stop(t, syscall.SIGTERM)
}
