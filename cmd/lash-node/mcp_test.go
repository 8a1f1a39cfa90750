package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// agent is another agent, which started `lash-node mcp`.
type agent struct {
	t        *testing.T
	c        *mcp.ClientSession
	results  map[string]*jsonschema.Resolved // by tool
	mu       sync.Mutex
	progress []string
}

// overStdio starts `lash-node mcp`.
func overStdio(t *testing.T, url, token string) mcp.Transport {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{"lash-node", "mcp", "--url", url, "--token-file", file(t, "token", []byte(token+"\n"))}
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	return &mcp.CommandTransport{Command: cmd}
}

// overHTTP sends requests to the node itself.
func overHTTP(_ *testing.T, url, token string) mcp.Transport {
	client := &http.Client{Transport: &authorized{token, http.DefaultTransport}}
	return &mcp.StreamableClientTransport{Endpoint: url + "/mcp", HTTPClient: client, MaxRetries: -1}
}

func startAgent(t *testing.T, to mcp.Transport) *agent {
	t.Helper()
	a := &agent{t: t}
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.progress = append(a.progress, r.Params.Message)
		},
	})
	var err error
	if a.c, err = client.Connect(t.Context(), to, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.c.Close() }) // the node may have ended
	a.results = make(map[string]*jsonschema.Resolved)
	for tool, err := range a.c.Tools(t.Context(), nil) {
		runtest.NoError(t, err)
		data, err := json.Marshal(tool.OutputSchema)
		schema := new(jsonschema.Schema)
		if err == nil {
			err = json.Unmarshal(data, schema)
		}
		if err == nil {
			a.results[tool.Name], err = schema.Resolve(nil)
		}
		if err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
	}
	return a
}

// do calls a tool, and decodes its result.
func (a *agent) do(tool string, args map[string]any, into any) {
	a.t.Helper()
	if failure := a.call(tool, args, into); failure != "" {
		a.t.Fatalf("%s: %s", tool, failure)
	}
}

// call calls a tool, and decodes its result. The text of a failure is returned.
func (a *agent) call(tool string, args map[string]any, into any) (failure string) {
	a.t.Helper()
	params := &mcp.CallToolParams{Name: tool, Arguments: args}
	params.SetProgressToken("p")
	r, err := a.c.CallTool(a.t.Context(), params)
	if err != nil {
		a.t.Fatalf("%s: %v", tool, err)
	}
	text := r.Content[0].(*mcp.TextContent).Text //nolint:forcetypeassert // these tools return texts
	if r.IsError {
		return text
	}
	if err := a.results[tool].Validate(r.StructuredContent); err != nil {
		a.t.Errorf("%s: %v in %s, want what the tool describes", tool, err, text)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			a.t.Fatalf("%s: %v in %s", tool, err, text)
		}
	}
	return ""
}

// noteModel writes a note by a tool, and then says so.
func noteModel(t *testing.T) (url string) {
	t.Helper()
	return llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		if len(llmtest.Results(req)) == 0 {
			return llmtest.Calls(events.Part{Call: "c", Tool: "write_file", Args: []byte(`{"path":"note","content":"milk"}`)})
		}
		return llmtest.Text("It is written.")
	})
}

// TestMCPServer has another agent create a session, run a turn whose call waits for an approval, answer that, read and search
// the history, and wait for a turn after its connection has ended. A token without the right is refused, as over HTTP.
func TestMCPServer(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]func(t *testing.T, url, token string) mcp.Transport{"stdio": overStdio, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testMCPServer(t, transport)
		})
	}
}

