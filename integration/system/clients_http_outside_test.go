package system

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
)

// outside makes the requests that hosts in the process of a node make.
func outside(d *harness.HTTP, s string) {
	d.T.Helper()
	has := func(what string, got harness.Response, want string) {
		d.T.Helper()
		if !strings.Contains(string(got.Body), want) {
			d.T.Errorf("%s: got %s, want %s in it", what, got.Body, want)
		}
	}
	has("catalog", d.Want(200, "GET", s+"/tools/catalog", ""), `"name":"later"`)
	tools := d.Want(200, "GET", s+"/tools", "")
	generation := d.Want(200, "PUT", s+"/tools", string(tools.Body)).Field("generation")
	again := d.Want(200, "GET", s+"/tools", "")
	runtest.Equal(d.T, "tools as they were", strings.Replace(string(again.Body), `"generation":`+generation, `"generation":`+tools.Field("generation"), 1), string(tools.Body))
	d.WantProblem(409, "generation", "PUT", s+"/tools", string(tools.Body))
	d.Want(204, "PUT", s+"/extensions", `{"extensions":[]}`)
	d.WantProblem(400, "protocol", "PUT", s+"/extensions", `{"extensions":[{"type":"x"}]}`)
	has("sources", d.Want(200, "GET", s+"/tools/sources", ""), `{"name":"more","known":true}`)
	d.Want(200, "PUT", s+"/tools/sources/more", "")
	has("sources with it", d.Want(200, "GET", s+"/tools/sources", ""), `{"name":"more","added":true,"known":true}`)
	has("its tool", d.Want(200, "GET", s+"/tools", ""), `"name":"extra"`)
	d.WantProblem(404, "unknown_source", "PUT", s+"/tools/sources/nothing", "")
	d.Want(200, "POST", s+"/tools/refresh", "")
	d.Want(200, "DELETE", s+"/tools/sources/more", "")
	d.WantProblem(404, "unknown_source", "DELETE", s+"/tools/sources/more", "")
	has("actions", d.Want(200, "GET", s+"/actions", ""), `"name":"greet"`)
	runtest.Equal(d.T, "action", d.Want(200, "POST", s+"/actions", `{"name":"greet","args":{"Name":"you"}}`).Field("text"), `"hello you"`)
	d.WantProblem(422, "action_failed", "POST", s+"/actions", `{"name":"greet","args":[1]}`)
	d.Want(204, "PUT", s+"/options", `{"options":{"a":1},"all_frames":true}`)
	runtest.Equal(d.T, "options", string(d.StateOf("s1").Frame().Options), `{"a":1}`)
	runtest.Equal(d.T, "none", strings.TrimSpace(string(d.Want(200, "POST", s+"/first-input", "").Body)), `{}`)
	d.Want(204, "PUT", s+"/messages", `{"messages":[{"id":"r1","role":"user","parts":[{"type":"text","text":"anew"}]},{"role":"user","parts":[],"transient":true}]}`)
	has("view", d.Want(200, "GET", s+"/view", ""), `"messages":[{"id":"r1","role":"user","parts":[{"type":"text","text":"anew"}]}]`)

	d.Model.Rescript(harness.Reply(harness.Text("as you say")), harness.Reply(harness.Text("for the second time")), harness.Reply(harness.Text("as it comes")))
	first := d.Want(200, "POST", s+"/completions", harness.CompletionBody, "Idempotency-Key", "paid")
	runtest.Equal(d.T, "completion", first.Field("text"), "as you say")
	runtest.Equal(d.T, "the same with its key", string(d.Want(200, "POST", s+"/completions", harness.CompletionBody, "Idempotency-Key", "paid").Body), string(first.Body))
	runtest.Equal(d.T, "completion without a key", d.Want(200, "POST", s+"/completions", harness.CompletionBody).Field("text"), "for the second time")
	streamed := d.OpenStreamWith("writer", "POST", s+"/completions/stream", harness.CompletionBody).Until(func(m harness.Message) bool { return m.Name == "result" })
	runtest.Equal(d.T, "events of a completion", len(streamed), 2)
	has("its delta", harness.Response{Body: []byte(streamed[0].Data)}, `"text":"as it comes"`)
	d.Model.Rescript(harness.Fail(llm.KindRequest, "no"), harness.Fail(llm.KindRequest, "no"))
	for _, path := range []string{"/completions", "/completions/stream"} {
		d.WantProblem(422, "completion_failed", "POST", s+path, harness.CompletionBody)
	}
	tasksOutside(d, s, has)
}

