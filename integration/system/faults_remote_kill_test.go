package system

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// fatal is a portable tool that may run twice, and does what its arguments say.
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
	s.T.Helper()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Roles: []workers.Role{role}, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(s.Model.Answer)}, Tools: fatal(run),
		JobRetry: workers.JobRetry{Attempts: harness.DeadAttempts, Base: time.Millisecond, Max: time.Millisecond},
	})
	runtest.WantError(s.T, "node", err, nil)
	return n
}

// TestChildRemoteCall runs in another process, which TestRemoteCallKillsNode starts: a node whose tool kills it.
func TestChildRemoteCall(t *testing.T) {
	cfg := childOf(t)
	on, err := bus.Open(t.Context(), cfg.bus())
	runtest.WantError(t, "open", err, nil)
	s := &site{System: &harness.System{T: t, Ctx: t.Context(), Model: &harness.Model{T: t}}}
	runtest.WantError(t, "start", s.fatalNode(on, workers.RoleTool, func() { os.Exit(0) }).Start(t.Context()), nil)
	<-t.Context().Done() // it never ends by itself
}

// TestRemoteCallKillsNode has a call that may be repeated kill its node each time. After the limit of attempts it
// fails, with the reason, and the turn continues.
func TestRemoteCallKillsNode(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		s.Model.Script = []harness.Step{harness.Reply(harness.Call("a", "run", `{}`)), harness.Reply(harness.Text("done"))}
		on := s.connect()
		s.ends(on, s.fatalNode(on, workers.RoleTurn, func() { s.T.Error("the tool runs where the turn does") }))
		id := s.Open(api.CreateRequest{})
		s.StartTurn(id, "t1", harness.Text("go"))
		ctx, stop := context.WithCancel(s.Ctx)
		var deaths atomic.Int64
		var processes sync.WaitGroup
		processes.Go(func() { // ends with the last process, which is killed
			for ctx.Err() == nil {
				c := runtest.Child(ctx, "TestChildRemoteCall", childVariable+"="+s.child())
				_ = c.Run()
				deaths.Add(1)
			}
		})
		defer processes.Wait()
		defer stop()
		runtest.Equal(s.T, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
		results := harness.ToolResults(s.System, id)
		runtest.Equal(s.T, "results", len(results), 1)
		runtest.Equal(s.T, "outcome", results[0].Outcome, events.OutcomeFailure)
		if !strings.Contains(results[0].Text, "given up after 3 attempts") {
			s.T.Errorf("result: got %q, want why it was given up", results[0].Text)
		}
		runtest.Equal(s.T, "deaths", deaths.Load(), harness.DeadAttempts)
		harness.VerifyHistory(s.T, s.Bus, id)
	})
}

// child is the configuration of a process of this site.
func (s *site) child() string {
	s.T.Helper()
	text, err := json.Marshal(childConfig{URL: s.url, Replicas: s.replicas})
	runtest.WantError(s.T, "encode", err, nil)
	return string(text)
}
