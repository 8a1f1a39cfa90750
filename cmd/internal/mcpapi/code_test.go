package mcpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/internal/mcpapi"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// stopped is an executor that has exited.
type stopped struct{ plugin.CodeExecutor }

func (stopped) Restore(context.Context, plugin.ProtocolSession, []byte) error { return nil }

func (stopped) Execute(context.Context, plugin.ExecContext, plugin.ExecRequest) (plugin.ExecResponse, error) {
	return plugin.ExecResponse{}, api.ErrRuntimeStopped
}

// coder is a protocol whose replies are code, with an executor or without.
func coder(e plugin.CodeExecutor) plugin.Factory {
	return plugin.New("coder", func(in plugin.BuildContext) (plugin.Plugin, error) {
		return registers(func(r *plugin.Registrar) {
			if in.Config.Protocol != "coder" {
				return
			}
			r.Protocol(plugin.BaseProtocol{})
			r.Driver(plugin.DriverFunc(func(plugin.PreambleInput) plugin.Preamble {
				return plugin.Preamble{Read: func(plugin.Response) plugin.Reading {
					return plugin.Reading{Parts: []events.Part{{Kind: events.PartToolCall, Call: "1", Tool: plugin.ToolCode, Args: []byte(`{"code":"x"}`)}}}
				}}
			}))
			if e != nil {
				r.CodeExecutor(e)
			}
		}), nil
	})
}

type registers func(*plugin.Registrar)

func (f registers) Register(r *plugin.Registrar) error {
	f(r)
	return nil
}

// asWriter sends requests with the token of a caller.
type asWriter struct{}

func (asWriter) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer secret")
	return http.DefaultTransport.RoundTrip(r)
}

// TestCodeThatCannotRun ends a turn whose code has no executor, or one that exited. Each API has the same code: that of the
// error in the host's own.
func TestCodeThatCannotRun(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]plugin.CodeExecutor{"code_unavailable": nil, "runtime_stopped": stopped{}} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			builder, err := plugin.NewBuilder(plugin.BuilderConfig{Factories: []plugin.Factory{coder(e)}})
			must(t, err)
			node, err := workers.NewNode(workers.Config{
				Bus: bustest.Open(t, server), Plugins: builder, Provider: "scripted",
				Providers: map[string]llm.Provider{"scripted": scripted.Replies(scripted.Text("x"))},
			})
			must(t, err)
			must(t, node.Start(t.Context()))
			t.Cleanup(func() { node.Stop(context.Background()) })
			handler, err := httpapi.New(httpapi.Config{Service: node.Host(), Tokens: []httpapi.Token{{Name: "writer", Digest: sha256.Sum256([]byte("secret")), Scope: api.ScopeWrite}}})
			must(t, err)
			door := httptest.NewServer(handler)
			t.Cleanup(door.Close)

			id, err := node.Host().Create(t.Context(), api.CreateRequest{Config: events.Config{Protocol: "coder"}})
			must(t, err)
			turn := api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}}
			result, err := node.Host().Run(t.Context(), id, turn)
			must(t, err)
			got := map[string]string{"Go, the result": result.Issue.Code}
			assembled, err := node.Host().AssembledTurn(t.Context(), id, "t1")
			must(t, err)
			got["Go, the outcome"] = codeOf(assembled)
			over, err := client.New(client.Config{Bus: bustest.Open(t, server)})
			must(t, err)
			result, err = over.Run(t.Context(), id, turn)
			must(t, err)
			got["NATS, the result"] = result.Issue.Code
			assembled, err = over.AssembledTurn(t.Context(), id, "t1")
			must(t, err)
			got["NATS, the outcome"] = codeOf(assembled)
			answer, err := (&http.Client{Transport: asWriter{}}).Get(door.URL + "/v1/sessions/" + string(id) + "/turns/t1")
			must(t, err)
			defer func() { _ = answer.Body.Close() }()
			assembled = api.AssembledTurn{}
			must(t, json.NewDecoder(answer.Body).Decode(&assembled))
			got["HTTP"] = codeOf(assembled)
			r, err := connectedTo(t, mcpapi.Config{Base: door.URL, Transport: asWriter{}}).CallTool(t.Context(), &mcp.CallToolParams{Name: "wait_turn", Arguments: map[string]any{"session": id, "turn": "t1"}})
			must(t, err)
			assembled = api.AssembledTurn{}
			must(t, json.Unmarshal([]byte(r.Content[0].(*mcp.TextContent).Text), &assembled)) //nolint:forcetypeassert // these tools return texts
			got["MCP"] = codeOf(assembled)
			for where, code := range got {
				if code != want {
					t.Errorf("%s: got the code %q, want %q", where, code, want)
				}
			}
		})
	}
}

func codeOf(turn api.AssembledTurn) string {
	if len(turn.Errors) != 1 {
		return ""
	}
	return turn.Errors[0].Code
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
