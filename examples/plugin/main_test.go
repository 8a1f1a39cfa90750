package main

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/zap"

	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/examples/internal/child"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// nodeVariable makes the process a node instead of the plugin.
const nodeVariable = "LASH_EXAMPLE_NODE"

func TestMain(m *testing.M) {
	child.Main(m, func() {
		if os.Getenv(nodeVariable) != "" {
			os.Exit(serve.Main(serve.Config{Logger: zap.NewNop()}))
		}
		main()
	})
}

// TestPlugin runs a turn that calls the tool of the plugin's process, with the key that the node's server made for it. SIGTERM ends
// the plugin's process with exit code 0 after the server's end, and while it waits for a server.
func TestPlugin(t *testing.T) {
	t.Parallel()
	model := llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		if results := llmtest.Results(req); len(results) > 0 {
			return llmtest.Text("In Oslo: " + results[0].Text)
		}
		return llmtest.Calls(events.Part{Call: "c", Tool: "weather", Args: []byte(`{"city":"Oslo"}`)})
	})
	dir := t.TempDir()
	store, file := filepath.Join(dir, "st"), filepath.Join(dir, "plugins.json")
	runtest.NoError(t, os.WriteFile(file, []byte(`{"plugins": [{"name": "weather"}]}`), 0o600))
	node := child.Start(t, []string{"OPENAI_BASE_URL=" + model, nodeVariable + "=1"}, "--store", store, "--listen", "127.0.0.1:0", "--model", "m", "--set", "external-plugins="+file)
	node.Await("serving, provider openai")
	plugin := child.Start(t, nil, filepath.Join(store, "plugins", "weather.json"))
	plugin.Await("serving the tool weather")
	runtest.Equal(t, "ask", child.Ask(t, store, "What is it like in Oslo?"), "In Oslo: rain, 8 degrees")
	node.Signal(syscall.SIGTERM)
	node.Ended()
	plugin.Signal(syscall.SIGTERM)
	plugin.Ended()

	plugin = child.Start(t, nil, filepath.Join(store, "plugins", "weather.json"))
	plugin.Await("no server answers at nats://127.0.0.1:")
	plugin.Signal(syscall.SIGTERM)
	plugin.Ended()
}
