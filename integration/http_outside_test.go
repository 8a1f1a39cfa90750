package integration

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
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
)

// outside does with a session what hosts in the process of a node do.
func (d *door) outside(s string) {
	d.t.Helper()
	has := func(what string, got answered, want string) {
		d.t.Helper()
		if !strings.Contains(string(got.body), want) {
			d.t.Errorf("%s: got %s, want %s in it", what, got.body, want)
		}
	}
	has("catalog", d.want(200, "GET", s+"/tools/catalog", ""), `"name":"later"`)
	tools := d.want(200, "GET", s+"/tools", "")
	generation := d.want(200, "PUT", s+"/tools", string(tools.body)).text("generation")
	again := d.want(200, "GET", s+"/tools", "")
	equal(d.t, "tools as they were", strings.Replace(string(again.body), `"generation":`+generation, `"generation":`+tools.text("generation"), 1), string(tools.body))
	d.refused(409, "generation", "PUT", s+"/tools", string(tools.body))
	d.want(204, "PUT", s+"/extensions", `{"extensions":[]}`)
	d.refused(400, "protocol", "PUT", s+"/extensions", `{"extensions":[{"type":"x"}]}`)
	has("sources", d.want(200, "GET", s+"/tools/sources", ""), `{"name":"more","known":true}`)
	d.want(200, "PUT", s+"/tools/sources/more", "")
	has("sources with it", d.want(200, "GET", s+"/tools/sources", ""), `{"name":"more","added":true,"known":true}`)
	has("its tool", d.want(200, "GET", s+"/tools", ""), `"name":"extra"`)
	d.refused(404, "unknown_source", "PUT", s+"/tools/sources/nothing", "")
	d.want(200, "POST", s+"/tools/refresh", "")
	d.want(200, "DELETE", s+"/tools/sources/more", "")
	d.refused(404, "unknown_source", "DELETE", s+"/tools/sources/more", "")
	has("actions", d.want(200, "GET", s+"/actions", ""), `"name":"greet"`)
	equal(d.t, "action", d.want(200, "POST", s+"/actions", `{"name":"greet","args":{"Name":"you"}}`).text("text"), `"hello you"`)
	d.refused(422, "action_failed", "POST", s+"/actions", `{"name":"greet","args":[1]}`)
	d.want(204, "PUT", s+"/options", `{"options":{"a":1},"all_frames":true}`)
	equal(d.t, "options", string(d.state("s1").Frame().Options), `{"a":1}`)
	equal(d.t, "none", strings.TrimSpace(string(d.want(200, "POST", s+"/first-input", "").body)), `{}`)
	d.want(204, "PUT", s+"/messages", `{"messages":[{"id":"r1","role":"user","parts":[{"type":"text","text":"anew"}]},{"role":"user","parts":[],"transient":true}]}`)
	has("view", d.want(200, "GET", s+"/view", ""), `"messages":[{"id":"r1","role":"user","parts":[{"type":"text","text":"anew"}]}]`)

	d.model.rescript(reply(text("as you say")), reply(text("for the second time")), reply(text("as it comes")))
	first := d.want(200, "POST", s+"/completions", aside, "Idempotency-Key", "paid")
	equal(d.t, "completion", first.text("text"), "as you say")
	equal(d.t, "the same with its key", string(d.want(200, "POST", s+"/completions", aside, "Idempotency-Key", "paid").body), string(first.body))
	equal(d.t, "completion without a key", d.want(200, "POST", s+"/completions", aside).text("text"), "for the second time")
	streamed := d.streamOf("writer", "POST", s+"/completions/stream", aside).until(func(m received) bool { return m.name == "result" })
	equal(d.t, "events of a completion", len(streamed), 2)
	has("its delta", answered{body: []byte(streamed[0].data)}, `"text":"as it comes"`)
	d.model.rescript(fails(llm.KindRequest, "no"), fails(llm.KindRequest, "no"))
	for _, path := range []string{"/completions", "/completions/stream"} {
		d.refused(422, "completion_failed", "POST", s+path, aside)
	}
	d.tasksOutside(s, has)
}

