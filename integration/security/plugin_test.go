package security

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

// installPlugins is [install] with the plugins weather and other of acme, weather of globex, and spy of acme, whose user
// has no list of permissions.
func installPlugins(t *testing.T) *deployment {
	t.Helper()
	d := install(t)
	for _, of := range [][]string{{"acme", "weather"}, {"acme", "other"}, {"globex", "weather"}} {
		run(t, d.dir, "add-plugin.sh", of...)
	}
	run(t, d.dir, "add-plugin.sh", "acme", "spy")
	spy := filepath.Join(d.dir, "tenants", "acme", "plugin-spy.conf")
	data, err := os.ReadFile(spy)
	runtest.WantError(t, "read", err, nil)
	before, _, _ := strings.Cut(string(data), ", permissions: {")
	runtest.WantError(t, "write", os.WriteFile(spy, []byte(before+" }\n  ]\n}\n"), 0o600), nil)
	return d
}

// pluginRows are the permissions of the plugin weather.
func pluginRows() (publish, subscribe []string) {
	return []string{"_R_.>", "lash.plugin-live.weather.*", "lash.plugins.weather.fire", "lash.plugins.weather.register"},
		[]string{"_INBOX.plugin-weather.>", "lash.plugin.weather.*.*"}
}

// notOfPlugins are subjects that a plugin would have if its list or its name were wider.
func notOfPlugins() (publish, subscribe []string) {
	publish = []string{
		"lash.plugins.weather.drop", "lash.plugins.weather", "lash.plugins.weather.register.x", "lash.plugins.other.register", "lash.plugins.other.fire",
		"lash.plugin-live.other.i1", "lash.plugin-live.weather", "lash.plugin-live.weather.i1.x", "lash.plugin.weather.i1.call", "lash.plugin.other.i1.call",
		"lash.plugin.weather.all.sign", "_INBOX.plugin-weather.x", "_INBOX.plugin-other.x", "_INBOX.node.x", "$KV.lash-plugins.weather", "$KV.lash-plugins.other",
		"$JS.API.INFO", "$JS.API.STREAM.INFO.lash-s-s1", "$JS.API.DIRECT.GET.lash-s-s1", "$JS.ACK.lash-work.turn.1.1.1.1.1", "_R_",
	}
	subscribe = []string{
		"lash.plugin.*.*.*", "lash.plugin.>", "lash.plugin.other.*.*", "lash.plugin.other.i1.call", "lash.plugin-live.*.*", "lash.plugin-live.weather.*", "lash.plugin-live.other.*",
		"lash.plugins.*.*", "lash.plugins.weather.*", "lash.plugins.other.register", "_INBOX.*.>", "_INBOX.plugin-other.>", "_INBOX.plugin-weather", "_R_.>", "lash.plugin.weather.>",
	}
	return publish, subscribe
}

// TestPluginPermissions compares the list of a plugin's user with the table, and tries each of its rows. It tries
// every row of every other role, and what a wider list would have: the server refuses all of those.
func TestPluginPermissions(t *testing.T) {
	t.Parallel()
	d := installPlugins(t).boot()
	publish, subscribe := pluginRows()
	list := d.pluginPermissions("weather")
	runtest.EqualLists(t, "publish", slices.Sorted(slices.Values(list["publish"])), publish)
	runtest.EqualLists(t, "subscribe", slices.Sorted(slices.Values(list["subscribe"])), subscribe)
	probe := d.probe("plugin-weather@acme")
	for _, row := range publish {
		probe.publish(literal(row), true)
	}
	for _, row := range subscribe {
		probe.subscribe(row, true)
	}
	notPublished, notSubscribed := notOfPlugins()
	noPublish, noSubscribe := beyond()
	for row := range mayPublish() {
		if row != "_R_.>" && row[0] != '-' {
			notPublished = append(notPublished, literal(row))
		}
	}
	for _, subject := range slices.Concat(notPublished, noPublish) {
		probe.publish(subject, false)
	}
	for _, subject := range slices.Concat(notSubscribed, noSubscribe, slices.Collect(maps.Keys(maySubscribe()))) {
		probe.subscribe(subject, false)
	}
	probe.check()
}