// tasksOutside has a program register tasks and run them.
func tasksOutside(d *harness.HTTP, s string, has func(string, harness.Response, string)) {
	d.T.Helper()
	has("registered", d.Want(201, "PUT", s+"/tasks/k1", `{"kind":"observer","cancel":"cooperative","close":"keep","args":{"a":1}}`), `"kind":"observer","state":"running"`)
	d.WantProblem(409, "task_running", "PUT", s+"/tasks/k1", `{}`)
	d.WantProblem(400, "invalid", "PUT", s+"/tasks/k9", `{"kind":"monitor"}`)
	d.WantProblem(400, "invalid", "PUT", s+"/tasks/monitor-m9", `{}`)
	has("progress", d.Want(200, "POST", s+"/tasks/k1/progress", `{"message":"half way"}`), `"message":"half way"`)
	d.WantProblem(409, "task_running", "PUT", s+"/tasks/k1", `{}`)
	has("move", d.Want(200, "POST", s+"/tasks/k1/state", `{"state":"waiting"}`), `"state":"waiting"`)
	d.WantProblem(400, "invalid", "POST", s+"/tasks/k1/state", `{"state":"completed"}`)
	has("stop", d.Want(200, "POST", s+"/tasks/k1/stop", `{"reason":"enough"}`), `"state":"cancel_requested"`)
	has("progress then", d.Want(200, "POST", s+"/tasks/k1/progress", `{"message":"stopping"}`), `"state":"cancel_requested"`)
	has("end", d.Want(200, "POST", s+"/tasks/k1/end", `{"state":"cancelled","summary":"well"}`), `"state":"cancelled"`)
	d.WantProblem(400, "invalid", "POST", s+"/tasks/k1/end", `{"state":"running"}`)
	d.Want(201, "PUT", s+"/tasks/k8", `{}`)
	d.Want(204, "DELETE", s+"/tasks/k8", "")
	d.Want(404, "GET", s+"/tasks/k8", "")
	for _, k := range []string{"k2", "k3"} {
		d.Want(201, "PUT", s+"/tasks/"+k, `{}`)
	}
	d.Want(204, "POST", s+"/tasks/transfer", `{"to":"s2","tasks":["k2"]}`)
	has("moved", d.Want(200, "GET", "/v1/sessions/s2/tasks", ""), `"id":"k2"`)
	runtest.Equal(d.T, "cancelled", d.Want(200, "POST", s+"/tasks/cancel", `{"keep":["k9"]}`).Field("cancelled"), "[k3]")
}

// extending is a protocol with extensions, which refuses turns with an unknown one.
type extending struct {
	harness.Protocol
	got *atomic.Int64
}

func (p extending) ApplyExtension(_ context.Context, e events.Extension) error {
	if e.Type != "note" {
		return errors.New("unknown extension")
	}
	p.got.Add(1)
	return nil
}

