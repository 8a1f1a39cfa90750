package external

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

var operatorCases = []serviceCase{
	{"T09_credentials_of_another_plugin", credentialsOfAnotherPlugin},
	{"T63_invalid_configuration_refuses_the_start", invalidConfiguration},
}

// accounts are servers with the accounts of deploy/nats, without certificates: a user is its name. acme has the plugins
// notes and other. url has the servers of all.
func accounts(t *testing.T, replicas int) (all []*server.Server, url func(user string) string) {
	t.Helper()
	dir := installed(t)
	ports, err := busembed.FreePorts(3)
	runtest.WantError(t, "ports", err, nil)
	for i := range replicas {
		opts, err := server.ProcessConfigFile(filepath.Join(dir, "accounts.conf"))
		runtest.WantError(t, "configuration", err, nil)
		opts.ServerName, opts.Host, opts.Port = fmt.Sprint("s", i), "127.0.0.1", server.RANDOM_PORT
		opts.JetStream, opts.StoreDir, opts.JetStreamMaxMemory, opts.JetStreamMaxStore = true, filepath.Join(t.TempDir(), "store"), 4<<30, 200<<30
		opts.NoLog, opts.NoSigs = true, true
		if replicas > 1 {
			opts.Cluster = server.ClusterOpts{Name: "lash", Host: "127.0.0.1", Port: ports[i]}
			for _, port := range ports {
				opts.Routes = append(opts.Routes, server.RoutesFromStr(fmt.Sprintf("nats-route://127.0.0.1:%d", port))...)
			}
		}
		ns, err := server.NewServer(opts)
		runtest.NoError(t, err)
		t.Cleanup(func() {
			ns.Shutdown()
			ns.WaitForShutdown()
		})
		ns.Start()
		all = append(all, ns)
	}
	var hosts []string
	for _, ns := range all {
		if !ns.ReadyForConnections(time.Minute) {
			t.Fatal("the server is not ready after 30 s")
		}
		hosts = append(hosts, ns.Addr().String())
	}
	return all, func(user string) string {
		var list []string
		for _, host := range hosts {
			list = append(list, "nats://"+user+"%40acme:@"+host)
		}
		return strings.Join(list, ",")
	}
}

// installed is a copy of deploy/nats with the plugins notes and other of acme.
func installed(t *testing.T) (dir string) {
	t.Helper()
	dir, from := t.TempDir(), filepath.Join("..", "..", "deploy", "nats")
	runtest.WantError(t, "copy", os.CopyFS(dir, os.DirFS(from)), nil)
	for _, name := range []string{"notes", "other"} {
		out, err := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "add-plugin.sh"), "acme", name).CombinedOutput()
		if err != nil {
			t.Fatalf("add-plugin.sh: %v\n%s", err, out)
		}
	}
	return dir
}