func testMCPServer(t *testing.T, transport func(t *testing.T, url, token string) mcp.Transport) {
	t.Helper()
	dir := t.TempDir()
	tokens := file(t, "tokens", fmt.Appendf(nil, "me admin %x\nreader read %x\n", sha256.Sum256([]byte("sesame")), sha256.Sum256([]byte("looks"))))
	n := serveModel(t, noteModel(t), "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokens, "--plugins", "default,files", "--root", dir)
	defer n.stop(t, syscall.SIGTERM)
	url := n.http
	a := startAgent(t, transport(t, url, "sesame"))
	var made struct{ ID string }
	a.do("create_session", map[string]any{"id": "s1", "labels": map[string]string{"by": "agent"}}, &made)
	var turn struct{ Turn, Status string }
	a.do("run_turn", map[string]any{"session": "s1", "turn": "t1", "text": "write the note"}, &turn)
	if made.ID != "s1" || turn.Status != "asking" {
		t.Fatalf("got %+v and %+v, want a session, and a turn that asks", made, turn)
	}
	var pending struct{ Approvals []struct{ Call, Tool string } }
	a.do("list_approvals", map[string]any{"session": "s1"}, &pending)
	if len(pending.Approvals) != 1 || pending.Approvals[0].Tool != "write_file" {
		t.Fatalf("approvals: got %+v, want write_file", pending)
	}
	looks := startAgent(t, transport(t, url, "looks"))
	if failed := looks.call("answer_approval", map[string]any{"session": "s1", "call": pending.Approvals[0].Call, "granted": true}, nil); !strings.Contains(failed, "forbidden") {
		t.Errorf("approval by a reader: got %q, want it forbidden", failed)
	}
	a.do("answer_approval", map[string]any{"session": "s1", "call": pending.Approvals[0].Call, "granted": true, "reason": "fine"}, nil)
	_ = a.c.Close() // the turn goes on
	b := startAgent(t, transport(t, url, "sesame"))
	var ended struct{ Outcome struct{ Text string } }
	b.do("wait_turn", map[string]any{"session": "s1", "turn": "t1"}, &ended)
	if ended.Outcome.Text != "It is written." {
		t.Errorf("turn: got %+v, want its text", ended)
	}
	if data, err := os.ReadFile(dir + "/note"); err != nil || string(data) != "milk" {
		t.Errorf("file: got %q, %v, want milk", data, err)
	}
	var found struct {
		Found []struct{ Index int }
		Of    int
	}
	looks.do("search_history", map[string]any{"session": "s1", "text": "WRITTEN"}, &found)
	if len(found.Found) == 0 || found.Of < 3 {
		t.Errorf("search: got %+v, want the reply", found)
	}
	for text, messages := range map[string]int{"MILK": 1, "write the note": 1, "assistant": 0, "tool_call": 0, "write_file": 0} { // names of roles, parts and tools are not said
		looks.do("search_history", map[string]any{"session": "s1", "text": text}, &found)
		if len(found.Found) != messages {
			t.Errorf("search of %q: got %+v, want %d messages", text, found, messages)
		}
	}
	var history struct {
		Messages []struct{ Role string }
		Of       int
	}
	var list any
	looks.do("read_history", map[string]any{"session": "s1", "from": 0, "limit": 1}, &history)
	if len(history.Messages) != 1 || history.Messages[0].Role != "user" || history.Of != found.Of {
		t.Errorf("history: got %+v, want the first message of %d", history, found.Of)
	}
	var state struct {
		Status string
		Usage  []any // of this model: none
	}
	looks.do("read_session", map[string]any{"session": "s1"}, &state)
	if state.Status != "open" || state.Usage == nil {
		t.Errorf("session: got %+v, want it open, with its usage", state)
	}
	b.do("list_sessions", map[string]any{"label": "by=agent"}, &list)
	r, err := looks.c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "lash://sessions/s1"})
	if err != nil || !strings.Contains(r.Contents[0].Text, "It is written.") {
		t.Errorf("resource: got %v, %v, want the conversation", r, err)
	}
	if failed := b.call("wait_turn", map[string]any{"session": "s1", "turn": "none", "wait_seconds": 0}, nil); failed == "" {
		t.Error("a turn that does not exist: got no failure")
	}
	if a.mu.Lock(); !strings.Contains(strings.Join(a.progress, ","), "tool_approval_asked write_file") {
		t.Errorf("progress: got %q, want the call that asks", a.progress)
	}
	a.mu.Unlock()
}

// TestLongMCPServerRefused starts the command with what is wrong, and names it.
func TestLongMCPServerRefused(t *testing.T) {
	t.Parallel()
	n := serveModel(t, "", "--provider", "scripted", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "x"))
	defer n.stop(t, syscall.SIGTERM)
	for want, args := range map[string][]string{
		"--token-file or LASH_TOKEN":     {"--url", n.http},
		"--token-file: ":                 {"--url", n.http, "--token-file", "/nowhere/token"},
		"--token-file names another one": {"--url", n.http, "--token-file", file(t, "token", []byte("y"))},
		"is a node there?":               {"--url", "http://127.0.0.1:1", "--token-file", file(t, "token", []byte("x"))},
		"--ca: ":                         {"--ca", "/nowhere/ca", "--token-file", file(t, "token", []byte("x"))},
		"has no certificate":             {"--ca", file(t, "ca", []byte("x")), "--token-file", file(t, "token", []byte("x"))},
		"is it the HTTP API of a node":   {"--url", n.http + "/other", "--token-file", file(t, "token", []byte("x"))},
	} {
		var stderr bytes.Buffer
		in, err := os.Open(os.DevNull)
		runtest.NoError(t, err)
		code := run(t.Context(), append([]string{"mcp"}, args...), &streams{Out: &bytes.Buffer{}, Err: &stderr, In: in, Env: func(string) string { return "" }})
		_ = in.Close()
		if code != exitFailed || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: got %d and %q, want %q", args, code, stderr.String(), want)
		}
	}
}

