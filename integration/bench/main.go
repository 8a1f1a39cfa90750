// Command bench measures lash and raw NATS in the same run on the same machine. Ratios of the two are stable where
// absolute figures vary. Every figure of BENCHMARKS.md is measured here.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/pprof"
	"slices"

	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/integration/internal/command"
)

type options struct {
	JSON       bool   `name:"json" help:"Print one JSON object."`
	Only       string `help:"Measure only the parts whose name holds this." placeholder:"TEXT"`
	CPUProfile string `name:"cpuprofile" help:"Write a profile of where the time goes." placeholder:"FILE" type:"path"`
	Scale      int    `help:"Divide how much is measured, for a quick look: such figures are not comparable." default:"1"`
	Cold       int    `help:"Sessions that are cold; 0 measures none." default:"4000"`
	Hot        int    `help:"Sessions that are hot beside the cold ones." default:"1000"`
}

func main() {
	p := &command.Program{
		Name: "bench", Description: "Compare the speed of lash with that of raw NATS, in the same run.", Flags: &options{},
		Apart: map[string]func(context.Context, []string) error{
			apartServer: func(_ context.Context, args []string) error { return serveApart(args[0]) },
			apartNode:   func(ctx context.Context, args []string) error { return nodeApart(ctx, args[0]) },
		},
	}
	os.Exit(p.Main(os.Args[1:]))
}

func (o *options) Run(ctx context.Context) error {
	if o.CPUProfile != "" {
		f, err := localfile.Create(o.CPUProfile)
		if err != nil {
			return fmt.Errorf("--cpuprofile: %w", err)
		}
		defer f.Close() //nolint:errcheck // the profile is complete once it is stopped
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	report, err := measure(ctx, o)
	if err != nil {
		return err
	}
	if o.JSON {
		return command.PrintJSON(report)
	}
	report.print(os.Stdout)
	return nil
}

// print prints a table. What was not measured is left out.
func (r *Report) print(to io.Writer) {
	for _, row := range []struct {
		what  string
		value float64
		goal  string
	}{
		{"append, in raw publishes", r.AppendRatio, "at most 1.3"},
		{"durable tool step, in raw publishes", r.ToolStep, "at most 2.6"},
		{"events a second over 64 sessions, of raw", r.Events64Ratio, "at least 0.7"},
		{"replay with decode and fold, of a raw ordered consumer", r.ReplayRatio, "at least 0.5"},
		{"events a second, decoded and folded from memory on one core", r.FoldPerSecond, "at least 500000"},
		{"the same for readers, without the hashes that heads sign", r.FoldUnproven, ""},
		{"opening 10 000 events from a snapshot, in openings of 10", r.Open10kOver10, "at most 2"},
		{"forking 100 000 events, in forks of 10", r.Fork100kOver10, "at most 2"},
		{"resident bytes a hot session, server and node", r.HotBytes, "at most 150000"},
		{"effect of a whole turn alone, ms", r.EffectP50, "at most 0.30"},
		{"effects a second, 64 sessions", r.EffectsPerSec, "at least 20000"},
		{"effect of a whole turn alone, fsync on every write, ms", r.EffectFsyncP50, "at most 0.70"},
		{"effects a second, 64 sessions, fsync on every write", r.EffectsFsyncSec, "more than 6500"},
		{"effect of a whole turn alone, three servers, ms", r.EffectClusterP50, "at most 0.85"},
		{"effects a second, 64 sessions, three servers", r.EffectsClusterSec, "at least 9000"},
		{"effects of 64 sessions, of raw publishes", r.EffectsOfRaw, "at least 0.5"},
		{"the same, fsync on every write", r.EffectsFsyncOfRaw, "at least 1"},
		{"the same, three servers", r.EffectsClusterOfRaw, ""},
		{"submit to a session at hand, in raw publishes", r.SubmitRatio, "at most 2"},
		{"megabytes of server memory that 100 000 cold sessions take", r.Cold100kMB, "at most 100"},
		{"opening a cold session, ms", r.ColdOpenP50, ""},
		{"turns a second by one node process", r.Nodes1, ""},
		{"turns a second by two", r.Nodes2, ""},
		{"turns a second by four", r.Nodes4, ""},
		{"turns a second by two, of one", r.Nodes2Of1, "at least 0.9"},
		{"turns a second by four, of one", r.Nodes4Of1, "at least 0.9"},
		{"the best of them, of raw publishes of as many messages", r.NodesOfRaw, ""},
		{"1 000 watchers, each cut and resumed: p99 of a commit's way, ms", r.WatchP99, "at most 50"},
		{"p99 of turns beside a session of 500 MB, of p99 alone", r.NeighbourRatio, "at most 5"},
		{"turn with a signed head / without", r.SignedTurnRatio, ""},
		{"turn with ten hooks at every point / with none", r.HooksTurnRatio, ""},
		{"fold of that turn / of one without hooks", r.HooksFoldRatio, ""},
	} {
		if row.value != 0 {
			_, _ = fmt.Fprintf(to, "%-62s %12.2f   %s\n", row.what, row.value, row.goal)
		}
	}
	for _, list := range []struct {
		title   string
		figures Figures
	}{{"raw NATS, same run", r.Raw}, {"lash", r.Lash}} {
		if len(list.figures) > 0 {
			_, _ = fmt.Fprintf(to, "\n%s\n", list.title)
		}
		for _, name := range slices.Sorted(maps.Keys(list.figures)) {
			_, _ = fmt.Fprintf(to, "  %-60s %14.3f\n", name, list.figures[name])
		}
	}
}
