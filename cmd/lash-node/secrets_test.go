package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// Secrets in the configuration of a node, which no output may contain.
const (
	secretKey       = "sk-secret-key-0123456789"
	secretPassword  = "secret-password-of-nats"
	secretWrong     = "secret-wrong-password-of-nats"
	secretCollector = "secret-password-of-the-collector"
	secretHeader    = "secret-header-of-the-collector"
	secretToken     = "secret-token-of-http"
)

// echoes is an endpoint that refuses every request and repeats its credentials in the answer.
func echoes(t *testing.T) *url.URL {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // a list of models: its failure does not stop the node
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Request-Id", r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = fmt.Fprintf(w, `{"error":{"type":"authentication_error","code":"invalid_api_key","message":"not with %s"}}`, r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	runtest.NoError(t, err)
	return u
}

// locked starts a server with JetStream and one permitted user, and returns its address.
func locked(t *testing.T, store string) (ns *server.Server, address string) {
	t.Helper()
	ns, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: store, NoLog: true, NoSigs: true, Username: "me", Password: secretPassword,
	})
	runtest.NoError(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(time.Minute) {
		t.Fatal("the server takes no connections")
	}
	return ns, ns.Addr().String()
}

// TestLongSecretsStayInside runs a node with a secret in every setting that takes one, against endpoints that echo them.
// It searches for them in all output and files of the node.
func TestLongSecretsStayInside(t *testing.T) {
	t.Parallel()
	store, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace.jsonl")
	ns, address := locked(t, store)
	collector := echoes(t)
	collector.User = url.UserPassword("me", secretCollector)
	inside := "nats://me:" + secretPassword + "@" + address
	s := serveIn(t, []string{
		"OPENAI_API_KEY=" + secretKey, "OPENAI_BASE_URL=" + echoes(t).String(), "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + secretHeader,
	}, "--nats", inside, "--model", "m", "--set", "debug=true", "--set", "trace="+trace, "--set", "otlp="+collector.String(), "--ops", "127.0.0.1:0",
		"--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, secretToken))
	left := map[string][]byte{}
	ask := func(path, body string) string {
		t.Helper()
		r, err := http.NewRequestWithContext(limited(t), http.MethodPost, s.http+path, strings.NewReader(body))
		runtest.NoError(t, err)
		r.Header.Set("Authorization", "Bearer "+secretToken)
		got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
		runtest.NoError(t, err)
		defer got.Body.Close() //nolint:errcheck // read to its end
		all, err := io.ReadAll(got.Body)
		runtest.NoError(t, err)
		left["answers over HTTP"] = append(left["answers over HTTP"], all...)
		return string(all)
	}
	ask("/sessions", `{"id":"s"}`)
	if got := ask("/sessions/s/turns?wait=60", `{"text":"hi"}`); !strings.Contains(got, "provider_error") {
		t.Errorf("turn: got %s, want it to fail at the provider", got)
	}
	left["metrics"] = []byte(get(t, s.ops+"/metrics"))
	left["history"] = decoded(t, inside)
	s.stop(t, syscall.SIGTERM)
	left["standard output"], left["standard error"] = s.out.Bytes(), []byte(strings.Join(s.lines, "\n"))
	left["trace"] = tree(t, filepath.Dir(trace))
	ns.Shutdown()
	ns.WaitForShutdown()
	left["store"] = tree(t, store)
	for where, tried := range map[string]string{
		"history": "not with", "trace": "provider_error", "store": "not with", "metrics": "lash_model_calls_total{", "standard error": "traces export: send spans",
	} {
		if !bytes.Contains(left[where], []byte(tried)) {
			t.Errorf("%s: got nothing of %q, so nothing was tried: %.2000s", where, tried, left[where])
		}
	}
	for _, step := range []string{`"msg":"committed"`, `"turn.started"`, `"turn.completed"`} { // lines that debug=true writes
		if !bytes.Contains(left["standard error"], []byte(step)) {
			t.Errorf("standard error: got nothing of %s", step)
		}
	}
	for where, body := range left {
		wantNoSecret(t, where, body)
	}
}

// TestWrongPassword: the servers refuse the password, and no output contains it.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	_, address := locked(t, t.TempDir())
	for _, command := range []string{"serve", "approvals"} {
		for name, at := range map[string]string{"wrong": address, "nobody_there": "127.0.0.1:1", "no_port": "127.0.0.1:none"} {
			t.Run(command+"_"+name, func(t *testing.T) {
				t.Parallel()
				args := []string{command, "--nats", "nats://me:" + secretWrong + "@" + at}
				if command == "approvals" {
					args = append(args, "s")
				}
				ctx, stop := context.WithCancel(limited(t))
				defer stop()
				cmd := exec.CommandContext(ctx, os.Args[0])
				cmd.Args = append([]string{"lash-node"}, args...)
				program := &untilWaiting{stop: stop}
				cmd.Stdout, cmd.Stderr = program, program
				err := cmd.Run()
				output := program.output.Bytes()
				if err == nil || !bytes.Contains(output, []byte("127.0.0.1")) {
					t.Errorf("got %v and %s, want a refusal that names the server", err, output)
				}
				wantNoSecret(t, "what it says", output)
			})
		}
	}
}

