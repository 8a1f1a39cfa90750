package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/internal/soak"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

type soakCmd struct {
	Nodes    int           `help:"Nodes, each a process." default:"4"`
	Plugins  *int          `help:"Processes of an external plugin that has the recorded tools; 0: each node has them. Defaults to the number of nodes." placeholder:"N"`
	Sessions int           `help:"Conversations at once." default:"16"`
	MCP      int           `name:"mcp" help:"Sessions at once that call tools of a server of the Model Context Protocol, which each node then runs as a program on stdin and stdout; 0: none." default:"0" placeholder:"N"`
	Agents   int           `help:"Sessions at once whose turns start agents of agents; with them, turns of one more session kill each node that runs them; 0: none." default:"0" placeholder:"N"`
	Faults   []soak.Fault  `help:"Faults that happen: kill (a node), freeze (a node or a server), server (kill one), partition (a node or a server), wakes (kill a node, and lose every wake in the queue), plugin (kill or freeze a process of the plugin; none with --plugins 0), mcp (kill a server of --mcp; none without)." default:"kill,freeze,server,partition,wakes,plugin,mcp" placeholder:"FAULT"`
	Duration time.Duration `help:"How long faults happen." default:"1m"`
	Chats    []string      `help:"Recorded conversations, as for demo. Repeatable. Without it a sample conversation runs." placeholder:"FILE" type:"path"`
	Think    time.Duration `help:"About how long the scripted model takes for a reply; a tool takes a third." default:"60ms"`
	Seed     uint64        `help:"Of the faults. Defaults to a new one, which is printed."`
	Store    string        `help:"Directory of the servers' stores, the ledgers and what children print. Defaults to a temporary one." placeholder:"DIR" type:"path"`
	Keep     bool          `help:"Keep the store of a run that did not fail, too."`
	Restart  bool          `help:"Measure something else: what a node that is killed and comes back at once adds to 64 turns in flight, on one server with no other node to take over."`
	JSON     bool          `name:"json" help:"Print one JSON object."`
}

// soakChildCmd is one process of a soak.
type soakChildCmd struct{}

func (c *soakChildCmd) Run(ctx context.Context, s *streams) error {
	return soak.RunChild(ctx, os.Stdin, s.Out)
}

// soakMCPCmd is the server of the Model Context Protocol of a node of a soak.
type soakMCPCmd struct {
	Ledger string `arg:""`
	Order  string `arg:""`
}

func (c *soakMCPCmd) Run(ctx context.Context, _ *streams) error {
	return soak.RunMCP(ctx, c.Ledger, c.Order)
}

func (c *soakCmd) check() error {
	for _, f := range c.Faults {
		if !slices.Contains(soak.Faults(), f) {
			return fmt.Errorf("--faults %s: want some of %v", f, soak.Faults())
		}
	}
	switch {
	case c.Nodes < 2 || c.Nodes > 64:
		return fmt.Errorf("--nodes %d: want 2 to 64", c.Nodes)
	case c.Plugins != nil && *c.Plugins != 0 && (*c.Plugins < 2 || *c.Plugins > 64):
		return fmt.Errorf("--plugins %d: want 0, or 2 to 64", *c.Plugins)
	case c.Sessions < 1 || c.Sessions > 4096:
		return fmt.Errorf("--sessions %d: want 1 to 4096", c.Sessions)
	case c.MCP < 0 || c.MCP > 256:
		return fmt.Errorf("--mcp %d: want 0 to 256", c.MCP)
	case c.Agents < 0 || c.Agents > 256:
		return fmt.Errorf("--agents %d: want 0 to 256", c.Agents)
	case c.Duration <= 0:
		return fmt.Errorf("--duration %s: want more than 0", c.Duration)
	case c.Think < 0:
		return fmt.Errorf("--think %s: want 0 or more", c.Think)
	}
	return nil
}

