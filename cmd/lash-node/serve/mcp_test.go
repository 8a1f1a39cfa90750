package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/llm"
)

// mcpVariable makes the process a server with one tool, whose result is the value.
const mcpVariable = "LASH_TEST_MCP"

func TestMain(m *testing.M) {
	if os.Getenv(mcpVariable) == "" {
		bustest.VerifyTestMain(m)
		return
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "note", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: os.Getenv(mcpVariable)}}}, nil, nil
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func mcpFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mcp.json")
	runtest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestMCP starts a node with a file of servers: sessions have the tools of the one that runs, and the node serves without
// the one that does not.
func TestMCP(t *testing.T) {
	t.Parallel()
	file := mcpFile(t, fmt.Sprintf(`{"mcpServers": {
		"notes": {"command": %q, "env": {%q: "the ${SECRET}", "GORACE": "atexit_sleep_ms=0"}, "lash": {"tools": ["not*", "nose"], "effects": {"nothing": "idempotent"}}},
		"other": {"command": "/no/such/program", "disabled": true}}}`, os.Args[0], mcpVariable))
	cfg := Config{Providers: []llm.Provider{ownOf("mine", "m")}}
	s := silent()
	var said strings.Builder
	s.Err = &said
	s.Env = func(name string) string { return map[string]string{"SECRET": "milk"}[name] }
	c, err := cfg.parsed(s, "--store", filepath.Join(t.TempDir(), "store"), "--listen", "127.0.0.1:0", "--model", "m", "--plugins", "none", "--mcp", file)
	runtest.NoError(t, err)
	n, err := c.start(t.Context(), s)
	runtest.NoError(t, err)
	defer n.Stop()
	for _, name := range []string{"nose", "nothing"} {
		if want := fmt.Sprintf("MCP server notes: tool %s is left out: the server lists no such tool", name); strings.Count(said.String(), want) != 1 || strings.Contains(said.String(), "tool not* ") {
			t.Errorf("got %q, want %q", said.String(), want)
		}
	}
	id, err := n.Host().Create(t.Context(), api.CreateRequest{})
	runtest.NoError(t, err)
	turn, err := n.Host().Run(t.Context(), id, api.Ask("hi"))
	if err != nil || turn.Text != "mine m notes__note" {
		t.Errorf("got %q, %v, want the tool of the server", turn.Text, err)
	}
}

// TestMCPBeforeTurns starts a node on a store with a turn that waits, and with a server that takes a second to start. The turn has the
// tools of the server.
func TestMCPBeforeTurns(t *testing.T) {
	t.Parallel()
	cfg, store := Config{Providers: []llm.Provider{ownOf("mine", "m")}}, filepath.Join(t.TempDir(), "store")
	start := func(more ...string) *Node {
		n, err := started(t, cfg, append([]string{"--store", store, "--listen", "127.0.0.1:0", "--model", "m", "--plugins", "none"}, more...)...)
		runtest.NoError(t, err)
		return n
	}
	first := start("--set", "roles=projector")
	id, err := first.Host().Create(t.Context(), api.CreateRequest{})
	runtest.NoError(t, err)
	turn, err := first.Host().Submit(t.Context(), id, api.Ask("hi"))
	runtest.NoError(t, err)
	first.Stop()
	n := start("--mcp", mcpFile(t, fmt.Sprintf(`{"mcpServers": {"notes": {"command": "sh", "args": ["-c", "sleep 1; exec \"$0\"", %q], "env": {%q: "x", "GORACE": "atexit_sleep_ms=0"}}}}`, os.Args[0], mcpVariable)))
	defer n.Stop()
	ended, err := n.Host().Await(t.Context(), id, turn)
	if err != nil || ended.Text != "mine m notes__note" {
		t.Errorf("got %q, %v, want the tool of the server", ended.Text, err)
	}
}

