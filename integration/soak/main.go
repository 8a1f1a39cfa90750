package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lash-go/lash/integration/internal/command"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

type options struct {
	Nodes    int           `help:"Nodes, each a process." default:"4"`
	Plugins  *int          `help:"Processes of an external plugin that has the recorded tools; 0: each node has them. Defaults to the number of nodes." placeholder:"N"`
	Sessions int           `help:"Conversations at once." default:"16"`
	MCP      int           `name:"mcp" help:"Sessions at once that call tools of a server of the Model Context Protocol, which each node then runs as a program on stdin and stdout; 0: none." default:"0" placeholder:"N"`
	Agents   int           `help:"Sessions at once whose turns start agents of agents; with them, turns of one more session kill each node that runs them; 0: none." default:"0" placeholder:"N"`
	Faults   []Fault       `help:"Faults that happen: kill (a node), freeze (a node or a server), server (kill one), partition (a node or a server), wakes (kill a node, and lose every wake in the queue), plugin (kill or freeze a process of the plugin; none with --plugins 0), mcp (kill a server of --mcp; none without)." default:"kill,freeze,server,partition,wakes,plugin,mcp" placeholder:"FAULT"`
	Duration time.Duration `help:"How long faults happen." default:"1m"`
	Chats    []string      `help:"Recorded conversations, as for demo. Repeatable. Without it a sample conversation runs." placeholder:"FILE" type:"path"`
	Think    time.Duration `help:"About how long the scripted model takes for a reply; a tool takes a third." default:"60ms"`
	Seed     uint64        `help:"Of the faults. Defaults to a new one, which is printed."`
	Store    string        `help:"Directory of the servers' stores, the ledgers and what children print. Defaults to a temporary one." placeholder:"DIR" type:"path"`
	Keep     bool          `help:"Keep the store of a run that did not fail, too."`
	Restart  bool          `help:"Measure something else: what a node that is killed and comes back at once adds to 64 turns in flight, on one server with no other node to take over."`
	JSON     bool          `name:"json" help:"Print one JSON object."`
}

func main() {
	p := &command.Program{
		Name: "soak", Description: "Run a fleet of processes under faults, and compare every history with its recording.", Flags: &options{},
		Apart: map[string]func(context.Context, []string) error{apartMember: runChild, apartMCP: runMCP},
	}
	os.Exit(p.Main(os.Args[1:]))
}

func (o *options) check() error {
	for _, f := range o.Faults {
		if !slices.Contains(allFaults(), f) {
			return fmt.Errorf("--faults %s: want some of %v", f, allFaults())
		}
	}
	for _, n := range []struct {
		flag             string
		given, low, high int
	}{{"nodes", o.Nodes, 2, 64}, {"sessions", o.Sessions, 1, 4096}, {"mcp", o.MCP, 0, 256}, {"agents", o.Agents, 0, 256}} {
		if n.given < n.low || n.given > n.high {
			return fmt.Errorf("--%s %d: want %d to %d", n.flag, n.given, n.low, n.high)
		}
	}
	switch {
	case o.Plugins != nil && *o.Plugins != 0 && (*o.Plugins < 2 || *o.Plugins > 64):
		return fmt.Errorf("--plugins %d: want 0, or 2 to 64", *o.Plugins)
	case o.Duration <= 0:
		return fmt.Errorf("--duration %s: want more than 0", o.Duration)
	case o.Think < 0:
		return fmt.Errorf("--think %s: want 0 or more", o.Think)
	}
	return nil
}

