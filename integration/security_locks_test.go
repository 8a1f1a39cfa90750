package integration

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// locked starts a node on which much is locked, with a tool that must not run twice.
func (b *bundle) locked() (n *workers.Node, ran *int) {
	b.t.Helper()
	ran = new(int)
	risky := declares("risky", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "wipe"}, func(_ context.Context, _ plugin.Call, _ struct{}) (string, error) { *ran++; return "wiped", nil })
	})
	return b.nodeWith(workers.Config{Locks: lock.Locks{
		Plugins: []string{gate.ID}, Providers: []string{"scripted"}, Models: []string{"small-*"}, Protocols: []string{"standard"},
		MaxIterations: 3, MaxOutputTokens: 100, LeastRetain: time.Hour,
	}}, plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{risky, gate.Factory(gate.Config{})}}), ran
}

// TestLocks asks for everything that is locked, of the node's own host and over
// NATS. Each is refused with its field, and nothing is made.
func TestLocks(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	n, _ := b.locked()
	c, err := client.New(client.Config{Bus: bustest.Open(t, b.server)})
	must(t, "client", err, nil)
	base := map[string]func(*events.Config){
		"config.provider":          func(c *events.Config) { c.Provider = "other" },
		"config.model":             func(c *events.Config) { c.Model = "large-1" },
		"config.protocol":          func(c *events.Config) { c.Protocol = "code" },
		"config.max_iterations":    func(c *events.Config) { c.MaxIterations = 4 },
		"config.max_output_tokens": func(c *events.Config) { c.MaxOutputTokens = 101 },
		"config.retain_ms":         func(c *events.Config) { c.RetainMillis = 1000 },
	}
	for door, s := range map[string]api.Service{"host": n.Host(), "nats": c} {
		id, err := s.Create(b.ctx, api.CreateRequest{ID: events.SessionID("of-" + door), Config: events.Config{Model: "small-1"}})
		must(t, "create", err, nil)
		stands := b.state(id)
		equal(t, "iterations", stands.Config.MaxIterations, 3)
		equal(t, "tokens", stands.Config.MaxOutputTokens, 100)
		refused := func(what string, err error, field string) {
			t.Helper()
			if !errors.Is(err, api.ErrForbidden) || !strings.Contains(err.Error(), field+": ") {
				t.Errorf("%s: %s of %s: got %v, want it forbidden", door, what, field, err)
			}
		}
		for field, change := range base {
			var config events.Config
			change(&config)
			_, err := s.Create(b.ctx, api.CreateRequest{ID: "never", Config: config})
			refused("create", err, field)
			err = s.Configure(b.ctx, id, api.ConfigureRequest{Change: func(now events.Config) events.Config { change(&now); return now }})
			refused("configure", err, field)
		}
		options := map[string]string{gate.ID: `{"allow":["*"]}`}
		_, err = s.Create(b.ctx, api.CreateRequest{ID: "never", Options: options})
		refused("create", err, "options.gate")
		_, err = s.Submit(b.ctx, id, api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{text("go")}, Plugins: options}})
		refused("submit", err, "input.plugins.gate")
		_, err = s.SubmitAt(b.ctx, id, time.Now().Add(time.Hour), api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{text("go")}, Plugins: options}})
		refused("submit at", err, "input.plugins.gate")
		b.noSession("never")
		equal(t, "sequence", b.state(id).Seq, stands.Seq)
	}
}

// TestLocksOfOldSessions has sessions that are older than the locks, or were
// made by a host without them: the node that runs their turns holds them to the locks.
func TestLocksOfOldSessions(t *testing.T) {
	t.Parallel()
	again := reply(call("k", "none", `{}`))
	b := setupIdle(t, reply(call("k", "wipe", `{}`)), again, again, again, again)
	big := b.open(api.CreateRequest{Config: events.Config{Model: "large-1"}})
	old := b.open(api.CreateRequest{Options: map[string]string{gate.ID: `{"allow":["*"]}`}})
	_, ran := b.locked()
	issue := b.failedTurn(big, "t1")
	equal(t, "code", issue.Code, "forbidden")
	if !strings.Contains(issue.Message, "config.model: ") {
		t.Errorf("issue: got %q, want the field", issue.Message)
	}
	b.parks(old) // the gate asks, though the session's options let everything run
	equal(t, "runs", *ran, 0)
	must(t, "approve", b.approve(b.Host, old, false), nil)
	equal(t, "end", b.ended(old, "t1").End, events.EndMaxTurns)
	equal(t, "limit", b.state(old).Config.MaxIterations, 3)
	equal(t, "calls of the model", len(b.model.asked()), 3)
}

// TestDenyHolds gives a session rules of its own: what the node denies stays denied.
func TestDenyHolds(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "wipe", `{}`)), reply(text("ok")))
	ran := 0
	b.node(declares("risky", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "wipe"}, func(_ context.Context, _ plugin.Call, _ struct{}) (string, error) { ran++; return "wiped", nil })
	}), gate.Factory(gate.Config{Options: gate.Options{Deny: []string{"wipe"}}}))
	id := b.open(api.CreateRequest{Options: map[string]string{gate.ID: `{"allow":["*"]}`}})
	b.run(id, "t1", text("go"))
	equal(t, "runs", ran, 0)
}
