package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/mcp"
)

// BenchmarkCall measures a call of a server on stdin and stdout as a node makes it, without the appends of a turn, beside
// the same call by the client of the SDK alone, one after the other.
func BenchmarkCall(b *testing.B) {
	server := ownServer("srv", filepath.Join(b.TempDir(), "runs"))
	tool := handler(b, server, "srv__look")
	alone := client(b, server)
	args := json.RawMessage(`{"do":"x"}`)
	var through, direct []time.Duration
	for n := 0; b.Loop(); n++ {
		began := time.Now()
		effect := events.EffectID(fmt.Sprintf("t/0/%d", n))
		r, err := tool.Handler(b.Context(), plugin.Call{Session: "s", Turn: "t", Effect: effect, ID: "k", Key: string(effect)}, args)
		through = append(through, time.Since(began))
		if err != nil || r.Text != "did x" {
			b.Fatalf("got %+v, %v", r, err)
		}
		if tool.Recorded != nil {
			tool.Recorded(plugin.Call{Session: "s", Turn: "t", Effect: effect})
		}
		began = time.Now()
		if _, err := alone.CallTool(b.Context(), &sdk.CallToolParams{Name: "look", Arguments: args}); err != nil {
			b.Fatal(err)
		}
		direct = append(direct, time.Since(began))
	}
	b.ReportMetric(p50(through), "call-p50-µs")
	b.ReportMetric(p50(direct), "sdk-p50-µs")
	b.ReportMetric(p50(through)/p50(direct), "ratio")
}

func p50(list []time.Duration) float64 {
	slices.Sort(list)
	return float64(list[len(list)/2].Nanoseconds()) / 1000
}

// handler is a tool of a server as nodes call it.
func handler(b *testing.B, server mcp.Server, name string) *plugin.BoundTool {
	b.Helper()
	on := bustest.Open(b, bustest.Server(b, busembed.Config{}))
	p, err := external.New(external.Config{Bus: on, Plugins: []external.Plugin{server.Plugin()}})
	if err == nil {
		err = p.Start(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Stop)
	source, err := mcp.Start(b.Context(), mcp.Config{Server: server, Conn: on.Conn()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = source.Stop(context.Background()) }) // the benchmark's own has ended
	<-source.Ready()
	for !p.Status()[0].Ready() {
		time.Sleep(time.Millisecond)
	}
	host, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: p.Factories()})
	if err != nil {
		b.Fatal(err)
	}
	stack, err := host.BuildStack(b.Context(), plugin.BuildContext{Session: "s"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(stack.Close)
	catalog, err := stack.Catalog(&projector.Catalog{})
	if err != nil {
		b.Fatal(err)
	}
	tool, ok := catalog.Find(name)
	if !ok {
		b.Fatalf("the node does not have the tool %s", name)
	}
	return tool
}
