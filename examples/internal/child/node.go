package child

import (
	"context"
	"net/http"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
	"github.com/lash-go/lash/workers/llm/openai"
)

// Connect connects to the embedded server of a node's store, as a client does.
func Connect(t *testing.T, store string) *bus.Bus {
	t.Helper()
	own, err := busembed.ReadAccess(store)
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.OpenReader(t.Context(), bus.Config{URL: own.URL, Options: []nats.Option{own.Option()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// Ask runs a turn in a new session of a node's store, and returns the answer.
func Ask(t *testing.T, store, text string) (answer string) {
	t.Helper()
	c, err := client.New(client.Config{Bus: Connect(t, store)})
	if err != nil {
		t.Fatal(err)
	}
	id, err := c.Create(t.Context(), api.CreateRequest{})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := c.Run(t.Context(), id, api.Ask(text))
	if err != nil {
		t.Fatal(err)
	}
	return turn.Text
}

// Letter is a non-idempotent tool, so package gate requires an approval for each of its calls.
func Letter() plugin.Factory {
	type letter struct{ To, Text string }
	return plugin.OfTool(plugin.Tool{Name: "send_letter", Description: "Sends a letter."}, func(_ context.Context, _ plugin.Call, l letter) (string, error) {
		return "sent to " + l.To, nil
	})
}

// WritesToAnn is a model that sends one letter, and then reports the result.
func WritesToAnn(t *testing.T) (url string) {
	t.Helper()
	return llmtest.Endpoint(t, func(_ *http.Request, req llm.Request) llmtest.Reply {
		if results := llmtest.Results(req); len(results) > 0 {
			return llmtest.Text("The tool said: " + results[0].Text)
		}
		return llmtest.Calls(events.Part{Call: "c", Tool: "send_letter", Args: []byte(`{"To":"Ann","Text":"Monday."}`)})
	})
}

// Node starts a node in the test's process, with an embedded server, [Letter] and the gate. It returns the store of
// the server.
func Node(t *testing.T, model string) (store string, host *session.Host) {
	t.Helper()
	store = t.TempDir()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{StoreDir: store, Listen: true, Keyed: true}))
	provider, err := openai.New(openai.Config{APIKey: llmtest.Key, BaseURL: model})
	if err != nil {
		t.Fatal(err)
	}
	plugins, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{Letter(), gate.Factory(gate.Config{})}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := workers.NewNode(workers.Config{
		Bus: b, Plugins: plugins, Provider: provider.ID(), Providers: map[string]llm.Provider{provider.ID(): provider}, Model: "m",
	})
	if err == nil {
		err = n.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Stop(context.WithoutCancel(t.Context())) })
	return store, n.Host()
}