func (o *options) Run(ctx context.Context) error {
	err := o.check()
	if err != nil {
		return err
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64() //nolint:gosec // it is printed
	}
	if o.Plugins == nil {
		o.Plugins = &o.Nodes
	}
	if o.Store == "" {
		o.Store, err = os.MkdirTemp("", "lash-soak-")
	} else {
		err = os.MkdirAll(o.Store, 0o750)
	}
	if err == nil && len(o.Chats) == 0 {
		o.Chats = []string{filepath.Join(o.Store, "sample.jsonl")}
		err = os.WriteFile(o.Chats[0], recordingtest.Demo(), 0o600)
	}
	if err != nil {
		return err
	}
	say("soak: seed %d, store %s", o.Seed, o.Store)
	if o.Restart {
		err = o.restart(ctx)
	} else {
		err = o.soak(ctx)
	}
	switch _, found := errors.AsType[command.Found](err); {
	case err == nil && !o.Keep:
		return os.RemoveAll(o.Store)
	case err != nil && !found:
		return fmt.Errorf("%w (seed %d; the store is kept in %s)", err, o.Seed, o.Store)
	}
	say("soak: everything is kept in %s; lash-replay reads the files in its histories directory", o.Store)
	return err
}

// say prints a line for the person who waits.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

func (o *options) soak(ctx context.Context) error {
	r, err := run(ctx, o)
	if err != nil {
		return err
	}
	if err = r.verdict(); err != nil || o.Keep {
		r.Store = o.Store
	}
	if o.JSON {
		return errors.Join(command.PrintJSON(r), err)
	}
	o.print(r)
	return err
}

func (o *options) print(r *Report) {
	fmt.Printf("%d turns of %d sessions in %.0f s, %d faults %v\n", r.Turns, r.Sessions, r.DurationSeconds, r.Faults, r.ByFault)
	fmt.Printf("takeovers  %d\n", r.Takeovers)
	fmt.Printf("  of killed nodes, with the wake       %d in p50 %.0f ms, p99 %.0f ms, at most %s\n", r.TakeoversTimed, r.TakeoverP50, r.TakeoverP99, TakeoverLimit)
	fmt.Printf("  of killed nodes, the wake lost too   %d in p50 %.0f ms, p99 %.0f ms, at most %s\n", r.LostWakeTimed, r.LostWakeP50, r.LostWakeP99, LostWakeLimit)
	fmt.Printf("  of killed nodes, beside other faults %d in p50 %.0f ms, p99 %.0f ms\n", r.DisturbedTimed, r.DisturbedP50, r.DisturbedP99)
	fmt.Printf("calls of unknown fate, as the histories say  %d; repeated by workers that did not know yet, and not recorded  %d\n", r.UnknownCalls, r.StaleEffects)
	fmt.Printf("calls on processes of the plugin  %d, of them %d that must not run twice; not started, as the process was gone  %d\n", r.PluginCalls, r.PluginOnce, r.RefusedCalls)
	if o.MCP > 0 {
		fmt.Printf("calls of tools of MCP servers  %d, of which %d runs\n", r.MCPCalls, r.MCPRuns)
	}
	if o.Agents > 0 {
		fmt.Printf("agents  %d; turns that killed each node which ran them, and were given up  %d\n", r.Agents, r.GivenUp)
	}
	fmt.Printf("doubled    %d\nlost       %d\n", r.Doubled, r.Lost)
	for _, b := range r.Bad {
		fmt.Printf("session %s: %s %v\n  lash-replay show %s\n", b.Session, b.Lost, b.Doubled, b.History)
	}
}

func (o *options) restart(ctx context.Context) error {
	r, err := runRestart(ctx, o)
	switch {
	case err != nil:
		return err
	case o.JSON:
		err = command.PrintJSON(r)
	default:
		fmt.Printf("%d turns undisturbed %.0f ms, with a kill -9 of their node %.0f ms: %.0f ms more\n", r.Turns, r.PlainMS, r.KilledMS, r.AddedMS)
		fmt.Printf("taken over %d turns, asked again for %d effects that were under way, for %d that were recorded; lost %d\n", r.Takeovers, r.Again, r.Doubled, r.Lost)
	}
	if r.Doubled+r.Lost > 0 {
		return errSoaked
	}
	return err
}
