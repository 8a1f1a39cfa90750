package harness

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// CodeCounts counts the runs of the tools that code calls.
type CodeCounts struct {
	mu     sync.Mutex
	counts map[string]int
}

// Add counts a run of a tool, and returns the number of its runs.
func (c *CodeCounts) Add(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[name]++
	return c.counts[name]
}

// Count is the number of runs of a tool.
func (c *CodeCounts) Count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

// CodeBlock is the part of a reply that has a program.
func CodeBlock(code string) events.Part { return Text("```starlark\n" + code + "\n```\n") }

// Program is a step that answers with a program.
func Program(code string) Step { return Reply(CodeBlock(code)) }

// StartCode returns a system with a node, and a session of the code protocol.
func StartCode(t *testing.T, script ...Step) (*System, events.SessionID, *CodeCounts) {
	t.Helper()
	b := StartIdle(t, script...)
	c := b.AddCodeTools()
	b.StartCodeNode(b.Bus)
	return b, b.Open(CodeSession()), c
}

// CodeSession is a request for a session of the code protocol.
func CodeSession() api.CreateRequest {
	return api.CreateRequest{Config: events.Config{Protocol: "code"}}
}

// AddCodeTools adds the tools that programs call.
func (b *System) AddCodeTools() *CodeCounts {
	c := &CodeCounts{}
	type numbers struct {
		A int `json:"a"`
		B int `json:"b,omitempty"`
	}
	plugin.AddTool(b.Tools, plugin.Tool{Name: "add", Description: "Adds numbers.", Effects: events.EffectsNone}, func(_ context.Context, _ plugin.Call, in numbers) (int, error) {
		c.Add("add")
		return in.A + in.B, nil
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "once"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		return fmt.Sprintf("once-%d", c.Add("once")), nil
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "broken", Effects: events.EffectsIdempotent}, func(context.Context, plugin.Call, struct{}) (string, error) {
		return "", fmt.Errorf("out of paper %d", c.Add("broken"))
	})
	return c
}

// StartCodeNode starts a node with both protocols and the system's tools, and returns how to stop it at once. The
// system's host is the node's from then on.
func (b *System) StartCodeNode(on *bus.Bus) (kill func()) {
	b.T.Helper()
	return b.StartCodeNodeWith(workers.Config{Bus: on})
}

// StartCodeNodeWith is [System.StartCodeNode] with more of a configuration.
func (b *System) StartCodeNodeWith(cfg workers.Config) (kill func()) {
	b.T.Helper()
	cfg.Providers, cfg.Provider = map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer)}, "scripted"
	cfg.Tools, cfg.Logger = func(events.SessionID) *plugin.Tools { return b.Tools }, zaptest.NewLogger(b.T)
	cfg.Trace = b.TraceTo
	n, err := workers.NewNode(cfg)
	runtest.NoError(b.T, err)
	if err := n.Start(b.Ctx); err != nil {
		b.T.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background())
			cancel()
			n.Stop(now)
		})
	}
	b.T.Cleanup(stop)
	b.Host = n.Host()
	return stop
}

// Outcome is the outcome of a turn as hosts see it.
func (b *System) Outcome(id events.SessionID, turn events.TurnID) api.TurnOutcome {
	b.T.Helper()
	a, err := b.AssembledTurn(b.Ctx, id, turn)
	runtest.NoError(b.T, err)
	return a.Outcome
}

// Outputs lists the texts of a session's results, in order.
func (b *System) Outputs(id events.SessionID) []string {
	b.T.Helper()
	var list []string
	for _, r := range Find[*events.ToolReturned](b, id) {
		for i := range r.Results {
			list = append(list, r.Results[i].Text)
		}
	}
	return list
}
