package integration

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// fatal are a portable tool that may run twice, and does what it is told.
func fatal(run func()) func(events.SessionID) *plugin.Tools {
	return func(events.SessionID) *plugin.Tools {
		tools := plugin.NewTools()
		plugin.AddTool(tools, plugin.Tool{Name: "run", Effects: events.EffectsIdempotent, Portable: true}, func(context.Context, plugin.Call, struct{}) (string, error) {
			run()
			return "ran", nil
		})
		return tools
	}
}

func (s *site) fatalNode(on *bus.Bus, role workers.Role, run func()) *workers.Node {
	s.t.Helper()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Roles: []workers.Role{role}, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(s.model.answer)}, Tools: fatal(run),
		JobRetry: workers.JobRetry{Attempts: deadAttempts, Base: time.Millisecond, Max: time.Millisecond},
	})
	must(s.t, "node", err, nil)
	return n
}

// TestRemoteCallProcess is what TestRemoteCallKillsNode runs in another process: a node whose tool kills it.
func TestRemoteCallProcess(t *testing.T) {
	cfg := childOf(t)
	on, err := bus.Open(t.Context(), cfg.bus())
	must(t, "open", err, nil)
	s := &site{bundle: &bundle{t: t, ctx: t.Context(), model: &model{t: t}}}
	must(t, "start", s.fatalNode(on, workers.RoleTool, func() { os.Exit(0) }).Start(t.Context()), nil)
	<-t.Context().Done() // it never ends by itself
}

// TestRemoteCallKillsNode has a call that may be repeated kill its node each
// time. It fails, with the reason, after as many attempts as may be, and the turn goes on.
func TestRemoteCallKillsNode(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		s.model.script = []step{reply(call("a", "run", `{}`)), reply(text("done"))}
		on := s.connect()
		s.ends(on, s.fatalNode(on, workers.RoleTurn, func() { s.t.Error("the tool runs where the turn does") }))
		id := s.open(api.CreateRequest{})
		s.submit(id, "t1", text("go"))
		ctx, stop := context.WithCancel(s.ctx)
		var deaths atomic.Int64
		var processes sync.WaitGroup
		processes.Go(func() { // ends with the last process, which is killed
			for ctx.Err() == nil {
				c := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRemoteCallProcess$")
				c.Env = append(os.Environ(), childVariable+"="+s.child())
				_ = c.Run()
				deaths.Add(1)
			}
		})
		defer processes.Wait()
		defer stop()
		equal(s.t, "end", s.ended(id, "t1").End, events.EndFinished)
		results := resultsIn(s.bundle, id)
		equal(s.t, "results", len(results), 1)
		equal(s.t, "outcome", results[0].Outcome, events.OutcomeFailure)
		if !strings.Contains(results[0].Text, "given up after 3 attempts") {
			s.t.Errorf("result: got %q, want why it was given up", results[0].Text)
		}
		equal(s.t, "deaths", deaths.Load(), deadAttempts)
		verified(s.t, s.bus, id)
	})
}

// child is what a process of this site is told.
func (s *site) child() string {
	s.t.Helper()
	text, err := json.Marshal(childConfig{URL: s.url, Replicas: s.replicas})
	must(s.t, "encode", err, nil)
	return string(text)
}
