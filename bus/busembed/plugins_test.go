package busembed_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// startPlugins starts a server with plugins, and connects to it as the node.
func startPlugins(t *testing.T, store string, plugins ...string) (*busembed.Server, *nats.Conn) {
	t.Helper()
	s, err := busembed.Start(busembed.Config{StoreDir: store, Listen: true, Keyed: true, Plugins: plugins})
	runtest.NoError(t, err)
	t.Cleanup(s.Stop)
	node, err := nats.Connect(s.URL(), s.InProcess())
	runtest.NoError(t, err)
	t.Cleanup(node.Close)
	return s, node
}

// pluginConn connects with the key in a plugin's file. refused has what the server refuses.
func pluginConn(t *testing.T, store, plugin string) (nc *nats.Conn, refused *bustest.Refusals) {
	t.Helper()
	data, err := os.ReadFile(busembed.PluginFile(store, plugin))
	var a busembed.Access
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	runtest.NoError(t, err)
	refused = &bustest.Refusals{}
	nc, err = nats.Connect(a.URL, a.Option(), nats.ErrorHandler(refused.Handler))
	runtest.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc, refused
}

// TestPlugins has a plugin answer a call of the node with several messages, request and send signs; the node's store is as without
// plugins, over a restart.
func TestPlugins(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	before, _ := startKeyed(t, store)
	old, err := nats.Connect(before.URL(), before.InProcess())
	runtest.NoError(t, err)
	js, err := jetstream.New(old)
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "kept", Subjects: []string{"kept"}})
	}
	if err == nil {
		_, err = js.Publish(t.Context(), "kept", []byte("one"))
	}
	runtest.NoError(t, err)
	old.Close()
	before.Stop()

	_, node := startPlugins(t, store, "weather", "other")
	if js, err = jetstream.New(node); err != nil {
		t.Fatal(err)
	}
	if ack, err := js.Publish(t.Context(), "kept", []byte("two")); err != nil || ack.Sequence != 2 {
		t.Errorf("publish: got %+v, %v, want the second message of the stream", ack, err)
	}
	signs, err := node.SubscribeSync("lash.plugin-live.*.*")
	if err == nil {
		_, err = node.Subscribe("lash.plugins.*.*", func(m *nats.Msg) { _ = m.Respond([]byte(m.Subject)) })
	}
	if err == nil {
		err = node.Flush()
	}
	runtest.NoError(t, err)
	weather, refused := pluginConn(t, store, "weather")
	if m, err := weather.Request("lash.plugins.weather.register", nil, time.Minute); err != nil || string(m.Data) != "lash.plugins.weather.register" {
		t.Errorf("register: got %v, %v", m, err)
	}
	_, err = weather.Subscribe("lash.plugin.weather.i1.*", func(m *nats.Msg) {
		for _, part := range []string{"one", "two", "three"} {
			_ = weather.Publish(m.Reply, []byte(part))
		}
	})
	if err = errors.Join(err, weather.Publish("lash.plugin-live.weather.i1", []byte("alive")), weather.Flush()); err != nil {
		t.Fatal(err)
	}
	if m, err := signs.NextMsg(time.Minute); err != nil || m.Subject != "lash.plugin-live.weather.i1" {
		t.Errorf("sign: got %v, %v", m, err)
	}
	inbox := node.NewRespInbox()
	answers, err := node.SubscribeSync(inbox)
	if err = errors.Join(err, node.PublishRequest("lash.plugin.weather.i1.call", inbox, nil)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one", "two", "three"} {
		if m, err := answers.NextMsg(time.Minute); err != nil || string(m.Data) != want {
			t.Errorf("answer: got %v, %v, want %s", m, err, want)
		}
	}
	if _, err := node.Request("lash.plugin.weather.gone.call", nil, time.Minute); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("an instance that does not run: got %v, want %v at once", err, nats.ErrNoResponders)
	}
	runtest.Equal(t, "refused", refused.String(), "")
}

// TestPluginKeyDoesNothingElse tries with a plugin's key what nodes and other plugins do: the server refuses each.
func TestPluginKeyDoesNothingElse(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "store")
	startPlugins(t, store, "weather", "other")
	file := busembed.PluginFile(store, "weather")
	for _, path := range []string{filepath.Dir(file), file} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: got %v, %v, want it to be its owner's only", path, info.Mode(), err)
		}
	}
	own, err := busembed.ReadAccess(store)
	runtest.NoError(t, err)
	if data, err := os.ReadFile(file); err != nil || strings.Contains(string(data), own.Seed) {
		t.Errorf("the plugin's file has the node's key, or: %v", err)
	}
	nc, refused := pluginConn(t, store, "weather")
	var want []string
	for _, subject := range []string{
		"lash.plugins.other.register", "lash.plugins.other.fire", "lash.plugins.weather.drop", "lash.plugin-live.other.i1", "lash.plugin.weather.i1.call", "lash.plugin.other.i1.call",
		"lash.s.x.turn", "lash.api.submit", "lash.work.turn.x", "lash.alive", "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.CREATE.mine", "$JS.API.DIRECT.GET.lash-s-x",
		"$KV.lash-plugins.weather", "$SYS.REQ.SERVER.PING", "_INBOX.x", "other",
	} {
		want = append(want, `Publish to "`+subject+`"`)
		runtest.NoError(t, nc.Publish(subject, nil))
	}
	for _, subject := range []string{
		">", "lash.>", "lash.plugin.*.*.*", "lash.plugin.other.*.*", "lash.plugins.*.*", "lash.plugin-live.*.*", "lash.live.>", "lash.delta.*.*", "lash.api.*", "lash.s.*.*", "$JS.API.>", "$SYS.>", "_R_.>",
	} {
		want = append(want, `Subscription to "`+subject+`"`)
		_, err = nc.SubscribeSync(subject)
		runtest.NoError(t, err)
	}
	for _, what := range want {
		bustest.Eventually(t, what+" is refused", func() bool { return strings.Contains(refused.String(), what) })
	}
}

// TestPluginsRefused starts servers with plugins that they cannot have.
func TestPluginsRefused(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]busembed.Config{
		"no_keys": {Plugins: []string{"weather"}}, "no_token": {Keyed: true, Plugins: []string{"a.b"}}, "path": {Keyed: true, Plugins: []string{"../a"}}, "empty": {Keyed: true, Plugins: []string{""}},
	} {
		cfg.StoreDir = t.TempDir()
		if s, err := busembed.Start(cfg); err == nil {
			s.Stop()
			t.Errorf("%s: want it refused", name)
		}
	}
}
