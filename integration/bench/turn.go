package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// A whole turn: 6 model replies and 5 tool results of 1 KiB. The tool is idempotent and does nothing.
const (
	turnReplies = 6
	turnEffects = 11
)

func benchTools() *plugin.Tools {
	kilobyte := strings.Repeat("x", 1024)
	tools := plugin.NewTools()
	plugin.AddTool(tools, plugin.Tool{Name: "lookup", Effects: events.EffectsIdempotent},
		func(context.Context, plugin.Call, struct{ ID string }) (string, error) { return kilobyte, nil })
	return tools
}

// benchModel calls the tool five times, then answers.
func benchModel(_ context.Context, req llm.Request) (scripted.Answer, error) {
	resp := llm.Response{Stop: events.StopEnd, Parts: []events.Part{{Kind: events.PartText, Text: "done"}}, Usage: events.Usage{Input: 1000, Output: 20}}
	if req.Iteration < turnReplies-1 {
		resp.Stop = events.StopToolUse
		resp.Parts = []events.Part{{Kind: events.PartToolCall, Call: "call_1", Tool: "lookup", Args: []byte(`{"ID":"4711"}`)}}
	}
	return scripted.Answer{Response: resp}, nil
}

// rig is a node and a client, each with a TCP connection of its own.
type rig struct {
	node   *workers.Node
	host   *session.Host
	client *bus.Bus
	inner  *bus.Bus
}

func newRig(ctx context.Context, at bus.Config) (*rig, error) {
	plugins, err := stack(0)
	if err != nil {
		return nil, err
	}
	return newRigWith(ctx, at, plugins)
}

func newRigWith(ctx context.Context, at bus.Config, plugins *plugin.Builder) (*rig, error) {
	return newSigningRig(ctx, at, plugins, nil)
}

func newSigningRig(ctx context.Context, at bus.Config, plugins *plugin.Builder, signer func() *proof.Signer) (*rig, error) {
	inner, node, err := newSigningNode(ctx, at, plugins, signer)
	if err != nil {
		return nil, err
	}
	client, host, err := newClient(ctx, at)
	return &rig{node, host, client, inner}, err
}

// newNode starts a node with the benchmark's model and a connection of its own.
func newNode(ctx context.Context, at bus.Config, plugins *plugin.Builder) (*bus.Bus, *workers.Node, error) {
	return newSigningNode(ctx, at, plugins, nil)
}

func newSigningNode(ctx context.Context, at bus.Config, plugins *plugin.Builder, signer func() *proof.Signer) (*bus.Bus, *workers.Node, error) {
	b, err := bus.Open(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	node, err := workers.NewNode(workers.Config{
		Bus: b, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(benchModel)},
		Plugins: plugins, Signer: signer,
	})
	if err != nil {
		return nil, nil, err
	}
	return b, node, node.Start(ctx)
}

// newClient is a host with a connection of its own.
func newClient(ctx context.Context, at bus.Config) (*bus.Bus, *session.Host, error) {
	b, err := bus.Open(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	host, err := session.New(session.Config{Bus: b, Actor: "bench", Plugins: session.NoPlugins()})
	return b, host, err
}

func stopNode(n *workers.Node) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second) // the run's context may have ended
	defer cancel()
	n.Stop(ctx)
}

func (g *rig) close() {
	stopNode(g.node)
	g.client.Close()
	g.inner.Close()
}

// withRig runs part on a fresh server with a node and a client.
func (r *runner) withRig(ctx context.Context, profile busembed.Profile, part func(context.Context, *rig) error) error {
	s, err := r.server(profile)
	if err != nil {
		return err
	}
	defer s.Stop()
	g, err := newRig(ctx, bus.Config{URL: s.URL()})
	if err != nil {
		return err
	}
	defer g.close()
	return part(ctx, g)
}