// tasksOutside has a program register tasks and run them.
func (d *door) tasksOutside(s string, has func(string, answered, string)) {
	d.t.Helper()
	has("registered", d.want(201, "PUT", s+"/tasks/k1", `{"kind":"observer","cancel":"cooperative","close":"keep","args":{"a":1}}`), `"kind":"observer","state":"running"`)
	d.refused(409, "task_running", "PUT", s+"/tasks/k1", `{}`)
	d.refused(400, "invalid", "PUT", s+"/tasks/k9", `{"kind":"monitor"}`)
	d.refused(400, "invalid", "PUT", s+"/tasks/monitor-m9", `{}`)
	has("progress", d.want(200, "POST", s+"/tasks/k1/progress", `{"message":"half way"}`), `"message":"half way"`)
	d.refused(409, "task_running", "PUT", s+"/tasks/k1", `{}`)
	has("stop", d.want(200, "POST", s+"/tasks/k1/stop", `{"reason":"enough"}`), `"state":"cancel_requested"`)
	has("progress then", d.want(200, "POST", s+"/tasks/k1/progress", `{"message":"stopping"}`), `"state":"cancel_requested"`)
	has("end", d.want(200, "POST", s+"/tasks/k1/end", `{"state":"cancelled","summary":"well"}`), `"state":"cancelled"`)
	d.refused(400, "invalid", "POST", s+"/tasks/k1/end", `{"state":"running"}`)
	for _, k := range []string{"k2", "k3"} {
		d.want(201, "PUT", s+"/tasks/"+k, `{}`)
	}
	d.want(204, "POST", s+"/tasks/transfer", `{"to":"s2","tasks":["k2"]}`)
	has("moved", d.want(200, "GET", "/v1/sessions/s2/tasks", ""), `"id":"k2"`)
	equal(d.t, "cancelled", d.want(200, "POST", s+"/tasks/cancel", `{"keep":["k9"]}`).text("cancelled"), "[k3]")
}

// extending is a protocol that takes extensions, and refuses turns with another one than it knows.
type extending struct {
	protocol
	got *atomic.Int64
}

func (p extending) ApplyExtension(_ context.Context, e events.Extension) error {
	if e.Type != "note" {
		return errors.New("unknown extension")
	}
	p.got.Add(1)
	return nil
}

// extended asks a host whose protocol takes extensions.
func (d *door) extended() {
	d.t.Helper()
	var got atomic.Int64
	p := extending{got: &got}
	p.validate = func(_ context.Context, in events.TurnInput) error {
		if !in.Extension.IsZero() && (in.Extension.Type != "note" || string(in.Extension.Body) != `{"a":1}`) {
			return errors.New("unknown extension")
		}
		return nil
	}
	takes := declares(standard.ID, func(r *plugin.Registrar) {
		r.Protocol(p)
		r.Driver(p)
	})
	stack, err := plugin.NewHost(plugin.HostConfig{Factories: []plugin.Factory{takes}})
	must(d.t, "plugins", err, nil)
	h, err := session.New(session.Config{Bus: d.bus, Plugins: stack})
	must(d.t, "host", err, nil)
	server, err := httpapi.New(httpapi.Config{Service: h, Tokens: tokens()})
	must(d.t, "new server", err, nil)
	defer server.Drain()
	d.open(api.CreateRequest{ID: "ext"})
	d.model.rescript(reply(text("done")))
	for path, bodies := range map[string]map[string]int{
		"/extensions": {`{"type":"note","body":{"a":1}}`: 204, `{"type":"else"}`: 400, `{"body":1}`: 400},
		"/turns":      {`{"id":"t1","text":"x","extension":{"type":"note","body":{"a":1}}}`: 202, `{"text":"x","extension":{"type":"else"}}`: 400},
	} {
		for body, want := range bodies {
			r, w := httptest.NewRequestWithContext(d.ctx, "POST", "/v1/sessions/ext"+path, strings.NewReader(body)), httptest.NewRecorder()
			r.Header.Set("Authorization", "Bearer writer"+secret)
			server.ServeHTTP(w, r)
			d.doc.check(d.t, "POST", "/v1/sessions/ext"+path, w.Code, w.Header(), w.Body.Bytes())
			equal(d.t, path+" "+body+": "+w.Body.String(), w.Code, want)
		}
	}
	equal(d.t, "applied", got.Load(), 1)
	d.node(takes) // the node that is there takes no extensions, and leaves the turn to others
	d.want(200, "GET", "/v1/sessions/ext/turns/t1?wait=30", "")
}

