package security

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// attack is one hostile request to one API.
type attack struct {
	transport, class, name string
	run                    func() string // the failure; empty: it was refused
}

// installation is a server with the accounts of deploy/nats, a node with all roles, both services, and users with
// different rights.
type installation struct {
	*natsAPI
	d       *deployment
	http    *harness.HTTP
	player  *playback.Player
	plugins []external.Plugin // of the nodes; the tools of no session until it adds them
}

// installationConfig is the input of [newInstallation].
type installationConfig struct {
	nodes    int // beyond the first one
	plugins  []external.Plugin
	provider func(llm.Provider) llm.Provider // wraps the recorded model; nil: nothing does
	node     workers.Config                  // the fields that are not the installation's own
	http     httpapi.Config                  // likewise
}

// onlyRights are the callers over HTTP that have one right each.
func onlyRights() []api.Right {
	return []api.Right{api.RightRead, api.RightWrite, api.RightApprove, api.RightConfigure, api.RightCommand}
}

// newInstallation lives until the test ends. Of the users of NATS, host has all rights, alice has them in her
// sessions, and mallory may read. The HTTP server is of the last node.
func newInstallation(t *testing.T, ctx context.Context, cfg installationConfig) *installation { //nolint:revive // t is first in helpers here
	t.Helper()
	d := install(t)
	for _, p := range cfg.plugins {
		run(t, d.dir, "add-plugin.sh", "acme", p.Name)
	}
	const line = `    { user: "alice@acme", permissions: { include ./acme/alice.conf } }`
	d.edit("tenants/acme.conf", line, line+"\n"+run(t, d.dir, "add-user.sh", "acme", "host", "mallory"))
	d.boot()
	b := &harness.System{T: t, Ctx: ctx, Model: &harness.Model{T: t}, Tools: plugin.NewTools()}
	b.Bus = d.open(bus.Open, d.config("node@acme"))
	var err error
	b.Host, err = session.New(session.Config{Bus: b.Bus, Plugins: session.NoPlugins(), States: cfg.node.Sessions, Idle: cfg.node.Idle})
	runtest.WantError(t, "host", err, nil)
	f := &installation{natsAPI: &natsAPI{System: b, conns: make(map[string]*nats.Conn)}, d: d, player: playback.NewPlayer(b.Host), plugins: cfg.plugins}
	scopes := map[string]api.Reach{"host@acme": {Scope: api.ScopeAdmin}, "alice@acme": {Scope: api.ScopeAdmin, Own: true}, "mallory@acme": {Scope: api.ScopeRead}}
	cfg.node.Scopes = scopes
	for range 1 + cfg.nodes {
		f.node = f.startNode(cfg)
	}
	cfg.http.Service = f.node.Host()
	for user := range scopes {
		f.conns[user] = d.conn(user, nats.ErrorHandler(new(bustest.Refusals).Handler))
	}
	var more []httpapi.Token
	for _, right := range onlyRights() {
		more = append(more, httpapi.Token{Name: "only-" + string(right), Digest: sha256.Sum256([]byte("only-" + string(right) + harness.TokenSecret)), Scope: api.Scope(right)})
	}
	cfg.http.Tokens = more
	f.http = b.ServeHTTP(cfg.http)
	return f
}

// startNode starts a node with the recorded model and tools, and the plugins of the installation.
func (f *installation) startNode(cfg installationConfig) *workers.Node {
	f.T.Helper()
	on := f.d.open(bus.Open, f.d.config("node@acme"))
	outside, err := external.New(external.Config{Bus: on, Plugins: f.plugins, Logger: errorLog(f.T)})
	runtest.WantError(f.T, "plugins", err, nil)
	runtest.WantError(f.T, "start plugins", outside.Start(f.Ctx), nil)
	f.T.Cleanup(outside.Stop)
	model := f.player.Provider()
	if cfg.provider != nil {
		model = cfg.provider(model)
	}
	cfg.node.Plugins, err = plugin.NewBuilder(plugin.BuilderConfig{
		Builtins: workers.Builtins(), Factories: append([]plugin.Factory{plugin.OfTools("tools", f.player.Tools)}, outside.Factories()...),
	})
	runtest.WantError(f.T, "plugins", err, nil)
	cfg.node.Bus, cfg.node.Provider, cfg.node.Providers, cfg.node.Logger = on, "scripted", map[string]llm.Provider{"scripted": model}, errorLog(f.T)
	n, err := workers.NewNode(cfg.node)
	runtest.WantError(f.T, "node", err, nil)
	runtest.WantError(f.T, "start", n.Start(f.Ctx), nil)
	f.T.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
		cancel()
		n.Stop(now)
	})
	runtest.WantError(f.T, "callbacks", outside.ServeAPI(external.APIConfig{Service: n.Host()}), nil)
	return n
}

