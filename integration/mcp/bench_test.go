package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
	"github.com/lash-go/lash/workers/mcp"
)

// BenchmarkCall measures a call of a server on stdin and stdout as a node makes it, without the appends of a turn, beside
// the same call by the client of the SDK alone, one after the other.
func BenchmarkCall(b *testing.B) {
	server := ownServer("srv", filepath.Join(b.TempDir(), "runs"))
	tool := handler(b, "srv__look", server)
	alone := client(b, server)
	args := json.RawMessage(`{"do":"x"}`)
	var through, direct []time.Duration
	for b.Loop() {
		through = append(through, timed(b, tool, 1, string(args))...)
		began := time.Now()
		_, err := alone.CallTool(b.Context(), &sdk.CallToolParams{Name: "look", Arguments: args})
		runtest.NoError(b, err)
		direct = append(direct, time.Since(began))
	}
	b.ReportMetric(p50(through), "call-p50-µs")
	b.ReportMetric(p50(direct), "sdk-p50-µs")
	b.ReportMetric(p50(through)/p50(direct), "ratio")
	if ratio := p50(through) / p50(direct); len(through) >= enough && ratio > 1.5 {
		b.Errorf("got %.2f times the time of the SDK at the median, want at most 1.5", ratio)
	}
}

// enough is how many calls or turns have a median that is compared with a goal: the first runs of a benchmark have few.
const enough = 200

func p50(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Nanoseconds()) / 1000
}

// sources runs servers until the end of the benchmark. Those that list no tools are not waited for.
func sources(b *testing.B, servers ...mcp.Server) (*bus.Bus, *mcp.Servers) {
	b.Helper()
	on := bustest.Open(b, bustest.Server(b, busembed.Config{}))
	p, err := mcp.New(mcp.Config{Servers: servers, Bus: on})
	if err == nil {
		err = p.Start(b.Context())
	}
	check(b, err)
	b.Cleanup(func() { _ = p.Stop(context.Background()) }) // the benchmark's own has ended
	once, cancel := context.WithTimeout(b.Context(), 3*time.Second)
	defer cancel()
	_ = p.Settle(once)
	return on, p
}

func check(b *testing.B, err error) {
	b.Helper()
	runtest.NoError(b, err)
}

// handler is a tool of a server as nodes call it.
func handler(b *testing.B, name string, server mcp.Server) *plugin.BoundTool {
	b.Helper()
	_, p := sources(b, server)
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{p}})
	check(b, err)
	stack, err := builder.BuildStack(b.Context(), plugin.BuildContext{Session: "s"}, nil)
	check(b, err)
	b.Cleanup(stack.Close)
	catalog, err := stack.Catalog(&projector.Catalog{})
	check(b, err)
	tool, ok := catalog.Find(name)
	if !ok {
		b.Fatalf("the node does not have the tool %s", name)
	}
	return tool
}

// turns starts a node whose sessions have servers, and returns a function that times n turns with a call of srv__look,
// each in a session of its own.
func turns(b *testing.B, servers ...mcp.Server) func(n int) []time.Duration {
	b.Helper()
	on, p := sources(b, servers...)
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{p}})
	check(b, err)
	n, err := workers.NewNode(workers.Config{Bus: on, Plugins: builder, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(asked)}})
	check(b, err)
	check(b, n.Start(b.Context()))
	b.Cleanup(func() { n.Stop(context.Background()) }) // the benchmark's own has ended
	return func(count int) (list []time.Duration) {
		for range count {
			id, err := n.Host().Create(b.Context(), api.CreateRequest{})
			check(b, err)
			began := time.Now()
			r, err := n.Host().Run(b.Context(), id, harness.TurnRequest("", `srv__look {"do":"x"}`))
			list = append(list, time.Since(began))
			if err != nil || r.End != events.EndFinished {
				b.Fatalf("turn: got %s, %v, want it finished", r.End, err)
			}
			v, err := n.Host().View(b.Context(), id)
			check(b, err)
			if m := v.Messages[len(v.Messages)-2]; m.Parts[0].Kind != events.PartToolResult || m.Parts[0].Text != "did x" {
				b.Fatalf("result: got %+v, want that of the server", m.Parts)
			}
		}
		return list
	}
}

// timed calls a tool n times, one after the other.
func timed(b *testing.B, tool *plugin.BoundTool, n int, args string) (list []time.Duration) {
	b.Helper()
	for range n {
		calls++
		effect := events.EffectID(fmt.Sprintf("t/0/%d", calls))
		began := time.Now()
		r, err := tool.Handler(b.Context(), plugin.Call{Session: "s", Turn: "t", Effect: effect, ID: "k", Key: string(effect)}, json.RawMessage(args))
		list = append(list, time.Since(began))
		if err != nil || r.Text != "did x" {
			b.Fatalf("got %+v, %v", r, err)
		}
		if tool.Recorded != nil {
			tool.Recorded(plugin.Call{Session: "s", Turn: "t", Effect: effect})
		}
	}
	return list
}

// calls numbers the calls of the benchmarks.
var calls int

// BenchmarkManyServers measures turns with a call of a server alone, and then beside 31 others: one that never answers, one that
// floods its output, one with 2 000 tools, and 28 that are idle. The first node and its server have ended when the others start.
func BenchmarkManyServers(b *testing.B) {
	const warm = 50 // turns
	runs := filepath.Join(b.TempDir(), "runs")
	servers := []mcp.Server{
		ownServer("srv", runs),
		{Name: "hangs", Command: "sleep", Args: []string{"1000"}, Timeout: time.Minute},
		{Name: "floods", Command: "sh", Args: []string{"-c", `while :; do echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'; done`}, Timeout: time.Minute},
		ownServer("many", runs),
	}
	servers[3].Env[toolsVariable] = "2000"
	for n := len(servers); n < 32; n++ {
		servers = append(servers, ownServer(fmt.Sprint("idle", n), runs))
	}
	var alone []time.Duration
	measure := func(b *testing.B, servers ...mcp.Server) (list []time.Duration, memory float64) {
		b.Helper()
		run := turns(b, servers...)
		run(warm)
		before := heap()
		for b.Loop() {
			list = append(list, run(100)...)
		}
		memory = (heap() - before) / float64(len(list)) // of servers of streams in this process, most of it
		b.ReportMetric(memory, "KiB/turn")
		b.ReportMetric(p50(list), "p50-µs") // sorts them
		b.ReportMetric(float64(list[len(list)*99/100].Microseconds()), "p99-µs")
		return list, memory
	}
	b.Run("alone", func(b *testing.B) { alone, _ = measure(b, servers[0]) })
	b.Run("among", func(b *testing.B) {
		among, memory := measure(b, servers...)
		if memory > 2<<10 && len(among) >= enough {
			b.Errorf("got %.0f KiB a turn, want at most 2 MiB", memory)
		}
		if len(alone) == 0 {
			return // it was not asked for
		}
		median := p50(among) / p50(alone)
		slowest := float64(among[len(among)*99/100]) / float64(alone[len(alone)*99/100])
		b.ReportMetric(median, "p50-ratio")
		b.ReportMetric(slowest, "p99-ratio")
		if len(among) >= enough && (median > 2 || slowest > 2) {
			b.Errorf("got turns of %.2f times alone at the median, and %.2f at the 99th percentile, want at most 2", median, slowest)
		}
	})
}

// heap is the memory in use, in KiB.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapInuse) / (1 << 10)
}
