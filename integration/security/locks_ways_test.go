package security

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	sessionarchive "github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// lockAll locks every setting that an operator can lock.
func lockAll() lock.Locks {
	return lock.Locks{
		Plugins: []string{gate.ID, standard.ID}, Providers: []string{"scripted"}, Models: []string{"small-*"}, Protocols: []string{standard.ID}, Environments: []string{events.DefaultEnvironment},
		MaxIterations: 3, MaxOutputTokens: 100, LeastRetain: time.Hour,
	}
}

// lockedOptions are options of a session that violate one lock.
func lockedOptions() map[string]map[string]string {
	return map[string]map[string]string{"options.gate": {gate.ID: `{"allow":["*"]}`}, "options.standard": {standard.ID: `{}`}}
}

// lockedConfig is a configuration that violates one lock, in Go and in JSON.
type lockedConfig struct {
	field string
	set   func(*events.Config)
	json  string
}

func lockedConfigs() []lockedConfig {
	return []lockedConfig{
		{"config.provider", func(c *events.Config) { c.Provider = "other" }, `"provider":"other"`},
		{"config.model", func(c *events.Config) { c.Model = "large-1" }, `"model":"large-1"`},
		{"config.protocol", func(c *events.Config) { c.Protocol = "code" }, `"protocol":"code"`},
		{"config.environment", func(c *events.Config) { c.Environment = "prod" }, `"environment":"prod"`},
		{"config.max_iterations", func(c *events.Config) { c.MaxIterations = 4 }, `"max_iterations":4`},
		{"config.max_output_tokens", func(c *events.Config) { c.MaxOutputTokens = 101 }, `"max_output_tokens":101`},
		{"config.retain_ms", func(c *events.Config) { c.RetainMillis = 1000 }, `"retain_ms":1000`},
		{"config.fallbacks[0].model", func(c *events.Config) { c.Fallbacks = []events.Fallback{{Model: "large-1"}} }, `"fallbacks":[{"model":"large-1"}]`},
		{"config.fallbacks[0].provider", func(c *events.Config) { c.Fallbacks = []events.Fallback{{Provider: "other", Model: "small-1"}} }, `"fallbacks":[{"provider":"other","model":"small-1"}]`},
	}
}

// configured is a configuration that no lock refuses, with one change.
func (c *lockedConfig) configured() events.Config {
	config := events.Config{Model: "small-1"}
	c.set(&config)
	return config
}

// lockedTurns are inputs of turns that violate one lock.
func lockedTurns() map[string]events.TurnInput {
	text := []events.Part{harness.Text("go")}
	return map[string]events.TurnInput{
		"input.plugins.gate":                 {Parts: text, Plugins: map[string]string{gate.ID: `{"allow":["*"]}`}},
		"input.generation.max_output_tokens": {Parts: text, Generation: events.Generation{MaxOutputTokens: 101}},
		"input.options":                      {Parts: text, Options: []byte(`{"a":1}`)},
	}
}

// lockedCompletions are direct completions that violate one lock.
func lockedCompletions() map[string]plugin.CompletionRequest {
	text := []events.Message{plugin.Say(events.RoleUser, "x")}
	return map[string]plugin.CompletionRequest{
		"config.model":             {Messages: text, Model: "large-1"},
		"config.max_output_tokens": {Messages: text, MaxTokens: 101},
	}
}

// completer is a service with direct completions.
type completer interface {
	api.Service
	Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error)
}

// lockedRequests sends every request that violates a lock, and returns the errors by operation and field.
func lockedRequests(ctx context.Context, s completer, id events.SessionID) map[string]error {
	got := make(map[string]error)
	for _, c := range lockedConfigs() {
		_, got["create "+c.field] = s.Create(ctx, api.CreateRequest{ID: "never", Config: c.configured()})
		_, got["fork "+c.field] = s.Fork(ctx, id, api.CreateRequest{ID: "never", Config: c.configured()})
		got["configure "+c.field] = s.Configure(ctx, id, api.ConfigureRequest{Change: func(now events.Config) events.Config { c.set(&now); return now }})
	}
	for field, options := range lockedOptions() {
		_, got["create "+field] = s.Create(ctx, api.CreateRequest{ID: "never", Options: options})
		_, got["fork "+field] = s.Fork(ctx, id, api.CreateRequest{ID: "never", Options: options})
	}
	got["start environment"] = s.StartMonitor(ctx, id, events.MonitorSpec{ID: "never", Command: "true", Environment: "prod"})
	got["set options"] = s.SetProtocolOptions(ctx, id, []byte(`{"a":1}`), true)
	for field, in := range lockedTurns() {
		_, got["submit "+field] = s.Submit(ctx, id, api.TurnRequest{ID: "never", Input: in})
		_, got["submit at "+field] = s.SubmitAt(ctx, id, time.Now().Add(time.Hour), api.TurnRequest{ID: "never", Input: in})
	}
	for field, req := range lockedCompletions() {
		_, got["complete "+field] = s.Complete(ctx, id, req, "test")
	}
	return got
}