// credentialsOfAnotherPlugin has a program with the credentials of notes register, sign and serve as other.
func credentialsOfAnotherPlugin(t *testing.T, on place) {
	_, url := accounts(t, on.replicas)
	b, err := bus.Open(harness.Context(t), bus.Config{URL: url("node"), Inbox: "_INBOX.node", Replicas: on.replicas, Wait: true})
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	s := harness.StartWith(t, nil, b, calling("write", `{"text":"milk"}`)...)
	p, err := external.New(external.Config{Bus: b, Plugins: []external.Plugin{{Name: "notes"}, {Name: "other"}}})
	runtest.WantError(t, "plugins", err, nil)
	runtest.WantError(t, "start", p.Start(s.Ctx), nil)
	t.Cleanup(p.Stop)
	n, _ := s.StartNodeOn(b, p.Factories()...)
	s.Host = n.Host()

	thief, refused := connectAs(t, url("plugin-other"), "_INBOX.plugin-other")
	_, err = thief.Subscribe("lash.plugin.notes.*.*", func(m *nats.Msg) { _ = m.Respond([]byte(`{"outcome":{"text":"stolen"}}`)) })
	runtest.NoError(t, err)
	for _, subject := range []string{"lash.plugins.notes.register", "lash.plugin-live.notes.i9"} {
		runtest.WantError(t, "publish", thief.PublishRequest(subject, thief.NewRespInbox(), []byte(`{"protocol":1,"instance":"i9","manifest":{"version":"9"}}`)), nil)
	}
	for _, what := range []string{`Subscription to "lash.plugin.notes.*.*"`, `Publish to "lash.plugins.notes.register"`, `Publish to "lash.plugin-live.notes.i9"`} {
		s.AwaitPolling(what, func() bool { return strings.Contains(refused.String(), what) })
	}
	runtest.Equal(t, "version of the plugin", p.Status()[0].Version, "")
	runtest.Equal(t, "instances of the plugin", len(p.Status()[0].Instances), 0)

	own, nothing := connectAs(t, url("plugin-notes"), "_INBOX.plugin-notes")
	runs := filepath.Join(t.TempDir(), "runs")
	i, err := remote.Start(s.Ctx, remote.Config{Conn: own, Plugin: notes(runs), Version: "1", Instance: "i1"})
	runtest.NoError(t, err)
	s.AwaitPolling("the instance", func() bool { return len(p.Status()[0].Instances) == 1 })
	id := s.Open(api.CreateRequest{})
	s.StartTurn(id, "t1", harness.Text("note it"))
	s.AwaitTurn(id, "t1")
	runtest.Equal(t, "result", s.CallResult(id, "k"), "noted: milk")
	runtest.DeepEqual(t, "holders", []string{nameOf(harness.Find[*events.ToolCalled](s, id)[0].Holders[0])}, []string{"i1"})
	runtest.WantError(t, "stop", i.Stop(s.Ctx), nil)
	runtest.Equal(t, "what the server refused the plugin", nothing.String(), "")
}

// connectAs connects a user. refused has what the server refuses it.
func connectAs(t *testing.T, url, inbox string) (nc *nats.Conn, refused *bustest.Refusals) {
	t.Helper()
	refused = &bustest.Refusals{}
	nc, err := nats.Connect(url, nats.CustomInboxPrefix(inbox), nats.ErrorHandler(refused.Handler))
	runtest.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc, refused
}

// invalidConfiguration starts a node with an invalid file of plugins, which it refuses with the line. A node that runs keeps what
// it read at its start: the file is read once.
// argumentsVariable has the lines of a command line.
const argumentsVariable = "LASH_TEST_ARGUMENTS"

// TestChildServe is lash-node serve, for programs that add plugins.
func TestChildServe(*testing.T) {
	os.Args = strings.Split(os.Getenv(argumentsVariable), "\n")
	os.Exit(serve.Main(serve.Config{}))
}

func invalidConfiguration(t *testing.T, on place) {
	s := on.start(t)
	s.node()
	dir := t.TempDir()
	file := filepath.Join(dir, "plugins.json")
	runtest.WantError(t, "file", os.WriteFile(file, []byte("{\"plugins\": [\n  {\"name\": \"notes\",\n   \"effects\": {\"write\": \"often\"}}]}"), 0o600), nil)
	args := []string{"lash-node", "--nats", on.url, "--prefix", on.prefix, "--set", "replicas=" + fmt.Sprint(on.replicas), "--set", "external-plugins=" + file}
	start := runtest.Child(s.Ctx, "TestChildServe", argumentsVariable+"="+strings.Join(args, "\n"))
	start.Dir = dir
	out, err := start.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || !strings.Contains(string(out), file+": line 3: plugins[0].effects.write") {
		t.Errorf("got %v, %s, want a refusal with the file, the line and the field", err, out)
	}
	_, err = os.Stat(filepath.Join(dir, ".lash"))
	runtest.WantError(t, "store", err, fs.ErrNotExist)
	answer := s.client().request("notes", "register", registration("1", "a"))
	runtest.DeepEqual(t, "registration at the node that runs", answer.Error, (*wire.Error)(nil))
	runtest.DeepEqual(t, "tools", s.first.Status()[0].Tools, []string{"a"})
}