// TestHTTPCreateEveryField creates sessions with every field that a request has in Go.
func TestHTTPCreateEveryField(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	b.node()
	d := b.door(httpapi.Config{})
	d.want(201, "POST", "/v1/sessions", `{"id":"base","nodes":[{"message":{"id":"n1","role":"user","parts":[{"type":"text","text":"a"}]}}]}`)
	d.want(201, "POST", "/v1/sessions", `{"id":"kid","parent":"base","relation":"handoff","plugins":"current_session_fork","usage":"helper",
		"subagent":{"capability":"c","depth":1,"max_depth":2},"first":{"role":"user","parts":[{"type":"text","text":"begin"}]}}`)
	kid := d.state("kid")
	equal(t, "relation", kid.Relation, events.RelationHandoff)
	equal(t, "source", kid.Source, "helper")
	equal(t, "subagent", kid.Subagent, events.Subagent{Capability: "c", Depth: 1, MaxDepth: 2})
	taken := d.want(200, "POST", "/v1/sessions/kid/first-input", "")
	equal(t, "first", strings.Contains(string(taken.body), `"text":"begin"`), true)
	equal(t, "who took it", find[*events.SessionFirstInputTaken](d.bundle, "kid")[0].By, "writer")

	head, fresh, err := d.state("base").Clone().Snapshot()
	must(t, "snapshot", err, nil)
	snapshot := map[string]any{"head": head}
	for _, s := range fresh {
		snapshot["segments"] = append(orEmpty(snapshot["segments"]), s.Data)
	}
	text, err := json.Marshal(snapshot)
	must(t, "snapshot", err, nil)
	for id, start := range map[string]string{
		"current": `"start":"current_session","parent":"base"`, "existing": `"start":"existing_session","from":"base"`, "snap": `"start":"snapshot","snapshot":` + string(text),
	} {
		d.want(201, "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q,%s}`, id, start))
		equalLists(t, id, d.messages(events.SessionID(id)), []string{"user a"})
	}
	for _, wrong := range []string{
		`"start":"else"`, `"start":"snapshot"`, `"from":"base"`, `"snapshot":{"head":"AAAA"}`, `"relation":"else"`, `"plugins":"else"`, `"first":{"role":"else","parts":[]}`,
		`"start":"snapshot","snapshot":{"head":"` + base64.StdEncoding.EncodeToString([]byte("none")) + `"}`, `"start":"snapshot","snapshot":{"head":"%"}`,
		`"usage":"` + strings.Repeat("x", events.MaxIDBytes+1) + `"`, `"subagent":{"capability":"","depth":-1,"max_depth":0}`,
	} {
		got := d.ask("writer", "POST", "/v1/sessions", fmt.Sprintf(`{"id":"wrong",%s}`, wrong))
		equal(t, wrong+": "+string(got.body), got.status == 400 || got.status == 413, true)
	}
	equal(t, "fork with a start", d.ask("writer", "POST", "/v1/sessions/base/fork", `{"start":"existing_session","from":"kid"}`).status, 400)
}

func orEmpty(v any) [][]byte { list, _ := v.([][]byte); return list }

// TestActionsTakeTheirTime has an action outlive the time of hooks, and that of
// HTTP requests: it ends with its caller alone.
func TestActionsTakeTheirTime(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	started, release := make(chan struct{}, 3), make(chan struct{})
	n := b.nodeWith(workers.Config{}, plugin.HostConfig{Timeout: time.Second, Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{
		declares("slow", func(r *plugin.Registrar) {
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
	d := b.door(httpapi.Config{RequestTimeout: time.Nanosecond})
	b.open(api.CreateRequest{ID: "s1"})
	outcomes := make(chan string, 2)
	go func() {
		got, err := b.InvokeAction(b.ctx, "s1", "wait", nil)
		outcomes <- fmt.Sprint(got.Text, err)
	}()
	go func() {
		status, answer := d.outcome("writer", "POST", "/v1/sessions/s1/actions", `{"name":"wait"}`)
		outcomes <- fmt.Sprint(status, answer)
	}()
	leaves, leave := context.WithCancel(b.ctx)
	left := make(chan error, 1)
	go func() {
		_, err := b.InvokeAction(leaves, "s1", "wait", nil)
		left <- err
	}()
	for range 3 {
		receive(b, "an action that waits", started)
	}
	err := b.Configure(b.ctx, "s1", api.ConfigureRequest{Change: func(c events.Config) events.Config { c.Model = "m2"; return c }})
	must(t, "configure, whose hook is cut off", err, nil)
	select {
	case got := <-outcomes:
		t.Errorf("after the time of a hook: got %s, want the actions to go on", got)
	default:
	}
	leave()
	if err := receive(b, "the action whose caller left", left); !errors.Is(err, context.Canceled) {
		t.Errorf("the action whose caller left: got %v, want %v", err, context.Canceled)
	}
	close(release)
	for range 2 {
		if got := receive(b, "an action's outcome", outcomes); got != "done<nil>" && !strings.Contains(got, `200{"text":"done","outcome":"success"}`) {
			t.Errorf("got %s, want the action done", got)
		}
	}
}
