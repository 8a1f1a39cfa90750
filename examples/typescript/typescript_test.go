// Package typescript is a client for Node.js. Its test runs it with the commands of the README.
package typescript

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/examples/internal/child"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

const token = "sesame"

// TestMain makes the test binary run a node when it is started as a program.
func TestMain(m *testing.M) {
	child.Main(m, func() { os.Exit(serve.Main(serve.Config{Plugins: []plugin.Factory{child.Letter()}})) })
}

// served starts a node that serves over HTTP, and returns its address.
func served(t *testing.T, model string) *url.URL {
	t.Helper()
	tokens := filepath.Join(t.TempDir(), "tokens")
	runtest.NoError(t, os.WriteFile(tokens, fmt.Appendf(nil, "me read,write,approve %x\n", sha256.Sum256([]byte(token))), 0o600))
	node := child.Start(t, []string{"OPENAI_BASE_URL=" + model}, "--store", filepath.Join(t.TempDir(), "st"),
		"--listen", "127.0.0.1:0", "--model", "m", "--plugins", "gate,send_letter", "--http", "127.0.0.1:0", "--http-tokens", tokens)
	_, rest, _ := strings.Cut(node.Await("HTTP on "), "HTTP on ")
	at, _, _ := strings.Cut(rest, "/v1")
	node.Await("serving, provider openai")
	u, err := url.Parse(at)
	runtest.NoError(t, err)
	return u
}

// cut is a stream whose connection is lost after a number of messages.
type cut struct {
	io.ReadCloser
	messages int
	last     byte
}

func (c *cut) Read(p []byte) (int, error) {
	if c.messages == 0 {
		return 0, errors.New("cut")
	}
	n, err := c.ReadCloser.Read(p[:min(1, len(p))])
	if n == 1 {
		if p[0] == '\n' && c.last == '\n' {
			c.messages--
		}
		c.last = p[0]
	}
	return n, err
}

// halfReply is a model that calls a tool. It then writes the first half of its answer, and the other half after release.
func halfReply(t *testing.T, release <-chan struct{}) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m"}]}`)
			return
		}
		body, err := io.ReadAll(r.Body)
		var request llm.Request
		if err == nil {
			request, err = llmtest.OpenAI{}.Read(body)
		}
		if err != nil {
			t.Errorf("request to the model: %v", err)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		results := llmtest.Results(request)
		if len(results) == 0 {
			text, end := llmtest.OpenAI{}.Stream(llmtest.Calls(events.Part{Call: "c", Tool: "send_letter", Args: []byte(`{"To":"Ann","Text":"Monday."}`)}))
			_, _ = io.WriteString(w, text+end)
			return
		}
		first, _ := llmtest.OpenAI{}.Stream(llmtest.Text("The tool said: "))
		_, _ = io.WriteString(w, first)
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
		second, end := llmtest.OpenAI{}.Stream(llmtest.Text(results[0].Text))
		_, _ = io.WriteString(w, second+end)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// awaited is output that is read while the program runs. Its text closes seen.
type awaited struct {
	all  bytes.Buffer
	text string
	seen chan struct{}
	done bool
}

func (a *awaited) Write(p []byte) (int, error) {
	n, err := a.all.Write(p)
	if !a.done && strings.Contains(a.all.String(), a.text) {
		a.done = true
		close(a.seen)
	}
	return n, err
}

// clientDir is a folder with the client and what it imports.
func clientDir(t *testing.T, modules string) string {
	t.Helper()
	dir := t.TempDir()
	links := map[string]string{modules: "node_modules"}
	for _, name := range []string{"client.ts", "package.json", "tsconfig.json"} {
		own, err := filepath.Abs(name)
		runtest.NoError(t, err)
		links[own] = name
	}
	for own, name := range links {
		runtest.NoError(t, os.Symlink(own, filepath.Join(dir, name)))
	}
	return dir
}

// TestLongClient compiles the client in strict mode, and runs a turn over a connection that is lost twice. The client
// shows each commit once, in order, approves the call, and shows the first half of the answer before the model has written the other.
func TestLongClient(t *testing.T) {
	t.Parallel()
	modules := runtest.NPM(t)
	out := &awaited{text: "\nThe tool said: ", seen: make(chan struct{})}
	node := served(t, halfReply(t, out.seen))
	var streams atomic.Int64
	proxy := httputil.NewSingleHostReverseProxy(node)
	proxy.ErrorLog = log.New(io.Discard, "", 0)
	proxy.ModifyResponse = func(r *http.Response) error {
		if strings.HasSuffix(r.Request.URL.Path, "/events") && streams.Add(1) <= 2 {
			r.Body = &cut{ReadCloser: r.Body, messages: 2}
		}
		return nil
	}
	lossy := httptest.NewServer(proxy)
	t.Cleanup(lossy.Close)
	dir := clientDir(t, modules)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, args := range [][]string{{"types"}, {"build"}, {"start", "Write to Ann."}} {
		cmd := exec.CommandContext(ctx, "npm", append([]string{"run", "--silent"}, args...)...) //nolint:gosec // of package.json
		cmd.Dir, cmd.Stderr, cmd.Stdout = dir, t.Output(), out
		cmd.WaitDelay = time.Second // node is a child of npm, and outlives it where npm is killed
		cmd.Env = append(os.Environ(), "LASH_URL="+lossy.URL, "LASH_TOKEN="+token, "npm_config_update_notifier=false")
		if err := cmd.Run(); err != nil {
			t.Fatalf("npm run %v: %v\n%s", args, err, out.all.String())
		}
	}
	for _, want := range []string{"Let send_letter run? yes\n", "\nThe tool said: sent to Ann\n", `{"type":"assistant_message","text":"The tool said: sent to Ann"}`} {
		if !strings.Contains(out.all.String(), want) {
			t.Errorf("got %s, want %q in it", out.all.String(), want)
		}
	}
	commits := regexp.MustCompile(`(?m)^(\d+) [a-z]`).FindAllSubmatch(out.all.Bytes(), -1)
	for i, m := range commits {
		if string(m[1]) != fmt.Sprint(i+1) {
			t.Errorf("got %s, want each sequence once, in order", out.all.String())
		}
	}
	if lost := strings.Count(out.all.String(), "the connection is lost after sequence "); lost != 2 || len(commits) < 4 {
		t.Errorf("got %s, want two lost connections, and more", out.all.String())
	}
}

// TestReadmeTokens runs the lines of the README that make the token and its file: the file has the digest of the token that is printed.
func TestReadmeTokens(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	runtest.NoError(t, err)
	_, block, _ := strings.Cut(string(readme), "```sh\n")
	script, _, found := strings.Cut(block, "export OPENAI_API_KEY")
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script) //nolint:gosec // of this folder
	cmd.Dir, cmd.Stderr = t.TempDir(), t.Output()
	printed, err := cmd.Output()
	if err != nil || !found {
		t.Fatalf("%s: %v", script, err)
	}
	got, err := os.ReadFile(filepath.Join(cmd.Dir, "tokens"))
	want := fmt.Sprintf("me read,write,approve %x\n", sha256.Sum256(bytes.TrimSpace(printed)))
	if err != nil || len(printed) < 33 || string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