func (c *soakCmd) Run(ctx context.Context, s *streams) error {
	if err := c.check(); err != nil {
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64() //nolint:gosec // it is printed
	}
	if c.Store == "" {
		if c.Store, err = os.MkdirTemp("", "lash-soak-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(c.Store, 0o750); err != nil {
		return err
	}
	if len(c.Chats) == 0 {
		c.Chats = []string{filepath.Join(c.Store, "sample.jsonl")}
		if err := os.WriteFile(c.Chats[0], recordingtest.Demo(), 0o600); err != nil {
			return err
		}
	}
	write(s.Err, "lash-node: seed %d, store %s\n", c.Seed, c.Store)
	plugins := c.Nodes
	if c.Plugins != nil {
		plugins = *c.Plugins
	}
	o := &soak.Options{
		Nodes: c.Nodes, Plugins: plugins, Sessions: c.Sessions, Faults: c.Faults, Duration: c.Duration, Chats: c.Chats, Seed: c.Seed,
		Think: c.Think, Store: c.Store, Keep: c.Keep, Progress: s.Err, Program: program, Args: []string{"soak-child"}, MCP: c.MCP, Agents: c.Agents, MCPArgs: []string{"soak-mcp"},
	}
	if c.Restart {
		return c.restart(ctx, s, o)
	}
	report, err := soak.Run(ctx, o)
	if err != nil {
		return fmt.Errorf("%w (seed %d; the store is kept in %s)", err, c.Seed, c.Store)
	}
	if report.Store = c.Store; !report.Failed() && !c.Keep {
		report.Store = ""
		if err := os.RemoveAll(c.Store); err != nil {
			return err
		}
	}
	return c.print(s, report)
}

func (c *soakCmd) restart(ctx context.Context, s *streams, o *soak.Options) error {
	r, err := soak.RunRestart(ctx, o)
	if err != nil {
		return fmt.Errorf("%w (the store is kept in %s)", err, c.Store)
	}
	if c.JSON {
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return err
		}
	} else {
		write(s.Out, "%d turns undisturbed %.0f ms, with a kill -9 of their node %.0f ms: %.0f ms more\n", r.Turns, r.PlainMS, r.KilledMS, r.AddedMS)
		write(s.Out, "taken over %d turns, asked again for %d effects that were under way, for %d that were recorded; lost %d\n", r.Takeovers, r.Again, r.Doubled, r.Lost)
	}
	if r.Doubled+r.Lost > 0 {
		return errSoaked
	}
	if c.Keep {
		return nil
	}
	return os.RemoveAll(c.Store)
}

var (
	errSoaked = program.Silent("something was lost or doubled")
	errLate   = program.Difference("takeovers were late")
)

func (c *soakCmd) print(s *streams, r *soak.Report) error {
	if c.JSON {
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return err
		}
	} else {
		write(s.Out, "%d turns of %d sessions in %.0f s, %d faults %v\n", r.Turns, r.Sessions, r.DurationSeconds, r.Faults, r.ByFault)
		write(s.Out, "takeovers  %d\n", r.Takeovers)
		write(s.Out, "  of killed nodes, with the wake       %d in p50 %.0f ms, p99 %.0f ms, at most %s\n", r.TakeoversTimed, r.TakeoverP50, r.TakeoverP99, soak.TakeoverLimit)
		write(s.Out, "  of killed nodes, the wake lost too   %d in p50 %.0f ms, p99 %.0f ms, at most %s\n", r.LostWakeTimed, r.LostWakeP50, r.LostWakeP99, soak.LostWakeLimit)
		write(s.Out, "  of killed nodes, beside other faults %d in p50 %.0f ms, p99 %.0f ms\n", r.DisturbedTimed, r.DisturbedP50, r.DisturbedP99)
		write(s.Out, "calls of unknown fate, as the histories say  %d; repeated by workers that did not know yet, and not recorded  %d\n", r.UnknownCalls, r.StaleEffects)
		write(s.Out, "calls on processes of the plugin  %d, of them %d that must not run twice; not started, as the process was gone  %d\n", r.PluginCalls, r.PluginOnce, r.RefusedCalls)
		if c.MCP > 0 {
			write(s.Out, "calls of tools of MCP servers  %d, of which %d runs\n", r.MCPCalls, r.MCPRuns)
		}
		if c.Agents > 0 {
			write(s.Out, "agents  %d; turns that killed each node which ran them, and were given up  %d\n", r.Agents, r.GivenUp)
		}
		write(s.Out, "doubled    %d\nlost       %d\n", r.Doubled, r.Lost)
		for _, b := range r.Bad {
			write(s.Out, "session %s: %s %v\n  lash-replay show %s\n", b.Session, b.Lost, b.Doubled, b.History)
		}
	}
	if r.Store != "" {
		write(s.Err, "lash-node: everything is kept in %s; lash-replay reads the files in its histories directory\n", r.Store)
	}
	switch {
	case r.Lost+r.Doubled > 0:
		return errSoaked
	case r.Late():
		return errLate
	}
	return nil
}
