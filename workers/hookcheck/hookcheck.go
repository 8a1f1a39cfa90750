// Package hookcheck runs the hooks of a program again on a recorded history, for package session/decision to compare their
// decisions with the recorded ones.
//
// At each point the plugins are built from the plugin states that the history has there, and get the conversation of that
// sequence. Their host is one of a store that has only the checked sessions, and on which no node works: sessions that a hook creates, turns that it requests
// and tasks that it starts go there, and nothing runs them. A model call of a hook is refused, and its point is not compared,
// since the history does not have the model's answer. What a hook does without its host, such as a request over the network,
// it does here as well.
//
// Not compared: points with decisions of plugins that the program does not have, and hooks around replies and after calls, of
// which the history has only what they returned.
package hookcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
)

// Config of the check. All fields are required but Locks and Environments.
type Config struct {
	Bus     *bus.Bus // of a store without nodes, which has the sessions and their bodies
	Plugins plugin.BuilderConfig
	Locks   lock.Locks // of the node
	// Environments of the node.
	Environments plugin.Environments
	Logger       *zap.Logger
}

// Checker runs hooks again. Its methods must not overlap.
type Checker struct {
	calls   *call.Env
	ids     []string // of the plugins
	asked   atomic.Bool
	skipped map[string]int64
}

// New makes a checker. The error is one of the configuration.
func New(cfg Config) (*Checker, error) {
	builder, err := plugin.NewBuilder(cfg.Plugins)
	if err != nil {
		return nil, err
	}
	c := &Checker{skipped: make(map[string]int64)}
	for _, f := range append(slices.Clone(cfg.Plugins.Builtins), cfg.Plugins.Factories...) {
		c.ids = append(c.ids, f.ID())
	}
	host, err := session.New(session.Config{
		Bus: cfg.Bus, Actor: "check", Plugins: session.WithPlugins(builder), Logger: cfg.Logger, Locks: cfg.Locks,
	})
	if err != nil {
		return nil, err
	}
	host.Worker().Bind(session.Process{Complete: c.refuseModel})
	c.calls = &call.Env{Bus: cfg.Bus, Worker: host.Worker(), Blobs: call.NewBlobCache(cfg.Bus), Log: cfg.Logger, Environments: cfg.Environments}
	return c, nil
}

// Skipped counts the points that were not compared, by reason.
func (c *Checker) Skipped() map[string]int64 { return c.skipped }

// Run runs the hooks of a point. It is a [decision.Hooks].
func (c *Checker) Run(ctx context.Context, s *projector.State, recorded turn.Hooks) (in turn.Hooks, compared bool, err error) {
	if why := c.notCompared(turn.Next(s), &recorded.Ran); why != "" {
		c.skipped[why]++
		return in, false, nil
	}
	c.asked.Store(false)
	in, err = c.run(ctx, s)
	if c.asked.Load() {
		c.skipped["a hook asks a model"]++
		return in, false, nil
	}
	return in, err == nil, err
}

// notCompared is why the hooks of a point do not run again; empty where they do.
func (c *Checker) notCompared(needs turn.Needs, ran *events.HookRan) string {
	if needs.Hooks != ran.Point || needs.At != ran.At || needs.Iteration != ran.Iteration {
		return "other events came between the hooks and their record"
	}
	for i := range ran.Decisions {
		if id := ran.Decisions[i].Plugin; !slices.Contains(c.ids, id) {
			return fmt.Sprintf("this program has no plugin %q", id)
		}
	}
	if ran.Failed != "" && !slices.Contains(c.ids, ran.Failed) {
		return fmt.Sprintf("this program has no plugin %q", ran.Failed)
	}
	return ""
}

func (c *Checker) run(ctx context.Context, s *projector.State) (in turn.Hooks, err error) {
	host := c.calls.Worker
	stack, _, release, err := host.Stack(ctx, s)
	if err != nil {
		return in, fmt.Errorf("the plugins cannot be built: %w", err)
	}
	defer release()
	if err := host.FollowStack(ctx, s, stack); err != nil { // what the hooks of the last point changed is not in the history
		return in, fmt.Errorf("the plugins cannot take over their recorded states: %w", err)
	}
	options := s.Frame().Options
	if t := s.Turn(); len(t.Input.Options) > 0 {
		options = t.Input.Options
	}
	h := call.Hooks{At: c.calls.Snapshot(s, options), Stack: stack, Needs: turn.Next(s), Record: discard}
	if h.Needs.Hooks == events.PointBeforeTurn {
		tools, err := blob.Contracts(ctx, c.calls.Blobs, s.Catalog.Tools, nil)
		if err != nil {
			return in, err
		}
		if h.Preamble, err = stack.Preamble(slices.Clip(tools), options); err != nil {
			return in, fmt.Errorf("the protocol has no prompt: %w", err)
		}
	}
	ctx, _, release = h.At.Hold(ctx)
	defer release()
	in, ran := h.Run(ctx).(turn.Hooks)
	if !ran {
		return in, context.Cause(ctx)
	}
	return in, nil
}

// discard records nothing: what hooks save in the history, it has.
func discard(context.Context, ...events.Payload) error { return nil }

// refuseModel is the host's model. That it was asked is noted, since a hook may go on without an answer.
func (c *Checker) refuseModel(context.Context, session.DirectCall) (plugin.Completion, error) {
	c.asked.Store(true)
	return plugin.Completion{}, errNoModel
}

var errNoModel = errors.New("no model is asked while recorded sessions are checked")
