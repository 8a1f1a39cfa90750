package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime/pprof"
	"slices"

	"github.com/lash-go/lash/cmd/internal/bench"
	"github.com/lash-go/lash/events/localfile"
)

type benchCmd struct {
	JSON       bool   `name:"json" help:"Print one JSON object."`
	Only       string `help:"Measure only the parts whose name holds this." placeholder:"TEXT"`
	CPUProfile string `name:"cpuprofile" help:"Write a profile of where the time goes." placeholder:"FILE" type:"path" writes:""`
	Scale      int    `help:"Divide how much is measured, for a quick look: such figures are not comparable." default:"1"`
	Cold       int    `help:"Sessions that are cold; 0 measures none." default:"4000"`
	Hot        int    `help:"Sessions that are hot beside the cold ones." default:"1000"`
}

// serveApartCmd is the process of the server whose memory the benchmark measures.
type serveApartCmd struct {
	Store string `arg:""`
}

func (c *serveApartCmd) Run(s *streams) error { return bench.ServeApart(c.Store, os.Stdin, s.Out) }

// nodeApartCmd is the process of one of the nodes that the benchmark measures.
type nodeApartCmd struct {
	URL string `arg:""`
}

func (c *nodeApartCmd) Run(ctx context.Context, s *streams) error {
	return bench.NodeApart(ctx, c.URL, os.Stdin, s.Out)
}

// subprocess runs this program as another process.
func subprocess(s *streams) func(context.Context, ...string) *exec.Cmd {
	return func(ctx context.Context, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Args = append([]string{os.Args[0]}, args...)
		cmd.Stderr = s.Err
		if self, err := os.Executable(); err == nil {
			cmd.Path, cmd.Err = self, nil
		}
		return cmd
	}
}

func (c *benchCmd) Run(ctx context.Context, s *streams) error {
	dir, err := os.MkdirTemp("", "lash-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory that remains is no failure
	if c.CPUProfile != "" {
		f, err := localfile.Create(c.CPUProfile)
		if err != nil {
			return fmt.Errorf("--cpuprofile: %w", err)
		}
		defer f.Close() //nolint:errcheck // the profile is complete once it is stopped
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	report, err := bench.Run(ctx, bench.Options{
		Scale: c.Scale, Dir: dir, Only: c.Only, Cold: c.Cold, Hot: c.Hot, Command: subprocess(s),
		Progress: func(format string, a ...any) { write(s.Err, "measuring "+format+"\n", a...) },
	})
	if err != nil {
		return err
	}
	if c.JSON {
		enc := json.NewEncoder(s.Out)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	benchTable(s, report)
	return nil
}

func benchTable(s *streams, r *bench.Report) {
	row := func(what string, value float64, goal string) {
		if value != 0 { // 0 means not measured
			write(s.Out, "%-62s %12.2f   %s\n", what, value, goal)
		}
	}
	row("append, in raw publishes", r.AppendRatio, "at most 1.3")
	row("durable tool step, in raw publishes", r.ToolStep, "at most 2.6")
	row("events a second over 64 sessions, of raw", r.Events64Ratio, "at least 0.7")
	row("replay with decode and fold, of a raw ordered consumer", r.ReplayRatio, "at least 0.5")
	row("events a second, decoded and folded from memory on one core", r.FoldPerSecond, "at least 500000")
	row("the same for readers, without the hashes that heads sign", r.FoldUnproven, "")
	row("opening 10 000 events from a snapshot, in openings of 10", r.Open10kOver10, "at most 2")
	row("forking 100 000 events, in forks of 10", r.Fork100kOver10, "at most 2")
	row("resident bytes a hot session, server and node", r.HotBytes, "at most 150000")
	row("effect of a whole turn alone, ms", r.EffectP50, "at most 0.30")
	row("effects a second, 64 sessions", r.EffectsPerSec, "at least 20000")
	row("effect of a whole turn alone, fsync on every write, ms", r.EffectFsyncP50, "at most 0.70")
	row("effects a second, 64 sessions, fsync on every write", r.EffectsFsyncSec, "more than 6500")
	row("effect of a whole turn alone, three servers, ms", r.EffectClusterP50, "at most 0.85")
	row("effects a second, 64 sessions, three servers", r.EffectsClusterSec, "at least 9000")
	row("effects of 64 sessions, of raw publishes", r.EffectsOfRaw, "at least 0.5")
	row("the same, fsync on every write", r.EffectsFsyncOfRaw, "at least 1")
	row("the same, three servers", r.EffectsClusterOfRaw, "")
	row("submit to a session at hand, in raw publishes", r.SubmitRatio, "at most 2")
	row("megabytes of server memory that 100 000 cold sessions take", r.Cold100kMB, "at most 100")
	row("opening a cold session, ms", r.ColdOpenP50, "")
	row("turns a second by one node process", r.Nodes1, "")
	row("turns a second by two", r.Nodes2, "")
	row("turns a second by four", r.Nodes4, "")
	row("turns a second by two, of one", r.Nodes2Of1, "at least 0.9")
	row("turns a second by four, of one", r.Nodes4Of1, "at least 0.9")
	row("the best of them, of raw publishes of as many messages", r.NodesOfRaw, "")
	row("1 000 watchers, each cut and resumed: p99 of a commit's way, ms", r.WatchP99, "at most 50")
	row("p99 of turns beside a session of 500 MB, of p99 alone", r.NeighbourRatio, "at most 5")
	row("turn with a signed head / without", r.SignedTurnRatio, "")
	row("turn with ten hooks at every point / with none", r.HooksTurnRatio, "")
	row("fold of that turn / of one without hooks", r.HooksFoldRatio, "")
	figures := func(title string, f bench.Figures) {
		if len(f) > 0 {
			write(s.Out, "\n%s\n", title)
		}
		for _, name := range slices.Sorted(maps.Keys(f)) {
			write(s.Out, "  %-60s %14.3f\n", name, f[name])
		}
	}
	figures("raw NATS, same run", r.Raw)
	figures("lash", r.Lash)
}