// extended sends requests to a host whose protocol has extensions.
func clientsExtended(d *harness.HTTP) {
	d.T.Helper()
	var got atomic.Int64
	p := extending{got: &got}
	p.Validate = func(_ context.Context, in events.TurnInput) error {
		if !in.Extension.IsZero() && (in.Extension.Type != "note" || string(in.Extension.Body) != `{"a":1}`) {
			return errors.New("unknown extension")
		}
		return nil
	}
	takes := harness.PluginOf(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(p)
		r.Driver(p)
	})
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Factories: []plugin.Factory{takes}})
	runtest.WantError(d.T, "plugins", err, nil)
	h, err := session.New(session.Config{Bus: d.Bus, Plugins: session.WithPlugins(builder)})
	runtest.WantError(d.T, "host", err, nil)
	server, err := httpapi.New(httpapi.Config{Service: h, Tokens: harness.Tokens()})
	runtest.WantError(d.T, "new server", err, nil)
	defer server.Drain()
	d.Open(api.CreateRequest{ID: "ext"})
	d.Model.Rescript(harness.Reply(harness.Text("done")))
	for path, bodies := range map[string]map[string]int{
		"/extensions": {`{"type":"note","body":{"a":1}}`: 204, `{"type":"else"}`: 400, `{"body":1}`: 400},
		"/turns":      {`{"id":"t1","text":"x","extension":{"type":"note","body":{"a":1}}}`: 202, `{"text":"x","extension":{"type":"else"}}`: 400},
	} {
		for body, want := range bodies {
			r, w := httptest.NewRequestWithContext(d.Ctx, "POST", "/v1/sessions/ext"+path, strings.NewReader(body)), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer writer"+harness.TokenSecret)
			server.ServeHTTP(w, r)
			d.Doc.Check(d.T, "POST", "/v1/sessions/ext"+path, w.Code, w.Header(), w.Body.Bytes())
			runtest.Equal(d.T, path+" "+body+": "+w.Body.String(), w.Code, want)
		}
	}
	runtest.Equal(d.T, "applied", got.Load(), 1)
	d.StartNode(takes) // the node that is there takes no extensions, and leaves the turn to others
	d.Want(200, "GET", "/v1/sessions/ext/turns/t1?wait=30", "")
}

