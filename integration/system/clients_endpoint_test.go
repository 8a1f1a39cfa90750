package system

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/llmtest"
	"github.com/lash-go/lash/workers/llm/openai"
)

// endpoint is an OpenAI-compatible model. It records its requests and answers with replies in order. After the last
// one it repeats that.
type endpoint struct {
	mu      sync.Mutex
	bodies  []object
	replies []llmtest.Reply
}

// object is a JSON object.
type object = map[string]any

// ServeHTTP implements [http.Handler].
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	var body object
	if err != nil || json.Unmarshal(data, &body) != nil {
		return
	}
	e.mu.Lock()
	reply := e.replies[min(len(e.bodies), len(e.replies)-1)]
	e.bodies = append(e.bodies, body)
	e.mu.Unlock()
	if reply.Refusal != nil {
		status, text := llmtest.OpenAI{}.Failure(reply.Refusal)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	text, end := llmtest.OpenAI{}.Stream(reply)
	if reply.Fault == llmtest.FaultError {
		end = llmtest.OpenAI{}.FailureEvent(&llm.Error{Message: "scripted"})
	}
	_, _ = io.WriteString(w, text+end)
}

// sent lists the requests, oldest first.
func (e *endpoint) sent() []object {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]object(nil), e.bodies...)
}

// textsOf lists the texts of a request's messages of one role.
func textsOf(body object, role string) []string {
	list := []string{}
	for _, m := range body["messages"].([]any) {
		if m := m.(object); m["role"] == role {
			text, _ := m["content"].(string)
			list = append(list, text)
		}
	}
	return list
}

// startEndpoint starts a node whose model is an endpoint, with the standard protocol and more plugins.
func startEndpoint(t *testing.T, replies []llmtest.Reply, factories ...plugin.Factory) (*harness.System, *endpoint) {
	t.Helper()
	b, e := harness.StartIdle(t), &endpoint{replies: replies}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	provider, err := openai.New(openai.Config{APIKey: llmtest.Key, BaseURL: server.URL})
	runtest.WantError(t, "provider", err, nil)
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	runtest.WantError(t, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: b.Bus, Providers: map[string]llm.Provider{"openai": provider}, Provider: "openai", Model: "m", Plugins: builder,
		Logger: zaptest.NewLogger(t), ModelRetry: workers.ModelRetry{Attempts: 4, Base: time.Millisecond, Max: 2 * time.Millisecond},
	})
	runtest.WantError(t, "node", err, nil)
	runtest.WantError(t, "start", n.Start(b.Ctx), nil)
	t.Cleanup(func() { n.Stop(b.T.Context()) })
	b.Host = n.Host()
	return b, e
}

// route is how a request reaches a host.
type route struct {
	Create    func(config events.Config) events.SessionID
	Configure func(id events.SessionID, config events.Config)
	Run       func(id events.SessionID, input events.TurnInput) api.AssembledTurn
}

// routesOf are a host in the process, a client over NATS, and HTTP.
func routesOf(b *harness.System) map[string]route {
	b.T.Helper()
	c, err := client.New(client.Config{Bus: bustest.Open(b.T, b.Server)})
	runtest.WantError(b.T, "client", err, nil)
	return map[string]route{"go": serviceRoute(b, b.Host), "nats": serviceRoute(b, c), "http": httpRoute(b, b.ServeHTTP(httpapi.Config{}))}
}

func serviceRoute(b *harness.System, s api.Service) route {
	return route{
		Create: func(config events.Config) events.SessionID {
			id, err := s.Create(b.Ctx, api.CreateRequest{Config: config})
			runtest.WantError(b.T, "create", err, nil)
			return id
		},
		Configure: func(id events.SessionID, config events.Config) {
			runtest.WantError(b.T, "configure", s.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(events.Config) events.Config { return config }}), nil)
		},
		Run: func(id events.SessionID, input events.TurnInput) api.AssembledTurn {
			turn, err := s.Run(b.Ctx, id, api.TurnRequest{Input: input})
			runtest.WantError(b.T, "run", err, nil)
			assembled, err := s.AssembledTurn(b.Ctx, id, turn.ID)
			runtest.WantError(b.T, "assemble", err, nil)
			return assembled
		},
	}
}

func httpRoute(b *harness.System, d *harness.HTTP) route {
	send := func(method, path string, body object, status int) harness.Response {
		data, err := json.Marshal(body)
		runtest.WantError(b.T, "body", err, nil)
		got := d.Send("admin", method, path, string(data))
		if got.Status != status {
			b.T.Fatalf("%s %s %s: got %d %s", method, path, data, got.Status, got.Body)
		}
		return got
	}
	return route{
		Create: func(config events.Config) events.SessionID {
			return events.SessionID(send(http.MethodPost, "/v1/sessions", object{"config": configJSON(config)}, http.StatusCreated).Field("id"))
		},
		Configure: func(id events.SessionID, config events.Config) {
			send(http.MethodPatch, "/v1/sessions/"+string(id), configJSON(config), http.StatusNoContent)
		},
		Run: func(id events.SessionID, input events.TurnInput) api.AssembledTurn {
			var turn api.AssembledTurn
			got := send(http.MethodPost, "/v1/sessions/"+string(id)+"/turns?wait=60", inputJSON(input), http.StatusOK)
			runtest.WantError(b.T, "turn", json.Unmarshal(got.Body, &turn), nil)
			return turn
		},
	}
}

func configJSON(c events.Config) object {
	fallbacks := []object{}
	for _, f := range c.Fallbacks {
		fallbacks = append(fallbacks, object{"provider": f.Provider, "model": f.Model})
	}
	return object{"provider": c.Provider, "model": c.Model, "fallbacks": fallbacks, "instructions": c.Instructions, "effort": c.Effort, "max_output_tokens": c.MaxOutputTokens, "sampling": samplingJSON(c.Sampling), "layers": layersJSON(c.Layers)}
}

func inputJSON(in events.TurnInput) object {
	out := object{"text": in.Parts[0].Text, "generation": object{
		"effort": in.Generation.Effort, "max_output_tokens": in.Generation.MaxOutputTokens, "sampling": samplingJSON(in.Generation.Sampling),
	}}
	if len(in.Layers) > 0 {
		out["layers"] = layersJSON(in.Layers)
	}
	if f := in.Output; !f.IsZero() {
		out["output"] = object{"name": f.Name, "schema": json.RawMessage(f.Schema), "strict": f.Strict}
	}
	return out
}

func samplingJSON(s events.Sampling) object {
	out := object{}
	for name, n := range map[string]events.Number{"temperature": s.Temperature, "top_p": s.TopP, "seed": s.Seed} {
		if n != "" {
			out[name] = json.RawMessage(n)
		}
	}
	if len(s.Stop) > 0 {
		out["stop"] = s.Stop
	}
	return out
}

func layersJSON(list []events.PromptLayer) []object {
	out := []object{}
	for _, l := range list {
		out = append(out, object{"slot": l.Slot, "op": l.Op, "title": l.Title, "content": l.Content})
	}
	return out
}

// callReply is a reply of an [endpoint] that calls a tool.
func callReply(id events.CallID, tool, args string) llmtest.Reply {
	return llmtest.Reply{Stop: events.StopToolUse, Chunks: []llmtest.Chunk{{Kind: events.PartToolCall, Call: id, Tool: tool, Text: args}}}
}