// pluginPermissions are the lists of a plugin's user in the files.
func (d *deployment) pluginPermissions(name string) map[string][]string {
	d.t.Helper()
	parsed, err := conf.ParseFile(filepath.Join(d.dir, "tenants", "acme", "plugin-"+name+".conf"))
	runtest.WantError(d.t, "parse", err, nil)
	users := parsed["acme-plugin-"+name].(map[string]any)["users"].([]any)
	runtest.Equal(d.t, "users", len(users), 1)
	list := make(map[string][]string)
	for direction, rules := range users[0].(map[string]any)["permissions"].(map[string]any) {
		for rule, rows := range rules.(map[string]any) {
			runtest.Equal(d.t, "rule", rule, "allow")
			for _, row := range rows.([]any) {
				list[direction] = append(list[direction], row.(string))
			}
		}
	}
	return list
}

// onOneAndThree runs a test on the single server, and on the three servers of cluster/.
func onOneAndThree(t *testing.T, test func(t *testing.T, d *deployment, urls string, all []*server.Server, replicas int)) {
	t.Helper()
	t.Run("one_server", func(t *testing.T) {
		t.Parallel()
		d := installPlugins(t)
		d.boot()
		test(t, d, d.ns.ClientURL(), []*server.Server{d.ns}, 1)
	})
	t.Run("three_servers", func(t *testing.T) {
		t.Parallel()
		d := installPlugins(t)
		urls, all := d.cluster()
		test(t, d, urls, all, 3)
	})
}

// withPlugins is a system with a node that has the plugins weather and other.
func (d *deployment) withPlugins(urls string, replicas int, script ...harness.Step) (*harness.System, *external.Plugins) {
	d.t.Helper()
	cfg := d.config("node@acme")
	cfg.URL, cfg.Replicas = urls, replicas
	b := &harness.System{T: d.t, Ctx: harness.Context(d.t), Model: &harness.Model{T: d.t, Script: script}}
	b.Bus = d.open(bus.Open, cfg)
	p, err := external.New(external.Config{Bus: b.Bus, Plugins: []external.Plugin{{Name: "weather"}, {Name: "other"}}})
	runtest.WantError(d.t, "plugins", err, nil)
	runtest.WantError(d.t, "start", p.Start(b.Ctx), nil)
	d.t.Cleanup(p.Stop)
	n, _ := b.StartNodeOn(b.Bus, p.Factories()...)
	b.Host = n.Host()
	return b, p
}

