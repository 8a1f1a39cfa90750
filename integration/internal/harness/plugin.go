package harness

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// StartNodeWith starts a node with a configuration of the test, whose model is the script where it has none. The node ends with the test.
func (b *System) StartNodeWith(cfg workers.Config, stack plugin.BuilderConfig) *workers.Node {
	b.T.Helper()
	var err error
	cfg.Bus = b.Bus
	if cfg.Providers == nil {
		cfg.Providers, cfg.Provider = map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer)}, "scripted"
	}
	cfg.Plugins, err = plugin.NewBuilder(stack)
	runtest.WantError(b.T, "plugin host", err, nil)
	n, err := workers.NewNode(cfg)
	runtest.WantError(b.T, "node", err, nil)
	runtest.WantError(b.T, "start", n.Start(b.Ctx), nil)
	b.T.Cleanup(func() { n.Stop(context.WithoutCancel(b.Ctx)) })
	return n
}

// LifecyclePlugin is a plugin that runs do at each event of a session's life.
func LifecyclePlugin(id string, do func(ctx context.Context, kind plugin.LifecycleKind) error) plugin.Factory {
	return PluginOf(id, func(r *plugin.Registrar) {
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error { return do(ctx, e.Kind) })
	})
}

// CreateChild is the directive that creates a child session of that id.
func CreateChild(id events.SessionID) plugin.Directive {
	return plugin.CreateSession(api.CreateRequest{ID: id, Relation: events.RelationChild})
}

// WantNoSession fails the test where a session exists.
func (b *System) WantNoSession(id events.SessionID) {
	b.T.Helper()
	_, err := b.State(b.Ctx, id)
	runtest.WantError(b.T, "session "+string(id), err, events.ErrNoSession)
}

// HookRecord is the record of the hooks of a point.
func (b *System) HookRecord(id events.SessionID, point events.HookPoint) events.HookRan {
	b.T.Helper()
	for _, p := range Find[*events.HookRan](b, id) {
		if p.Point == point {
			return *p
		}
	}
	b.T.Fatalf("hooks of %s: got no record of them", point)
	return events.HookRan{}
}

// FailedTurn runs a turn that must fail, and returns its issue.
func (b *System) FailedTurn(id events.SessionID, turn events.TurnID) events.Issue {
	b.T.Helper()
	_, err := b.Run(b.Ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{Text("go")}}})
	var failed *api.TurnFailedError
	if !errors.As(err, &failed) {
		b.T.Fatalf("turn %s: got %v, want it to have failed", turn, err)
	}
	runtest.Equal(b.T, "end", b.AwaitTurn(id, turn).End, events.EndFailed)
	return failed.Issue
}

// WantNoEffects fails the test unless a turn left only its record.
func (b *System) WantNoEffects(id events.SessionID) {
	b.T.Helper()
	runtest.EqualLists(b.T, "messages", b.Messages(id), []string{})
	runtest.Equal(b.T, "model calls", len(b.Model.Requests()), 0)
}