// lockedOverHTTP is lockedRequests over HTTP.
func lockedOverHTTP(d *harness.HTTP, id events.SessionID) map[string]error {
	got := make(map[string]error)
	send := func(what, method, path, body string) {
		a := d.Send("admin", method, path, body)
		if a.Status >= 400 {
			got[what] = fmt.Errorf("%d %s %s", a.Status, a.Field("code"), a.Field("detail"))
		} else {
			got[what] = nil
		}
	}
	s := "/v1/sessions/" + string(id)
	for _, c := range lockedConfigs() {
		send("create "+c.field, "POST", "/v1/sessions", `{"id":"never","config":{`+c.json+`}}`)
		send("fork "+c.field, "POST", s+"/fork", `{"id":"never","config":{`+c.json+`}}`)
		if c.field != "config.retain_ms" { // a change has no such field
			send("configure "+c.field, "PATCH", s, `{`+c.json+`}`)
		}
	}
	for field, part := range map[string]string{"options.gate": `"gate":"{\"allow\":[\"*\"]}"`, "options.standard": `"standard":"{}"`} {
		send("create "+field, "POST", "/v1/sessions", `{"id":"never","options":{`+part+`}}`)
		send("fork "+field, "POST", s+"/fork", `{"id":"never","options":{`+part+`}}`)
	}
	send("start environment", "PUT", s+"/monitors/never", `{"command":"true","environment":"prod"}`)
	send("set options", "PUT", s+"/options", `{"options":{"a":1}}`)
	for field, part := range map[string]string{"input.plugins.gate": `"plugins":{"gate":"{}"}`, "input.generation.max_output_tokens": `"generation":{"max_output_tokens":101}`, "input.options": `"options":{"a":1}`} {
		send("submit "+field, "POST", s+"/turns", `{"id":"never","text":"go",`+part+`}`)
		send("submit at "+field, "POST", s+"/turns", `{"id":"never","text":"go","at_ms":4102444800000,`+part+`}`)
	}
	for field, part := range map[string]string{"config.model": `"model":"large-1"`, "config.max_output_tokens": `"max_tokens":101`} {
		body := `{"messages":[{"role":"user","parts":[{"type":"text","text":"x"}]}],` + part + `}`
		send("complete "+field, "POST", s+"/completions", body)
		send("stream "+field, "POST", s+"/completions/stream", body)
	}
	return got
}

// lockedInTool is lockedRequests for what a tool can request of its host.
func lockedInTool(ctx context.Context, call plugin.Call) map[string]error {
	got := make(map[string]error)
	for _, c := range lockedConfigs() {
		_, got["create "+c.field] = call.Host.CreateSession(ctx, api.CreateRequest{ID: "never", Config: c.configured()})
		_, got["child "+c.field] = call.Host.CreateSession(ctx, api.CreateRequest{ID: "never", Parent: call.Session, Config: c.configured()})
		_, got["copy "+c.field] = call.Host.CreateSession(ctx, api.CreateRequest{ID: "never", Start: api.StartCurrent, Config: c.configured()})
	}
	for field, options := range lockedOptions() {
		_, got["create "+field] = call.Host.CreateSession(ctx, api.CreateRequest{ID: "never", Parent: call.Session, Options: options})
	}
	for field, in := range lockedTurns() {
		_, got["start "+field] = call.Host.StartTurn(ctx, "other", api.TurnRequest{ID: "never", Input: in})
		_, _, got["stream "+field] = call.Host.StartTurnStream(ctx, "other", api.TurnRequest{ID: "never", Input: in})
	}
	_, got["monitor environment"] = call.Host.StartMonitor(ctx, call.Session, events.MonitorSpec{ID: "never", Command: "true", Environment: "prod"})
	for field, req := range lockedCompletions() {
		_, got["complete "+field] = call.Host.Complete(ctx, req, "test")
	}
	return got
}