// errorLog shows errors alone: hostile requests cause many warnings.
func errorLog(t *testing.T) *zap.Logger {
	t.Helper()
	return zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel))
}

// plans are recorded conversations that the fleet can play.
func (f *installation) plans(prefix string, n int) (list []*playback.Plan) {
	f.T.Helper()
	for i := range n {
		conv := &recordingtest.Read(recordingtest.Make(uint64(i), recording.FormatChat, 10))[0] //nolint:gosec // not negative
		plan := playback.NewPlan(events.SessionID(fmt.Sprintf("%s-%d", prefix, i)), conv)
		runtest.WantError(f.T, "plan", f.player.Add(plan), nil)
		list = append(list, plan)
	}
	return list
}

// play plays a conversation, and compares its history with the recording.
func (f *installation) play(plan *playback.Plan) {
	f.T.Helper()
	if err := f.player.Play(f.Ctx, plan, nil); err != nil {
		f.T.Errorf("play: %v", err)
		return
	}
	s, err := f.State(f.Ctx, plan.Session)
	if err != nil {
		f.T.Error(err)
		return
	}
	if diff, err := playback.Compare(f.Ctx, f.Bus, plan, s); diff != nil || err != nil {
		f.T.Errorf("compare: got %v, %v", diff, err)
	}
	harness.VerifyHistory(f.T, f.Bus, plan.Session)
}

// leastAttacks is the least number of distinct attacks of the suite.
const leastAttacks = 300

// TestAttacks sends every attack that lists of operations, values and APIs make. Each is refused. The servers keep
// the same messages as before, and the fleet runs as before.
func TestAttacks(t *testing.T) {
	t.Parallel()
	f := newInstallation(t, harness.ContextFor(t, 4*time.Minute), installationConfig{})
	for _, plan := range f.plans("before", 1) {
		f.play(plan)
	}
	f.prey()
	rested(f.System, "mine")
	before := kept(f.System)
	var all []attack
	for _, some := range [][]attack{
		f.attacksOnHTTP(), f.bodiesOverHTTP(), f.attacksOverNATS(), f.envelopesOverNATS(), f.replayed(), f.attacksOnAccounts(), f.attacksOnTLS(),
		attacksOnFiles(t), attacksOnReaders(t), attacksOnTerminals(),
	} {
		all = append(all, some...)
	}
	seen, table := make(map[string]bool), make(map[string]int)
	for _, a := range all {
		name := a.transport + "/" + a.class + "/" + a.name
		if seen[name] {
			t.Errorf("%s: it is there twice", name)
		}
		seen[name] = true
		table[a.transport+"\t"+a.class]++
		if wrong := a.run(); wrong != "" {
			t.Errorf("%s: %s", name, wrong)
		}
	}
	for _, row := range slices.Sorted(maps.Keys(table)) {
		transport, class, _ := strings.Cut(row, "\t")
		t.Logf("%-14s %-16s %4d", transport, class, table[row])
	}
	t.Logf("%d attacks", len(seen))
	if len(seen) < leastAttacks {
		t.Errorf("got %d attacks, want %d", len(seen), leastAttacks)
	}
	f.AwaitPolling("everything as before", func() bool { return t.Failed() || slices.Equal(kept(f.System), before) })
	runtest.EqualLists(t, "what is kept", kept(f.System), before)
	for _, id := range []events.SessionID{"mine", "hers"} {
		harness.VerifyHistory(t, f.Bus, id)
	}
	for _, plan := range f.plans("after", 2) {
		f.play(plan)
	}
}

// prey makes the sessions under attack: mine belongs to the NATS user host, with a turn that has ended; hers
// belongs to the HTTP caller alice.
func (f *installation) prey() {
	f.T.Helper()
	for _, ask := range f.keyedRequests() {
		runtest.Equal(f.T, string(ask.op), f.askRaw("host@acme", ask.op, ask.envelope, ask.body).Error.Code, "")
	}
	runtest.Equal(f.T, "create", f.http.Send("alice", "POST", "/v1/sessions", `{"id":"hers"}`).Status, 201)
	_, err := f.Await(f.Ctx, "mine", "t1")
	runtest.WantError(f.T, "turn", err, nil)
}