// openStore connects with the credentials in a store, as another program, once a server runs there.
func openStore(t *testing.T, store string) (b *bus.Bus) {
	t.Helper()
	bustest.Eventually(t, "the server", func() bool {
		a, err := busembed.ReadAccess(store)
		if err == nil && a.URL != "" {
			b, err = bus.Open(t.Context(), bus.Config{URL: a.URL, Options: []nats.Option{a.Option()}})
		}
		return b != nil && err == nil
	})
	return b
}

// TestStopBeforeMCP stops a node that waits for an MCP server. A new store stays if another program has made
// a session in it meanwhile.
func TestStopBeforeMCP(t *testing.T) {
	t.Parallel()
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprint(used), func(t *testing.T) {
			t.Parallel()
			store := filepath.Join(t.TempDir(), "store")
			runs := filepath.Join(t.TempDir(), "runs")
			file := mcpFile(t, `{"mcpServers": {"slow": {"command": "sh", "args": ["-c", "touch `+runs+`; exec sleep infinity"], "lash": {"start_timeout_ms": 3600000}}}}`)
			c, err := Config{Providers: []llm.Provider{ownOf("mine", "m")}}.parsed(silent(), "--store", store, "--listen", "127.0.0.1:0", "--model", "m", "--plugins", "none", "--mcp", file)
			runtest.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { // ends with its start
				n, err := c.start(ctx, silent())
				if err == nil {
					n.Stop()
				}
				ended <- err
			}()
			b := openStore(t, store)
			if used {
				opened := &events.Commit{ID: "c1", Session: "s1", At: 1, Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{events.Of("", &events.SessionOpened{})}}
				_, err = b.Log().Append(t.Context(), opened, 0)
				runtest.NoError(t, err)
			}
			bustest.Eventually(t, "the start of the MCP server", func() bool { // the node can read its store then
				_, err := os.Stat(runs)
				return err == nil
			})
			b.Close()
			stop()
			if err := <-ended; err == nil {
				t.Error("the start: got no error")
			}
			if _, err := os.Stat(store); (err == nil) != used {
				t.Errorf("the store: got %v, want that it stays: %t", err, used)
			}
		})
	}
}

// TestDocumentedMCPFiles reads the files of servers that the README and the operators' guide show.
func TestDocumentedMCPFiles(t *testing.T) {
	t.Parallel()
	for _, guide := range []string{"GUIDE.md", "deploy/nats/OPERATING.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", guide))
		runtest.NoError(t, err)
		files := 0
		for _, part := range strings.Split(string(text), "\n```json ")[1:] {
			_, file, _ := strings.Cut(part, "\n")
			file, _, _ = strings.Cut(file, "\n```")
			if !strings.Contains(file, "mcpServers") {
				continue
			}
			files++
			file = strings.ReplaceAll(file, "${file:/etc/lash/tickets-token}", "token")
			c, err := Config{}.parsed(silent(), "--store", t.TempDir(), "--mcp", mcpFile(t, file))
			if err == nil {
				err = c.mcpServers(silent())
			}
			runtest.WantError(t, guide, err, nil)
		}
		if files == 0 {
			t.Errorf("%s shows no file of MCP servers", guide)
		}
	}
}

// TestMCPRefused starts nodes with files that are wrong, and names the file and the field.
func TestMCPRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no_server":   {`{"mcpServers": {}}`, "mcpServers: has 0 servers"},
		"other_field": {`{"servers": {}}`, `mcpServers: is missing: the file has the fields ["servers"]`},
		"plugin_name": {`{"mcpServers": {"gate": {"command": "x"}}}`, "mcpServers.gate: a plugin of this program has the name"},
		"no_secret":   {`{"mcpServers": {"a": {"command": "x", "env": {"KEY": "${SECRET}"}}}}`, "mcpServers.a.env.KEY: ${SECRET}: the environment has no such variable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := mcpFile(t, c.text)
			_, err := started(t, Config{}, "--store", filepath.Join(t.TempDir(), "store"), "--listen", "127.0.0.1:0", "--model", "m", "--mcp", file)
			if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s and %s", err, file, c.want)
			}
		})
	}
}