// TestSmokeLocksHoldEveryWay requests every locked setting in every way: from the node's host, over NATS, over HTTP, from a tool
// of a turn, and from one that continues in the background. Each is refused with its field, without an effect.
func TestSmokeLocksHoldEveryWay(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("1", "ask", `{}`)), harness.Reply(harness.Text("ok")))
	inTool, inBackground := make(chan map[string]error, 1), make(chan map[string]error, 1)
	asks := harness.PluginOf("asks", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "ask", Effects: events.EffectsIdempotent}, func(ctx context.Context, call plugin.Call, _ struct{}) (string, error) {
			inTool <- lockedInTool(ctx, call)
			return "asked", call.Host.SpawnTask(ctx, call.Session, api.TaskRequest{ID: "later"}, func(ctx context.Context) error {
				inBackground <- lockedInTool(ctx, call)
				return nil
			})
		})
	})
	n := startLocked(b, asks, gate.Factory(gate.Config{}))
	b.Host = n.Host()
	d := b.ServeHTTP(httpapi.Config{Service: n.Host()})
	c, err := client.New(client.Config{Bus: bustest.Open(t, b.Server)})
	runtest.WantError(t, "client", err, nil)
	for _, id := range []events.SessionID{"s1", "other"} {
		b.Open(api.CreateRequest{ID: id, Config: events.Config{Model: "small-1"}})
	}
	before := b.LastSeq("other")
	check := func(way string, got map[string]error, least int) {
		t.Helper()
		if len(got) < least {
			t.Errorf("%s: sent %d requests, want %d", way, len(got), least)
		}
		for what, err := range got {
			_, field, _ := strings.Cut(strings.Replace(what, "submit at", "submit_at", 1), " ")
			if err == nil || !errors.Is(err, api.ErrForbidden) && !strings.HasPrefix(err.Error(), "403 forbidden ") || !strings.Contains(err.Error(), field+": ") {
				t.Errorf("%s: %s: got %v, want it forbidden", way, what, err)
			}
		}
		b.WantNoSession("never")
		runtest.Equal(t, "commits after "+way, b.LastSeq("other"), before)
	}
	check("host", lockedRequests(b.Ctx, n.Host(), "other"), 41)
	check("nats", lockedRequests(b.Ctx, c, "other"), 41)
	check("http", lockedOverHTTP(d, "other"), 42)
	b.RunTurn("s1", "t1", harness.Text("go"))
	check("tool", harness.Receive(b, "the requests of the tool", inTool), 38)
	check("background", harness.Receive(b, "the requests of the task", inBackground), 38)
	for i, r := range b.Model.Requests() {
		if r.Model != "small-1" || r.MaxOutputTokens != 100 {
			t.Errorf("request %d: got model %s and %d tokens, want those that the locks allow", i, r.Model, r.MaxOutputTokens)
		}
	}
}

// TestLocksHoldOlderWork has sessions with every locked setting from before the lock, in every form in which they can be
// there: as they are, forked, as parent, imported, with a queued turn and with a scheduled one. The node refuses their
// turns with the field, and calls no model.
func TestLocksHoldOlderWork(t *testing.T) {
	t.Parallel()
	elsewhere := harness.StartIdle(t)
	b := harness.StartIdle(t)
	want := make(map[events.SessionID]string) // the field, by session
	queued := make(map[events.SessionID]string)
	for i, c := range lockedConfigs() {
		if c.field == "config.retain_ms" {
			continue // turns may run: archivers apply the lock, as the tests of package follow show
		}
		form := func(name string) events.SessionID {
			id := events.SessionID(fmt.Sprintf("%s-%d", name, i))
			want[id] = c.field
			return id
		}
		b.Open(api.CreateRequest{ID: form("self"), Config: c.configured()})
		for _, name := range []string{"fork", "child"} { // made later, by the node with the locks
			form(name)
		}
		other := elsewhere.Open(api.CreateRequest{ID: form("import"), Config: c.configured()})
		copyArchive(b, elsewhere, other)
		waits := b.Open(api.CreateRequest{ID: events.SessionID(fmt.Sprint("queued-", i)), Config: c.configured()})
		b.StartTurn(waits, "t1", harness.Text("go"))
		queued[waits] = c.field
		later := b.Open(api.CreateRequest{ID: events.SessionID(fmt.Sprint("later-", i)), Config: c.configured()})
		b.ScheduleTurn(later, "t1", time.Now().Add(time.Second), "go")
		queued[later] = c.field
	}
	finish := make(map[events.SessionID]bool) // without what the lock excludes
	for field, in := range lockedTurns() {
		id := b.Open(api.CreateRequest{ID: events.SessionID("turn-" + field[strings.LastIndex(field, ".")+1:]), Config: events.Config{Model: "small-1"}})
		_, err := b.Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: in})
		runtest.WantError(t, "submit", err, nil)
		finish[id] = true
	}
	b.Model.Rescript(harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")), harness.Reply(harness.Text("three")))
	received := make(chan map[string]string, 8)
	sees := harness.PluginOf("sees", func(r *plugin.Registrar) {
		r.BeforeTurn(func(_ context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
			received <- in.Input.Plugins
			return nil, nil
		})
	})
	n := startLocked(b, sees, gate.Factory(gate.Config{}))
	for i, c := range lockedConfigs() {
		if c.field == "config.retain_ms" {
			continue
		}
		self := events.SessionID(fmt.Sprintf("self-%d", i))
		_, err := n.Host().Fork(b.Ctx, self, api.CreateRequest{ID: events.SessionID(fmt.Sprintf("fork-%d", i))})
		runtest.WantError(t, "fork", err, nil)
		_, err = n.Host().Create(b.Ctx, api.CreateRequest{ID: events.SessionID(fmt.Sprintf("child-%d", i)), Parent: self})
		runtest.WantError(t, "child", err, nil)
		if c.field == "config.max_output_tokens" {
			continue // a completion has a limit of its own
		}
		_, err = n.Host().Complete(b.Ctx, self, plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "x")}}, "test")
		runtest.WantError(t, fmt.Sprintf("completion in a session with another %s", c.field), err, api.ErrForbidden)
	}
	b.Host = n.Host()
	refused := func(id events.SessionID, issue events.Issue, field string) {
		t.Helper()
		if issue.Code != "forbidden" || !strings.Contains(issue.Message, field+": ") {
			t.Errorf("%s: got %+v, want %s forbidden", id, issue, field)
		}
	}
	for id, field := range want {
		refused(id, b.FailedTurn(id, "t9"), field)
	}
	for id, field := range queued {
		record := b.AwaitTurn(id, "t1")
		runtest.Equal(t, "end of "+string(id), record.End, events.EndFailed)
		refused(id, record.Issue, field)
	}
	for id := range finish {
		runtest.Equal(t, "end of "+string(id), b.AwaitTurn(id, "t1").End, events.EndFinished)
		runtest.Equal(t, "options of a turn for a locked plugin", len(harness.Receive(b, "options of the turn", received)), 0)
	}
	requests := b.Model.Requests()
	runtest.Equal(t, "calls of the model", len(requests), len(finish))
	for _, r := range requests {
		runtest.Equal(t, "tokens", r.MaxOutputTokens, 100)
	}
}

