package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
)

// Report is the output of a run. Latencies are medians in milliseconds unless named otherwise. 0 means not measured.
type Report struct {
	AppendRatio         float64 `json:"append_p50_ratio,omitempty"`
	ToolStep            float64 `json:"tool_step_in_raw_appends,omitempty"`
	Events64Ratio       float64 `json:"events_64_ratio,omitempty"`
	ReplayRatio         float64 `json:"replay_ratio,omitempty"`
	FoldPerSecond       float64 `json:"fold_events_per_s,omitempty"`
	FoldUnproven        float64 `json:"fold_unproven_per_s,omitempty"`
	Open10kOver10       float64 `json:"open_10k_over_10,omitempty"`
	Fork100kOver10      float64 `json:"fork_100k_over_10,omitempty"`
	HotBytes            float64 `json:"hot_session_bytes,omitempty"`
	EffectP50           float64 `json:"effect_p50_ms_1,omitempty"`
	EffectsPerSec       float64 `json:"effects_per_s_64,omitempty"`
	EffectFsyncP50      float64 `json:"effect_fsync_p50_ms_1,omitempty"`
	EffectsFsyncSec     float64 `json:"effects_fsync_per_s_64,omitempty"`
	EffectsOfRaw        float64 `json:"effects_64_of_raw,omitempty"`
	EffectsFsyncOfRaw   float64 `json:"effects_fsync_64_of_raw,omitempty"`
	EffectClusterP50    float64 `json:"effect_cluster_p50_ms_1,omitempty"`
	EffectsClusterSec   float64 `json:"effects_cluster_per_s_64,omitempty"`
	EffectsClusterOfRaw float64 `json:"effects_cluster_64_of_raw,omitempty"`
	SubmitRatio         float64 `json:"submit_in_raw_appends,omitempty"`
	HooksTurnRatio      float64 `json:"hooks_turn_p50_ratio,omitempty"`
	SignedTurnRatio     float64 `json:"signed_turn_p50_ratio,omitempty"`
	HooksFoldRatio      float64 `json:"hooks_fold_ratio,omitempty"`
	Cold100kMB          float64 `json:"cold_100k_sessions_mb,omitempty"`
	ColdOpenP50         float64 `json:"cold_open_p50_ms,omitempty"`
	Nodes1              float64 `json:"nodes_1_turns_per_s,omitempty"`
	Nodes2              float64 `json:"nodes_2_turns_per_s,omitempty"`
	Nodes4              float64 `json:"nodes_4_turns_per_s,omitempty"`
	Nodes2Of1           float64 `json:"nodes_2_of_1,omitempty"`
	Nodes4Of1           float64 `json:"nodes_4_of_1,omitempty"`
	NodesOfRaw          float64 `json:"nodes_best_of_raw,omitempty"`
	WatchP99            float64 `json:"watch_1000_p99_ms,omitempty"`
	NeighbourRatio      float64 `json:"neighbour_p99_ratio,omitempty"`

	Raw  Figures `json:"raw"`
	Lash Figures `json:"lash"`
}

// Figures are measured values by name, the unit in the name.
type Figures map[string]float64

// progress says what is measured.
func progress(format string, a ...any) { _, _ = fmt.Fprintf(os.Stderr, "measuring "+format+"\n", a...) }

// measure measures everything, or what the options say.
func measure(ctx context.Context, o *options) (*Report, error) {
	r := &runner{options: o, report: &Report{Raw: Figures{}, Lash: Figures{}}}
	measured := false
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"whole turns, fsync every 100 ms", func(ctx context.Context) error { return r.turns(ctx, busembed.ProfileInterval) }},
		{"whole turns, fsync on every write", func(ctx context.Context) error { return r.turns(ctx, busembed.ProfileAlways) }},
		{"whole turns, three servers", r.turnsOnCluster},
		{"submit to a session at hand", r.submits},
		{"ten hooks at every point", r.hooks},
		{"turns with signed heads", r.signed},
		{"append in each durability profile", r.appends},
		{"durable tool step", r.toolStep},
		{"64 sessions at once", r.sessions64},
		{"replay", r.replay},
		{"fold from memory", r.fold},
		{"growth", r.growth},
		{"opening from a snapshot", r.open},
		{"forking", r.fork},
		{"memory of hot sessions", r.hot},
		{"cold sessions, in a server of their own", r.cold},
		{"node processes", r.nodes},
		{"watchers of one session", r.watchers},
		{"turns beside a large session", r.neighbour},
	} {
		if !strings.Contains(part.name, o.Only) || o.Cold == 0 && strings.HasPrefix(part.name, "cold") {
			continue
		}
		measured = true
		progress("%s", part.name)
		if err := r.isolated(ctx, part.run); err != nil {
			return nil, fmt.Errorf("measure %s: %w", part.name, err)
		}
	}
	if !measured {
		return nil, fmt.Errorf("--only %s: no part has that in its name: without it the names of all are printed", o.Only)
	}
	return r.report, nil
}