// TestHTTPCreateEveryField creates sessions with every field that a request has in Go.
func TestHTTPCreateEveryField(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.StartNode()
	d := b.ServeHTTP(httpapi.Config{})
	d.Want(201, "POST", "/v1/sessions", `{"id":"base","nodes":[{"message":{"id":"n1","role":"user","parts":[{"type":"text","text":"a"}]}}]}`)
	d.Want(201, "POST", "/v1/sessions", `{"id":"kid","parent":"base","relation":"handoff","plugins":"current_session_fork","usage":"helper",
		"subagent":{"capability":"c","depth":1,"max_depth":2},"first":{"role":"user","parts":[{"type":"text","text":"begin"}]}}`)
	kid := d.StateOf("kid")
	runtest.Equal(t, "relation", kid.Relation, events.RelationHandoff)
	runtest.Equal(t, "source", kid.Source, "helper")
	runtest.Equal(t, "subagent", kid.Subagent, events.Subagent{Capability: "c", Depth: 1, MaxDepth: 2})
	response := d.Want(200, "POST", "/v1/sessions/kid/first-input", "")
	runtest.Equal(t, "first", strings.Contains(string(response.Body), `"text":"begin"`), true)
	runtest.Equal(t, "who took it", harness.Find[*events.SessionFirstInputTaken](d.System, "kid")[0].By, "writer")

	head, fresh, err := d.StateOf("base").Clone().Snapshot()
	runtest.WantError(t, "snapshot", err, nil)
	snapshot := map[string]any{"head": head}
	for _, s := range fresh {
		snapshot["segments"] = append(orEmpty(snapshot["segments"]), s.Data)
	}
	text, err := json.Marshal(snapshot)
	runtest.WantError(t, "snapshot", err, nil)
	for id, start := range map[string]string{
		"current": `"start":"current_session","parent":"base"`, "existing": `"start":"existing_session","from":"base"`, "snap": `"start":"snapshot","snapshot":` + string(text),
	} {
		d.Want(201, "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q,%s}`, id, start))
		runtest.EqualLists(t, id, d.Messages(events.SessionID(id)), []string{"user a"})
	}
	for _, wrong := range []string{
		`"start":"else"`, `"start":"snapshot"`, `"from":"base"`, `"snapshot":{"head":"AAAA"}`, `"relation":"else"`, `"plugins":"else"`, `"first":{"role":"else","parts":[]}`,
		`"start":"snapshot","snapshot":{"head":"` + base64.StdEncoding.EncodeToString([]byte("none")) + `"}`, `"start":"snapshot","snapshot":{"head":"%"}`,
		`"usage":"` + strings.Repeat("x", events.MaxIDBytes+1) + `"`, `"subagent":{"capability":"","depth":-1,"max_depth":0}`,
	} {
		got := d.Send("writer", "POST", "/v1/sessions", fmt.Sprintf(`{"id":"wrong",%s}`, wrong))
		runtest.Equal(t, wrong+": "+string(got.Body), got.Status == 400 || got.Status == 413, true)
	}
	runtest.Equal(t, "fork with a start", d.Send("writer", "POST", "/v1/sessions/base/fork", `{"start":"existing_session","from":"kid"}`).Status, 400)
}

func orEmpty(v any) [][]byte { list, _ := v.([][]byte); return list }

// TestActionsTakeTheirTime has an action run longer than the time limits of hooks and of HTTP requests: only its
// caller ends it.
func TestActionsTakeTheirTime(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	started, release := make(chan struct{}, 3), make(chan struct{})
	n := b.StartNodeWith(workers.Config{}, plugin.BuilderConfig{Timeout: time.Second, Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{
		harness.PluginOf("slow", func(r *plugin.Registrar) {
			r.MutateConfig(func(_ context.Context, _ plugin.ConfigChange, now events.Config) (events.Config, error) {
				<-release // longer than a hook may take
				return now, nil
			})
			r.Action(plugin.ActionDef{Name: "wait"}, func(ctx context.Context, _ plugin.ActionContext, _ json.RawMessage) (plugin.Result, error) {
				started <- struct{}{}
				select {
				case <-release:
					return plugin.Result{Text: "done"}, nil
				case <-ctx.Done():
					return plugin.Result{}, context.Cause(ctx)
				}
			})
		}),
	}})
	b.Host = n.Host()
	d := b.ServeHTTP(httpapi.Config{RequestTimeout: time.Nanosecond})
	b.Open(api.CreateRequest{ID: "s1"})
	outcomes := make(chan string, 2)
	go func() {
		got, err := b.InvokeAction(b.Ctx, "s1", "wait", nil)
		outcomes <- fmt.Sprint(got.Text, err)
	}()
	go func() {
		status, answer := d.StatusOf("writer", "POST", "/v1/sessions/s1/actions", `{"name":"wait"}`)
		outcomes <- fmt.Sprint(status, answer)
	}()
	leaves, disconnect := context.WithCancel(b.Ctx)
	disconnected := make(chan error, 1)
	go func() {
		_, err := b.InvokeAction(leaves, "s1", "wait", nil)
		disconnected <- err
	}()
	for range 3 {
		harness.Receive(b, "an action that waits", started)
	}
	err := b.Configure(b.Ctx, "s1", api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Model = "m2"; return c }})
	runtest.WantError(t, "configure, whose hook is cut off", err, nil)
	select {
	case got := <-outcomes:
		t.Errorf("after the time of a hook: got %s, want the actions to go on", got)
	default:
	}
	disconnect()
	runtest.WantError(t, "the action whose caller left", harness.Receive(b, "the action whose caller left", disconnected), context.Canceled)
	close(release)
	for range 2 {
		if got := harness.Receive(b, "an action's outcome", outcomes); got != "done<nil>" && !strings.Contains(got, `200{"text":"done","outcome":"success"}`) {
			t.Errorf("got %s, want the action done", got)
		}
	}
}