// forecast is the plugin weather. Its tool returns after wait.
func forecast(wait time.Duration) plugin.Factory {
	return plugin.OfTool(plugin.Tool{Name: "weather", Effects: events.EffectsNonIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		select {
		case <-time.After(wait): //nolint:forbidigo // the time of the tool's work
			return "rain", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
}

// instance runs a plugin with its own permissions on one of the servers.
func (d *deployment) instance(on *server.Server, p plugin.Factory, id string) *remote.Instance {
	d.t.Helper()
	name := "plugin-" + p.ID()
	d.access(name + "@acme") // issues the certificate
	base, file := d.certs(name+"-at-acme"), filepath.Join(d.t.TempDir(), "connection.json")
	data, err := json.Marshal(map[string]string{"url": on.ClientURL(), "inbox": "_INBOX." + name, "tls_ca": d.clients.pem, "tls_cert": base + ".pem", "tls_key": base + ".key"})
	runtest.WantError(d.t, "connection", err, nil)
	runtest.WantError(d.t, "connection", os.WriteFile(file, data, 0o600), nil)
	refused := &bustest.Refusals{}
	nc, err := remote.Connect(file, nats.ErrorHandler(refused.Handler))
	runtest.NoError(d.t, err)
	d.t.Cleanup(nc.Close)
	d.t.Cleanup(func() { runtest.EqualLists(d.t, "refused to "+name, refused.All(), nil) })
	i, err := remote.Start(harness.Context(d.t), remote.Config{Conn: nc, Plugin: p, Version: "1", Instance: id})
	runtest.NoError(d.t, err)
	d.t.Cleanup(func() { _ = i.Stop(context.Background()) })
	return i
}

// TestRolePlugin runs a tool with a plugin's permissions only: its answers cross the accounts for longer than
// signs of life are far apart, a call is cancelled, and a call to an instance that has ended fails at once.
func TestRolePlugin(t *testing.T) {
	t.Parallel()
	onOneAndThree(t, func(t *testing.T, d *deployment, urls string, all []*server.Server, replicas int) {
		b, p := d.withPlugins(urls, replicas,
			harness.Reply(harness.Call("c1", "weather", `{}`)), harness.Reply(harness.Text("one")))
		i := d.instance(all[len(all)-1], forecast(3*wire.SignEvery), "i1")
		b.AwaitPolling("the instance", func() bool { return len(p.Status()[0].Instances) == 1 })
		b.Open(api.CreateRequest{ID: "s1"})
		b.RunTurn("s1", "t1", harness.Text("go"))
		runtest.Equal(t, "result", b.CallResult("s1", "c1"), "rain")
		weather := p.Status()[0].Instances[0].ID
		runtest.WantError(t, "stop", i.Stop(b.Ctx), nil)
		b.AwaitPolling("calls of an instance that has ended fail at once", func() bool {
			once, cancel := context.WithTimeout(b.Ctx, time.Second) // a server that has not read of the end yet drops the call
			defer cancel()
			return errors.Is(b.Bus.AskInstance(once, "weather", weather, wire.VerbCall, []byte("{}"), func([]byte) bool { return true }), bus.ErrNoResponder)
		})
	})
}

// TestPluginRepliesReachNothing has a plugin send every request that its list allows, with every kind of reply subject at
// which a message has an effect: its account has none of these subjects. Everything that the servers keep is as before.
func TestPluginRepliesReachNothing(t *testing.T) {
	t.Parallel()
	onOneAndThree(t, func(t *testing.T, d *deployment, urls string, all []*server.Server, replicas int) {
		b, p := d.withPlugins(urls, replicas, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")))
		d.instance(all[0], plugin.OfTool(plugin.Tool{Name: "other"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "other", nil }), "i1")
		b.Open(api.CreateRequest{ID: "s1"})
		b.RunTurn("s1", "t1", harness.Text("hello"))
		rested(b, "s1")
		before, row := kept(b), p.Status()
		v := volley{d: d, nc: d.connOn(all[len(all)-1], "plugin-weather@acme"), requests: make(map[string][]string), also: pluginReplies()}
		publish, _ := pluginRows()
		for _, subject := range publish {
			v.requests[literal(subject)] = []string{"", "{}", `{"hash":"h"}`, `{"protocol":1,"instance":"i1","manifest":{"version":""}}`, `{"point":"custom.x"}`}
		}
		if v.fire(); v.sent < 500 {
			t.Errorf("sent %d requests, want more", v.sent)
		}
		b.AwaitPolling("everything as before", func() bool { return slices.Equal(kept(b), before) })
		b.RunTurn("s1", "t2", harness.Text("hello again"))
		harness.VerifyHistory(t, b.Bus, "s1")
		runtest.DeepEqual(t, "the other plugin", p.Status()[1].Tools, row[1].Tools)
		runtest.Equal(t, "instances of the other plugin", len(p.Status()[1].Instances), len(row[1].Instances))
	})
}

// pluginReplies are subjects of plugins at which a message has an effect.
func pluginReplies() []string {
	return []string{
		"lash.plugins.weather.register", "lash.plugins.other.register", "lash.plugins.other.fire", "lash.plugin-live.weather.i9", "lash.plugin-live.other.i9",
		"lash.plugin.other.i1.call", "lash.plugin.other.i1.cancel", "lash.plugin.weather.i1.call", "_INBOX.plugin-other.x", "$KV.lash-plugins.other",
	}
}

// TestPluginAccountHasNothingElse tries with a plugin's user without a list what no list allows: the account has no
// stream, no other plugin's subject and nothing of the nodes.
func TestPluginAccountHasNothingElse(t *testing.T) {
	t.Parallel()
	onOneAndThree(t, func(t *testing.T, d *deployment, urls string, all []*server.Server, replicas int) {
		spy := d.spy(urls)
		subscription, err := spy.SubscribeSync(">")
		runtest.WantError(t, "subscribe", err, nil)
		runtest.WantError(t, "flush", spy.Flush(), nil)
		b, p := d.withPlugins(urls, replicas, harness.Reply(harness.Call("c1", "weather", `{}`)), harness.Reply(harness.Text("one")))
		d.instance(all[0], forecast(0), "i1")
		b.AwaitPolling("the instance", func() bool { return len(p.Status()[0].Instances) == 1 })
		b.Open(api.CreateRequest{ID: "s1"})
		b.RunTurn("s1", "t1", harness.Text("hello"))
		runtest.Equal(t, "result", b.CallResult("s1", "c1"), "rain")
		rested(b, "s1")
		before := kept(b)
		notPublished, _ := notOfPlugins()
		for _, subject := range slices.Concat(notPublished, replySubjects(), pluginReplies()) {
			if !strings.HasPrefix(subject, "lash.plugins.spy.") && !strings.HasPrefix(subject, "lash.plugin-live.spy.") {
				runtest.WantError(t, "publish", spy.PublishRequest(subject, spy.NewRespInbox(), []byte("{}")), nil)
			}
		}
		runtest.WantError(t, "flush", spy.Flush(), nil)
		b.AwaitPolling("everything as before", func() bool { return slices.Equal(kept(b), before) })
		runtest.Equal(t, "instances", len(p.Status()[0].Instances), 1)
		runtest.WantError(t, "last", spy.Publish("last", nil), nil)
		for {
			m, err := subscription.NextMsgWithContext(b.Ctx)
			runtest.WantError(t, "received", err, nil)
			if m.Subject == "last" {
				return
			}
			if own := string(m.Data) == "{}" || m.Header.Get("Status") == "503" || strings.Contains(string(m.Data), "JetStream not enabled for account"); !own {
				t.Errorf("received %s %q, which is of another account", m.Subject, m.Data)
			}
		}
	})
}

// spy is a connection of the plugin spy, whose user has no list.
func (d *deployment) spy(urls string) *nats.Conn {
	d.t.Helper()
	nc, err := nats.Connect(urls, append(d.access("plugin-spy@acme"), nats.CustomInboxPrefix("_INBOX.spy"))...)
	runtest.WantError(d.t, "connect", err, nil)
	d.t.Cleanup(nc.Close)
	return nc
}

// TestPluginIsAddedByReload adds a plugin to a running server: its program registers, and those of others stay
// connected. Without its file, the next reload ends its connection.
func TestPluginIsAddedByReload(t *testing.T) {
	t.Parallel()
	d := installPlugins(t).boot()
	b, p := d.withPlugins(d.ns.ClientURL(), 1)
	stays := d.conn("plugin-other@acme")
	d.instance(d.ns, forecast(0), "i1")
	run(t, d.dir, "add-plugin.sh", "acme", "third")
	d.reload()
	d.reload() // which subscribes to what the new account imports
	stop, err := b.Bus.ServePlugins([]string{"third"}, nil, func(string, string, []byte) []byte { return []byte(`{"hash":"h"}`) })
	runtest.WantError(t, "a node that has it", err, nil)
	defer stop()
	runtest.WantError(t, "subscription", b.Bus.Conn().Flush(), nil)
	third := d.conn("plugin-third@acme", nats.NoReconnect())
	var m *nats.Msg
	b.AwaitPolling("a node that answers", func() bool { // a program asks again while none does
		m, err = third.RequestWithContext(b.Ctx, "lash.plugins.third.register", []byte(`{"protocol":1,"instance":"i1","manifest":{"version":"1"}}`))
		return !errors.Is(err, nats.ErrNoResponders)
	})
	runtest.WantError(t, "register", err, nil)
	var answer wire.Registered
	runtest.WantError(t, "answer", json.Unmarshal(m.Data, &answer), nil)
	runtest.Equal(t, "answer", answer.Hash, "h")
	closed := third.StatusChanged(nats.CLOSED)
	runtest.WantError(t, "remove", os.Remove(filepath.Join(d.dir, "tenants", "acme", "plugin-third.conf")), nil)
	run(t, d.dir, "add-plugin.sh", "acme")
	d.reload()
	harness.Receive(b, "end of the removed plugin's connection", closed)
	runtest.WantError(t, "the other plugin", stays.Flush(), nil)
	runtest.Equal(t, "reconnects", stays.Stats().Reconnects+b.Bus.Conn().Stats().Reconnects, 0)
	b.AwaitPolling("the instance", func() bool { return len(p.Status()[0].Instances) == 1 })
}
