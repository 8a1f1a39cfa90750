package external

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/lash-go/lash/session/plugin"
)

// BenchmarkHook measures a hook of a program of its own, from the stack of a node to the function and back, beside raw
// requests of the same size to the same process, one after the other, so that both meet the same load. ratio is that of
// the medians.
func BenchmarkHook(b *testing.B) {
	m := measure(b, "i1")
	stack, err := m.stacks.BuildStack(b.Context(), plugin.BuildContext{Session: "s"}, nil)
	check(b, err)
	in := plugin.ToolContext{Call: plugin.Call{Session: "s", Turn: "t1", Effect: "t1/0/0", ID: "k"}, Tool: hookedTool, Args: json.RawMessage(`{"a":1}`)}
	var took [2][]time.Duration
	round := func() {
		for n, run := range []func() error{
			func() error { _, err := stack.BeforeToolCall(b.Context(), in); return err },
			func() error { return m.raw("i1") },
		} {
			began := time.Now()
			check(b, run())
			took[n] = append(took[n], time.Since(began))
		}
	}
	for range 200 {
		round()
	}
	took = [2][]time.Duration{}
	for b.Loop() {
		for range 500 {
			round()
		}
	}
	b.ReportMetric(p50(took[0]), "hook-p50-µs")
	b.ReportMetric(p50(took[1]), "raw-p50-µs")
	m.goal("ratio", p50(took[0])/p50(took[1]), 2)
}