// turn runs one turn and checks that all its effects happened.
func (g *rig) turn(ctx context.Context, id events.SessionID) error { return runTurn(ctx, g.host, id) }

func runTurn(ctx context.Context, host *session.Host, id events.SessionID) error {
	result, err := host.Run(ctx, id, api.TurnRequest{Input: events.TurnInput{Parts: []events.Part{{Kind: events.PartText, Text: "go"}}}})
	if err == nil && (result.End != events.EndFinished || result.ModelCalls != turnReplies || result.ToolCalls != turnEffects-turnReplies) {
		err = fmt.Errorf("turn ended as %s after %d replies and %d calls", result.End, result.ModelCalls, result.ToolCalls)
	}
	return err
}

// turns measures effects of whole turns, alone and in 64 sessions at once, and the same number of raw publishes.
func (r *runner) turns(ctx context.Context, profile busembed.Profile) error {
	return r.withRig(ctx, profile, func(ctx context.Context, g *rig) error { return r.turnsOn(ctx, g, profile, 1) })
}

// turnsOnCluster measures the same with three replicas.
func (r *runner) turnsOnCluster(ctx context.Context) error {
	return r.withCluster(func(at bus.Config) error {
		g, err := newRig(ctx, at)
		if err != nil {
			return err
		}
		defer g.close()
		return r.turnsOn(ctx, g, busembed.ProfileCluster, at.Replicas)
	})
}

func (r *runner) turnsOn(ctx context.Context, g *rig, profile busembed.Profile, replicas int) error {
	for i := range r.parallel() {
		if _, err := g.host.Create(ctx, api.CreateRequest{ID: sessionID("s", i)}); err != nil {
			return err
		}
	}
	prefix, p50, perSecond, ofRaw := "effect", &r.report.EffectP50, &r.report.EffectsPerSec, &r.report.EffectsOfRaw
	switch profile {
	case busembed.ProfileInterval:
	case busembed.ProfileAlways:
		prefix, p50, perSecond, ofRaw = "effect_fsync", &r.report.EffectFsyncP50, &r.report.EffectsFsyncSec, &r.report.EffectsFsyncOfRaw
	case busembed.ProfileCluster:
		prefix, p50, perSecond, ofRaw = "effect_cluster", &r.report.EffectClusterP50, &r.report.EffectsClusterSec, &r.report.EffectsClusterOfRaw
	}
	if err := r.rawEffects(ctx, g.client, prefix, replicas); err != nil {
		return err
	}
	var alone samples
	for range r.scaled(150) {
		if err := alone.timed(func() error { return g.turn(ctx, "s0") }); err != nil {
			return err
		}
	}
	*p50 = alone.p50() / turnEffects
	turns, err := r.rate(r.scaled(60), func(i, _ int) error { return g.turn(ctx, sessionID("s", i)) })
	*perSecond = turns * turnEffects
	*ofRaw = *perSecond / r.report.Raw[prefix+"s_per_s_64"]
	r.report.Lash[prefix+"_p50_ms_1"], r.report.Lash[prefix+"s_per_s_64"] = *p50, *perSecond
	return err
}

// rawEffects publishes one message an effect, with an expected sequence.
func (r *runner) rawEffects(ctx context.Context, b *bus.Bus, prefix string, replicas int) error {
	publish, err := rawStreams(ctx, b, r.parallel(), replicas)
	if err != nil {
		return err
	}
	body := []byte(strings.Repeat("x", 1024))
	n := r.scaled(400)
	var alone samples
	for k := range n {
		if err := alone.timed(func() error { return publish(0, k, body) }); err != nil {
			return err
		}
	}
	r.report.Raw[prefix+"_p50_ms_1"] = alone.p50()
	perSecond, err := r.rate(n, func(i, k int) error {
		if i == 0 {
			k += n
		}
		return publish(i, k, body)
	})
	r.report.Raw[prefix+"s_per_s_64"] = perSecond
	return err
}
