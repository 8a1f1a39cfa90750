package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// noopHooks is the number of hooks without effect at every point.
const noopHooks = 10

// noop is a plugin with one hook at every point, which does nothing.
func noop(r *plugin.Registrar) error {
	r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return nil, nil })
	r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) { return nil, nil })
	r.TransformContext(0, func(_ context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
		return now, nil
	})
	r.BeforeModelCall(func(context.Context, plugin.ModelContext) ([]plugin.Directive, error) { return nil, nil })
	r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return nil, nil })
	r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) { return nil, nil })
	r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) { return nil, nil })
	r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) { return nil, nil })
	r.Response(func(_ context.Context, _ events.SessionID, now plugin.Response) (plugin.Response, []json.RawMessage, error) {
		return now, nil, nil
	})
	r.Lifecycle(func(context.Context, plugin.Lifecycle) error { return nil })
	return nil
}

// stack is the benchmark's tools and hooks.
func stack(hooks int) (*plugin.Builder, error) {
	tools := benchTools()
	cfg := plugin.BuilderConfig{
		Builtins:  []plugin.Factory{standard.Factory()},
		Factories: []plugin.Factory{plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return tools })},
	}
	for i := range hooks {
		cfg.Factories = append(cfg.Factories, plugin.Func(fmt.Sprintf("noop%d", i), noop))
	}
	return plugin.NewBuilder(cfg)
}

// hooks compares a turn with ten hooks without effect at every point with the same turn without hooks: its time,
// commits, bytes and fold. The two servers alternate, so that the load of the machine is the same for both.
func (r *runner) hooks(ctx context.Context) error {
	bare, err := r.servedRig(ctx, 0, nil)
	if err != nil {
		return err
	}
	defer bare.close()
	full, err := r.servedRig(ctx, noopHooks, nil)
	if err != nil {
		return err
	}
	defer full.close()
	without, with, err := compare(ctx, bare, full, r.scaled(150))
	if err != nil {
		return err
	}
	plain, hooked := without.perTurn, with.perTurn
	r.report.HooksTurnRatio = with.p50() / without.p50()
	r.report.HooksFoldRatio = hooked.micros / plain.micros
	f := r.report.Lash
	f["turn_p50_ms_no_hooks"], f["turn_p50_ms_10_hooks"] = without.p50(), with.p50()
	f["turn_commits_no_hooks"], f["turn_commits_10_hooks"] = plain.commits, hooked.commits
	f["turn_bytes_no_hooks"], f["turn_bytes_10_hooks"] = plain.bytes, hooked.bytes
	f["turn_fold_us_no_hooks"], f["turn_fold_us_10_hooks"] = plain.micros, hooked.micros
	return nil
}

// servedRig is a rig with its own server, whose session s0 has turns.
type servedRig struct {
	*rig
	server *busembed.Server
}

func (h *servedRig) close() {
	h.rig.close()
	h.server.Stop()
}

// servedRig is a rig whose plugins have a number of hooks, and whose node signs unless signer is nil.
func (r *runner) servedRig(ctx context.Context, hooks int, signer func() *proof.Signer) (*servedRig, error) {
	s, err := r.server(busembed.ProfileInterval)
	if err != nil {
		return nil, err
	}
	plugins, err := stack(hooks)
	if err != nil {
		return nil, err
	}
	g, err := newSigningRig(ctx, bus.Config{URL: s.URL()}, plugins, signer)
	if err != nil {
		return nil, err
	}
	_, err = g.host.Create(ctx, api.CreateRequest{ID: "s0"})
	return &servedRig{g, s}, err
}

// measuredTurns are turns of a rig: their times, and the cost of their history.
type measuredTurns struct {
	samples
	perTurn
}

// compare runs turns of two rigs in turn.
func compare(ctx context.Context, bare, full *servedRig, turns int) (without, with measuredTurns, err error) {
	turn := func(g *servedRig) func(int) error { return func(int) error { return g.turn(ctx, "s0") } }
	if without.samples, with.samples, err = alternate(turns, turn(bare), turn(full)); err == nil {
		without.perTurn, err = foldCost(ctx, bare.rig, turns)
	}
	if err == nil {
		with.perTurn, err = foldCost(ctx, full.rig, turns)
	}
	return without, with, err
}

// perTurn is the cost of a turn's history.
type perTurn struct{ commits, bytes, micros float64 }

// foldCost folds a history from memory.
func foldCost(ctx context.Context, g *rig, turns int) (perTurn, error) {
	var history []events.Entry
	size := 0
	for e, err := range g.client.Log().Read(ctx, "s0", 1) {
		if err != nil {
			return perTurn{}, err
		}
		data, err := events.Encode(e.Commit)
		if err != nil {
			return perTurn{}, err
		}
		history, size = append(history, e), size+len(data)
	}
	var fold samples
	for range 5 {
		err := fold.timed(func() error {
			s := projector.New("s0")
			for _, e := range history {
				if err := s.Apply(e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return perTurn{}, err
		}
	}
	n := float64(turns)
	return perTurn{
		commits: float64(len(history)) / n, bytes: float64(size) / n,
		micros: fold.p50() * float64(time.Millisecond/time.Microsecond) / n,
	}, nil
}
