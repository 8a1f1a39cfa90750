package integration

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

// endpoint is an OpenAI-compatible model. It keeps what it is sent, and answers with replies in order, the last one again.
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

// sent is what the endpoint was sent, oldest first.
func (e *endpoint) sent() []object {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]object(nil), e.bodies...)
}

// toldAs are the texts of a request's messages of one role.
func toldAs(body object, role string) []string {
	list := []string{}
	for _, m := range body["messages"].([]any) {
		if m := m.(object); m["role"] == role {
			text, _ := m["content"].(string)
			list = append(list, text)
		}
	}
	return list
}

// setupEndpoint has a node whose model is an endpoint, with plugins beside the standard protocol.
func setupEndpoint(t *testing.T, replies []llmtest.Reply, factories ...plugin.Factory) (*bundle, *endpoint) {
	t.Helper()
	b, e := setupIdle(t), &endpoint{replies: replies}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	provider, err := openai.New(openai.Config{APIKey: llmtest.Key, BaseURL: server.URL})
	must(t, "provider", err, nil)
	h, err := plugin.NewHost(plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	must(t, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: b.bus, Providers: map[string]llm.Provider{"openai": provider}, Provider: "openai", Model: "m", Plugins: h,
		Logger: zaptest.NewLogger(t), ModelRetry: workers.ModelRetry{Base: time.Millisecond, Max: 2 * time.Millisecond},
	})
	must(t, "node", err, nil)
	must(t, "start", n.Start(b.ctx), nil)
	t.Cleanup(func() { n.Stop(b.t.Context()) })
	b.Host = n.Host()
	return b, e
}

// way is how a request reaches a host.
type way struct {
	create    func(config events.Config) events.SessionID
	configure func(id events.SessionID, config events.Config)
	run       func(id events.SessionID, input events.TurnInput) api.AssembledTurn
}

// ways are a host in the process, a client over NATS and HTTP.
func (b *bundle) ways() map[string]way {
	b.t.Helper()
	c, err := client.New(client.Config{Bus: bustest.Open(b.t, b.server)})
	must(b.t, "client", err, nil)
	return map[string]way{"go": b.through(b.Host), "nats": b.through(c), "http": b.overHTTP(b.door(httpapi.Config{}))}
}

func (b *bundle) through(s api.Service) way {
	return way{
		create: func(config events.Config) events.SessionID {
			id, err := s.Create(b.ctx, api.CreateRequest{Config: config})
			must(b.t, "create", err, nil)
			return id
		},
		configure: func(id events.SessionID, config events.Config) {
			must(b.t, "configure", s.Configure(b.ctx, id, api.ConfigureRequest{Change: func(events.Config) events.Config { return config }}), nil)
		},
		run: func(id events.SessionID, input events.TurnInput) api.AssembledTurn {
			turn, err := s.Run(b.ctx, id, api.TurnRequest{Input: input})
			must(b.t, "run", err, nil)
			whole, err := s.AssembledTurn(b.ctx, id, turn.ID)
			must(b.t, "assemble", err, nil)
			return whole
		},
	}
}

func (b *bundle) overHTTP(d *door) way {
	send := func(method, path string, body object, status int) answered {
		data, err := json.Marshal(body)
		must(b.t, "body", err, nil)
		got := d.ask("admin", method, path, string(data))
		if got.status != status {
			b.t.Fatalf("%s %s %s: got %d %s", method, path, data, got.status, got.body)
		}
		return got
	}
	return way{
		create: func(config events.Config) events.SessionID {
			return events.SessionID(send(http.MethodPost, "/v1/sessions", object{"config": configJSON(config)}, http.StatusCreated).text("id"))
		},
		configure: func(id events.SessionID, config events.Config) {
			send(http.MethodPatch, "/v1/sessions/"+string(id), configJSON(config), http.StatusNoContent)
		},
		run: func(id events.SessionID, input events.TurnInput) api.AssembledTurn {
			var turn api.AssembledTurn
			got := send(http.MethodPost, "/v1/sessions/"+string(id)+"/turns?wait=60", inputJSON(input), http.StatusOK)
			must(b.t, "turn", json.Unmarshal(got.body, &turn), nil)
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
