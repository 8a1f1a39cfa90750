package external

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/external"
)

// BenchmarkHook measures a hook of a program of its own, from the stack of a node to the function and back, beside raw
// requests of the same size over the same connections. ratio is that of the medians.
func BenchmarkHook(b *testing.B) {
	server := bustest.Server(b, busembed.Config{Listen: true})
	node, err := bus.Open(b.Context(), bus.Config{URL: server.URL()})
	check(b, err)
	b.Cleanup(node.Close)
	plugins, err := external.New(external.Config{Bus: node, Plugins: []external.Plugin{{Name: "p"}}})
	check(b, err)
	check(b, plugins.Start(b.Context()))
	b.Cleanup(plugins.Stop)
	conn, err := nats.Connect(server.URL())
	check(b, err)
	b.Cleanup(conn.Close)
	i, err := remote.Start(b.Context(), remote.Config{Conn: conn, Version: "1", Plugin: plugin.Func("p", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return nil, nil })
		return nil
	})})
	check(b, err)
	b.Cleanup(func() { _ = i.Stop(context.Background()) })
	_, err = conn.Subscribe("raw", func(m *nats.Msg) { _ = m.Respond([]byte(`{}`)) })
	check(b, err)
	check(b, conn.Flush())
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: plugins.Factories()})
	check(b, err)
	stack, err := builder.BuildStack(b.Context(), plugin.BuildContext{Session: "s"}, nil)
	check(b, err)
	in := plugin.ToolContext{Call: plugin.Call{Session: "s", Turn: "t1", Effect: "t1/0/0", ID: "k"}, Tool: "own", Args: json.RawMessage(`{"a":1}`)}
	body := make([]byte, 200)
	hook := func() error { _, err := stack.BeforeToolCall(b.Context(), in); return err }
	raw := func() error { _, err := node.Conn().Request("raw", body, 5*time.Second); return err }
	for _, run := range []func() error{hook, raw} {
		for range 100 {
			check(b, run())
		}
	}
	var took [2][]time.Duration
	for b.Loop() { // one after the other, so that both meet the same load
		for n, run := range []func() error{hook, raw} {
			began := time.Now()
			check(b, run())
			took[n] = append(took[n], time.Since(began))
		}
	}
	b.ReportMetric(p50(took[0]), "hook-p50-µs")
	b.ReportMetric(p50(took[1]), "raw-p50-µs")
	b.ReportMetric(p50(took[0])/p50(took[1]), "ratio")
}