// startLocked starts a node with all locks. It also has the provider that they exclude.
func startLocked(b *harness.System, factories ...plugin.Factory) *workers.Node {
	b.T.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: factories})
	runtest.WantError(b.T, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: b.Bus, Providers: map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer), "other": otherProvider{scripted.New(b.Model.Answer)}},
		Provider: "scripted", Plugins: builder, Locks: lockAll(),
	})
	runtest.WantError(b.T, "node", err, nil)
	b.Launch(n)
	return n
}

// otherProvider is a provider with another id.
type otherProvider struct{ llm.Provider }

func (otherProvider) ID() string { return "other" }

// copyArchive imports a session of another system.
func copyArchive(b, from *harness.System, id events.SessionID) {
	b.T.Helper()
	var data bytes.Buffer
	_, err := sessionarchive.Write(from.Ctx, from.Bus.Log(), from.Bus, id, &data)
	runtest.WantError(b.T, "export", err, nil)
	a, err := events.ReadArchive(&data, 1<<20)
	runtest.WantError(b.T, "read", err, nil)
	_, err = sessionarchive.Restore(b.Ctx, b.Bus, a)
	runtest.WantError(b.T, "import", err, nil)
}

// TestLockedProtocolIsNotTheDefault locks protocols without the standard one. A session that names none has that one, and
// so is refused, also where it is older than the lock.
func TestLockedProtocolIsNotTheDefault(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	old := b.Open(api.CreateRequest{})
	n := b.StartNodeWith(workers.Config{Locks: lock.Locks{Protocols: []string{"code"}}}, plugin.BuilderConfig{Builtins: workers.Builtins()})
	for what, config := range map[string]events.Config{"none": {}, "model": {Model: "m"}, "named": {Protocol: "standard"}} {
		if _, err := n.Host().Create(b.Ctx, api.CreateRequest{ID: "never", Config: config}); !errors.Is(err, api.ErrForbidden) || !strings.Contains(err.Error(), "config.protocol: ") {
			t.Errorf("%s: got %v, want config.protocol forbidden", what, err)
		}
	}
	b.WantNoSession("never")
	_, err := n.Host().Create(b.Ctx, api.CreateRequest{ID: "coded", Config: events.Config{Protocol: "code"}})
	runtest.WantError(t, "the locked protocol", err, nil)
	b.Host = n.Host()
	runtest.Equal(t, "turn of an older session", b.FailedTurn(old, "t1").Code, "forbidden")
	data, err := json.Marshal(b.Model.Requests())
	runtest.WantError(t, "encode", err, nil)
	runtest.Equal(t, "calls of the model", string(data), "null")
}