// untilWaiting keeps the output of a program, and stops the program once it prints that it waits.
type untilWaiting struct {
	output bytes.Buffer
	stop   func()
}

func (w *untilWaiting) Write(p []byte) (int, error) {
	n, err := w.output.Write(p)
	if bytes.Contains(w.output.Bytes(), []byte("lash-node: waiting: ")) {
		w.stop()
	}
	return n, err
}

// TestLongWrongHeaders sets unreadable headers for the collector, which the exporter itself would log.
func TestLongWrongHeaders(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"no_name": secretHeader, "bad_name": "a=b,Bearer " + secretHeader + "=c", "bad_value": "authorization=" + secretHeader + "%zz", "empty_entry": "a=" + secretHeader + ",",
	} {
		for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
			t.Run(name+"_"+variable, func(t *testing.T) {
				t.Parallel()
				cmd := exec.CommandContext(limited(t), os.Args[0])
				cmd.Args = []string{"lash-node", "serve", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--set", "otlp=http://127.0.0.1:1"}
				cmd.Args = append(cmd.Args, "--ops", "127.0.0.1:none") // the node exits, whatever the headers are
				cmd.Env = append(os.Environ(), variable+"="+value)
				output, err := cmd.CombinedOutput()
				if err == nil || !bytes.Contains(output, []byte(variable+": entry ")) {
					t.Errorf("got %v and %s, want a refusal that names the variable", err, output)
				}
				wantNoSecret(t, "what it says", output)
			})
		}
	}
}

// wantNoSecret fails for every secret that a text contains.
func wantNoSecret(t *testing.T, where string, body []byte) {
	t.Helper()
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(secretToken)))
	for _, secret := range []string{secretKey, secretPassword, secretWrong, secretCollector, secretHeader, secretToken, digest} {
		if i := bytes.Index(body, []byte(secret)); i >= 0 {
			t.Errorf("%s: has %s, after %q", where, secret, body[max(0, i-200):i])
		}
	}
}

// decoded is every event of the session, decoded.
func decoded(t *testing.T, url string) (all []byte) {
	t.Helper()
	b, err := bus.Open(limited(t), bus.Config{URL: url})
	runtest.NoError(t, err)
	defer b.Close()
	for entry, err := range b.Log().Read(limited(t), "s", 1) {
		runtest.NoError(t, err)
		all = fmt.Appendf(all, "%+v\n", entry.Commit)
		for i := range entry.Commit.Events {
			raw, err := events.EncodePayload(entry.Commit.Events[i].Payload)
			runtest.NoError(t, err)
			all = fmt.Appendf(all, "%+v %s\n", entry.Commit.Events[i], raw)
		}
	}
	return all
}

// tree is the content of every file under a directory.
func tree(t *testing.T, dir string) (all []byte) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path) //nolint:gosec // the test wrote it
		all = append(all, data...)
		return err
	})
	runtest.NoError(t, err)
	return all
}

// TestLongServeEndsWhenRefused changes the password of the servers under a node. Servers refuse the old one, and the client gives
// up for good. The node says so and ends, so that what started it can start it again.
func TestLongServeEndsWhenRefused(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	ns, address := locked(t, store)
	s := serveIn(t, nil, "--nats", "nats://me:"+secretPassword+"@"+address, "--provider", "scripted")
	runtest.NoError(t, ns.ReloadOptions(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: store, NoLog: true, NoSigs: true, Username: "me", Password: "another",
	}))
	var last string
	for s.err.Scan() {
		last = s.err.Text()
	}
	err := s.cmd.Wait()
	if code := s.cmd.ProcessState.ExitCode(); code != exitFailed || !strings.Contains(last, "closed this node's connection for good") {
		t.Errorf("got %v and %q, want exit code %d and the reason", err, last, exitFailed)
	}
	wantNoSecret(t, "serve", []byte(last))
}