type runner struct {
	*options
	report *Report
	dir    string // of the running part
}

// isolated runs a part in a directory of its own and removes it afterwards. Memory and unwritten data of one part do not
// slow the next.
func (r *runner) isolated(ctx context.Context, part func(context.Context) error) error {
	dir, err := os.MkdirTemp("", "lash-bench-")
	if err != nil {
		return err
	}
	r.dir = dir
	err = part(ctx)
	if rmErr := os.RemoveAll(dir); err == nil {
		err = rmErr
	}
	runtime.GC()
	debug.FreeOSMemory()
	return err
}

// scaled is the number of repetitions of something that a full run does n times.
func (r *runner) scaled(n int) int { return max(n/max(r.Scale, 1), 4) }

// server starts a server on TCP with a store of its own.
func (r *runner) server(profile busembed.Profile) (*busembed.Server, error) {
	dir, err := os.MkdirTemp(r.dir, "store")
	if err != nil {
		return nil, err
	}
	return busembed.Start(busembed.Config{StoreDir: dir, Profile: profile, Listen: true})
}

// withServer runs part on a fresh server, over TCP.
func (r *runner) withServer(ctx context.Context, profile busembed.Profile, part func(context.Context, *bus.Bus) error) error {
	s, err := r.server(profile)
	if err != nil {
		return err
	}
	defer s.Stop()
	b, err := bus.Open(ctx, bus.Config{URL: s.URL()})
	if err != nil {
		return err
	}
	defer b.Close()
	return part(ctx, b)
}

// withCluster runs part on three fresh servers.
func (r *runner) withCluster(part func(at bus.Config) error) error {
	servers, err := busembed.StartCluster(filepath.Join(r.dir, "cluster"))
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range servers {
			s.Stop()
		}
	}()
	return part(bus.Config{URL: busembed.URLs(servers), Replicas: 3})
}

// rawStreams are n streams with the same settings, made with the NATS library alone. publish waits for the acknowledgement of a message,
// which is the one after sequence seq.
func rawStreams(ctx context.Context, b *bus.Bus, n, replicas int) (publish func(i, seq int, data []byte) error, err error) {
	js, err := jetstream.New(b.Conn())
	name := func(i int) string { return fmt.Sprintf("raw%d", i) }
	for i := 0; i < n && err == nil; i++ {
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{
			Name: name(i), Subjects: []string{name(i)}, Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
		})
	}
	return func(i, seq int, data []byte) error {
		_, err := js.Publish(ctx, name(i), data, jetstream.WithExpectLastSequence(uint64(seq)))
		return err
	}, err
}

// samples are the durations of one operation.
type samples []time.Duration

func (s samples) p50() float64 { return s.percentile(50) }

func (s samples) p99() float64 { return s.percentile(99) }

func (s samples) percentile(p int) float64 {
	sorted := slices.Clone(s)
	slices.Sort(sorted)
	return ms(sorted[len(sorted)*p/100])
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// alternate does two things in turn, n times, so that the load of the machine is the same for both.
func alternate(n int, one, other func(i int) error) (ones, others samples, err error) {
	for i := 0; i < n && err == nil; i++ {
		if err = ones.timed(func() error { return one(i) }); err == nil {
			err = others.timed(func() error { return other(i) })
		}
	}
	return ones, others, err
}

// timed runs f and records its duration.
func (s *samples) timed(f func() error) error {
	began := time.Now()
	err := f()
	*s = append(*s, time.Since(began))
	return err
}