// TestLongMCPInspector has the command line of the MCP inspector, which others wrote, list the tools, create a session, run a turn and read the
// conversation. It sends no token over HTTP, so it starts the command.
func TestLongMCPInspector(t *testing.T) {
	t.Parallel()
	installed := runtest.NPM(t)
	n := serveModel(t, "", "--provider", "scripted", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "sesame"))
	defer n.stop(t, syscall.SIGTERM)
	inspect := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(limited(t), "node", append([]string{filepath.Join(installed, "@modelcontextprotocol", "inspector-cli", "build", "cli.js"), "--cli"}, args...)...) //nolint:gosec // a program of the test
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v, %s", args, err, out)
		}
		return string(out)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{`"run_turn"`, []string{"tools/list"}},
		{`"readOnlyHint": true`, []string{"tools/list"}},
		{`{\"id\":\"s1\"}`, []string{"tools/call", "--tool-name", "create_session", "--tool-arg", "id=s1"}},
		{`\"outcome\"`, []string{"tools/call", "--tool-name", "run_turn", "--tool-arg", "session=s1", "--tool-arg", "text=hi there"}},
		{`hi there`, []string{"tools/call", "--tool-name", "read_history", "--tool-arg", "session=s1"}},
		{`hi there`, []string{"resources/read", "--uri", "lash://sessions/s1"}},
		{`lash://sessions/{session}`, []string{"resources/templates/list"}},
	} {
		args := append([]string{"-e", "LASH_TOKEN=sesame", "lash-node", "mcp", "--url", n.http, "--method"}, c.args...)
		runtest.Contains(t, fmt.Sprintf("%v", c.args), inspect(args...), c.want)
	}
}

// TestLongMCPOverHTTPRefused sends requests without a token, with a wrong one, with a body that is too large, and with lists of messages. None reaches
// the server of agents.
func TestLongMCPOverHTTPRefused(t *testing.T) {
	t.Parallel()
	n := serveModel(t, "", "--provider", "scripted", "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "sesame"))
	defer n.stop(t, syscall.SIGTERM)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for name, c := range map[string]struct {
		method, token, body string
		want                int
	}{
		"no_token":    {http.MethodPost, "", list, http.StatusUnauthorized},
		"wrong_token": {http.MethodPost, "other", list, http.StatusUnauthorized},
		"too_large":   {http.MethodPost, "sesame", `{"a":"` + strings.Repeat("x", 2<<20) + `"}`, http.StatusRequestEntityTooLarge},
		"get":         {http.MethodGet, "sesame", "", http.StatusMethodNotAllowed},
		"list":        {http.MethodPost, "sesame", list, http.StatusOK},
		"messages":    {http.MethodPost, "sesame", "[" + list + "," + list + "]", http.StatusBadRequest},
		"one_message": {http.MethodPost, "sesame", " \n[" + list + "]", http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), c.method, n.http+"/mcp", strings.NewReader(c.body))
			runtest.NoError(t, err)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+c.token)
			}
			answer, err := http.DefaultClient.Do(r)
			runtest.NoError(t, err)
			defer func() { _ = answer.Body.Close() }()
			text, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != c.want || (c.want == http.StatusOK) != strings.Contains(string(text), "run_turn") {
				t.Errorf("got %d and %.300s, want %d", answer.StatusCode, text, c.want)
			}
		})
	}
}

// TestLongMCPServerLosesAgent has an agent ask for a turn, and give up its call and its connection while the model works. The next connection of
// the agent gets the turn's outcome.
func TestLongMCPServerLosesAgent(t *testing.T) {
	t.Parallel()
	for name, transport := range map[string]func(t *testing.T, url, token string) mcp.Transport{"stdio": overStdio, "http": overHTTP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, lost := make(chan struct{}, 8), make(chan struct{})
			model := llmtest.Endpoint(t, func(*http.Request, llm.Request) llmtest.Reply {
				asked <- struct{}{}
				<-lost
				return llmtest.Text("It took long.")
			})
			n := serveModel(t, model, "--store", t.TempDir(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--http-tokens", tokenFile(t, "sesame"))
			defer n.stop(t, syscall.SIGTERM)
			a := startAgent(t, transport(t, n.http, "sesame"))
			a.do("create_session", map[string]any{"id": "s1"}, nil)
			ended := make(chan error, 1)
			ctx, end := context.WithCancel(t.Context())
			go func() { // ends with ctx
				_, err := a.c.CallTool(ctx, &mcp.CallToolParams{Name: "run_turn", Arguments: map[string]any{"session": "s1", "turn": "t1", "text": "think"}})
				ended <- err
			}()
			<-asked
			end()
			if err := <-ended; err == nil {
				t.Error("the call of the lost agent: got a result")
			}
			_ = a.c.Close()
			close(lost)
			var got struct{ Outcome struct{ Text string } }
			startAgent(t, transport(t, n.http, "sesame")).do("wait_turn", map[string]any{"session": "s1", "turn": "t1"}, &got)
			if got.Outcome.Text != "It took long." {
				t.Errorf("turn: got %+v, want its text", got)
			}
		})
	}
}
