package system

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/prices"
	"github.com/lash-go/lash/workers/telemetry"
)

// TestTraceAcrossNodes kills a node in the middle of a turn and reads the exports of it and of the next one: one
// trace, one tree, and no content.
func TestTraceAcrossNodes(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Text("secret words"), harness.Call("k", "add", `{"A":1,"B":2}`)), harness.Hang(running), harness.Reply(harness.Text("more secret words")))
	exporters := []harness.SpanExporter{{InMemoryExporter: tracetest.NewInMemoryExporter()}, {InMemoryExporter: tracetest.NewInMemoryExporter()}}
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("a secret"))
	for i, e := range exporters {
		spans := telemetry.NewSpans(e, 1)
		b.TraceTo = spans.Trace
		node, kill := b.StartNodeOn(bustest.Open(t, b.Server), adding())
		if i == 0 {
			harness.Receive(b, "the second model call", running)
			kill()
		} else {
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
			node.Stop(b.Ctx) // it may not have received the commit of the end yet
		}
		runtest.WantError(t, "stop", spans.Stop(b.Ctx), nil)
	}
	ids, names := make(map[string]bool), make(map[string]int)
	spans := make(map[string]bool)
	for _, e := range exporters {
		for _, s := range e.GetSpans() {
			ids[s.SpanContext.TraceID().String()] = true
			spans[s.SpanContext.SpanID().String()] = true
			names[s.Name]++
		}
	}
	runtest.Equal(t, "traces", len(ids), 1)
	for name, n := range map[string]int{"invoke_agent": 1, "execute_tool add": 1} {
		runtest.Equal(t, "spans "+name, names[name], n)
	}
	runtest.Equal(t, "spans of the first node, of its model calls and the tool", len(exporters[0].GetSpans()), 3)
	runtest.Equal(t, "spans of the second, of its model call and the turn", len(exporters[1].GetSpans()), 2)
	for _, e := range exporters {
		for _, s := range e.GetSpans() {
			if s.Name != "invoke_agent" && !spans[s.Parent.SpanID().String()] {
				t.Errorf("span %s: got parent %s, which nobody exported", s.Name, s.Parent.SpanID())
			}
			if all := fmt.Sprintf("%+v", s); strings.Contains(all, "secret") || strings.Contains(all, `"A"`) {
				t.Errorf("span %s: got what was said in it: %s", s.Name, all)
			}
		}
	}
}

// TestTraceOfToolNode runs a call on another node than the turn: in the exports of both it is one span, in the
// turn's trace and under the turn.
func TestTraceOfToolNode(t *testing.T) {
	t.Parallel()
	f, e := harness.StartFleet(t), &fleetWorkload{}
	callFirst(f, harness.Call("a", "run", `{"text":"one"}`))
	exported := map[workers.Role]harness.SpanExporter{workers.RoleTurn: {InMemoryExporter: tracetest.NewInMemoryExporter()}, workers.RoleTool: {InMemoryExporter: tracetest.NewInMemoryExporter()}}
	var stops []func(context.Context) error
	for role, to := range exported {
		spans := telemetry.NewSpans(to, 1)
		n := f.Join(workers.Config{Roles: []workers.Role{role}, Tools: e.on(string(role)), Trace: spans.Trace})
		stops = append(stops, func(ctx context.Context) error { n.Stop(ctx); return spans.Stop(ctx) }) // it may not have received the commit of the end yet
	}
	id := f.Open(api.CreateRequest{})
	f.StartTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
	for _, stop := range stops {
		runtest.WantError(t, "stop", stop(f.Ctx), nil)
	}
	runtest.EqualLists(t, "runs", e.runs, []string{"tool run one"})
	named := make(map[string]tracetest.SpanStubs)
	for _, to := range exported {
		for _, s := range to.GetSpans() {
			named[s.Name] = append(named[s.Name], s)
		}
	}
	turns, calls := named["invoke_agent"], named["execute_tool run"]
	if len(turns) != 1 || len(calls) != 1 {
		t.Fatalf("got %d spans of the turn and %d of its call, want one each: %v", len(turns), len(calls), named)
	}
	runtest.Equal(t, "trace of the call", calls[0].SpanContext.TraceID(), turns[0].SpanContext.TraceID())
	runtest.Equal(t, "parent of the call", calls[0].Parent.SpanID(), turns[0].SpanContext.SpanID())
	runtest.Equal(t, "trace of the parent", calls[0].Parent.TraceID(), turns[0].SpanContext.TraceID())
	runtest.Equal(t, "parent of the turn", turns[0].Parent.SpanID().IsValid(), false)
}

// adding is a plugin with a tool that adds, once.
func adding() plugin.Factory {
	return plugin.OfTools("adding", func(events.SessionID) *plugin.Tools {
		tools := plugin.NewTools()
		plugin.AddTool(tools, plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct{ A, B int }) (int, error) {
			return in.A + in.B, nil
		})
		return tools
	})
}

func TestSmokeMetrics(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, billed("r1", events.StopToolUse, harness.Call("k", "add", `{"A":1,"B":2}`)), harness.Reply(harness.Text("3")), harness.Fail(llm.KindAuth, "no key"))
	reg := prometheus.NewRegistry()
	m, err := telemetry.NewMetrics(reg)
	runtest.WantError(t, "new metrics", err, nil)
	list, err := prices.Parse([]byte(`{"date":"2026-01-02","source":"the test","models":[
		{"provider":"scripted","names":["small-1"],"input":1,"output":10,"cache_read":0.5,"cache_write":2}]}`))
	runtest.WantError(t, "prices", err, nil)
	m.SetPrices(list)
	b.TraceTo = m.Trace
	n, kill := b.StartNodeOn(b.Bus, adding())
	runtest.WantError(t, "register", reg.Register(telemetry.NewAssets(b.Bus, n.Running, func(context.Context) (map[string]int64, error) { return map[string]int64{"ann": 5}, nil })), nil)
	plugins := func() []api.ExternalPlugin {
		return []api.ExternalPlugin{{Name: "notes", Instances: []api.PluginInstance{
			{ID: "i1", Current: true, Running: 2, Calls: 7, Failures: 1}, {ID: "i2", Current: true, Draining: true, Running: 1, Calls: 3}, {ID: "i3"},
		}}, {Name: "none"}}
	}
	runtest.WantError(t, "register", reg.Register(telemetry.NewExternal(plugins)), nil)
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.RunTurn(id, "t1", harness.Text("1+2?"))
	b.RunTurn(id, "t2", harness.Text("and?"))
	n.Stop(b.Ctx) // traces are counted
	kill()
	want := `
# HELP lash_turns_total Turns that ended on this node, by how.
# TYPE lash_turns_total counter
lash_turns_total{end="cancelled"} 0
lash_turns_total{end="failed"} 0
lash_turns_total{end="finished"} 1
lash_turns_total{end="frame_switch"} 0
lash_turns_total{end="incomplete"} 0
lash_turns_total{end="invalid_input"} 0
lash_turns_total{end="max_turns"} 0
lash_turns_total{end="plugin_abort"} 0
lash_turns_total{end="provider_error"} 1
lash_turns_total{end="runtime_error"} 0
lash_turns_total{end="submitted_value"} 0
lash_turns_total{end="tool_error"} 0
lash_turns_total{end="tool_value"} 0
# HELP lash_tool_calls_total Tool calls, by outcome.
# TYPE lash_tool_calls_total counter
lash_tool_calls_total{outcome="ok",tool="add"} 1
# HELP lash_tokens_total Tokens used, by kind: input, output, cache_read, cache_write, and reasoning, which is part of output.
# TYPE lash_tokens_total counter
lash_tokens_total{kind="cache_read",model="small",provider="scripted"} 0
lash_tokens_total{kind="cache_read",model="small-1",provider="scripted"} 3
lash_tokens_total{kind="cache_write",model="small",provider="scripted"} 0
lash_tokens_total{kind="cache_write",model="small-1",provider="scripted"} 2
lash_tokens_total{kind="input",model="small",provider="scripted"} 10
lash_tokens_total{kind="input",model="small-1",provider="scripted"} 10
lash_tokens_total{kind="output",model="small",provider="scripted"} 5
lash_tokens_total{kind="output",model="small-1",provider="scripted"} 5
lash_tokens_total{kind="reasoning",model="small",provider="scripted"} 0
lash_tokens_total{kind="reasoning",model="small-1",provider="scripted"} 1
# HELP lash_cost_dollars_total What tokens of models that have a price cost, in US dollars.
# TYPE lash_cost_dollars_total counter
lash_cost_dollars_total{model="small-1",provider="scripted"} 6.55e-05
# HELP lash_unpriced_replies_total Replies of models that have no price. Their tokens are in no cost.
# TYPE lash_unpriced_replies_total counter
lash_unpriced_replies_total{model="small",provider="scripted"} 1
# HELP lash_takeovers_total Starts, beyond the first, of the turns that ended on this node: takeovers, and starts after an approval.
# TYPE lash_takeovers_total counter
lash_takeovers_total 0
# HELP lash_up Whether the servers answer this node: 1 or 0.
# TYPE lash_up gauge
lash_up 1
# HELP lash_stored_bytes Bytes of the sessions of a caller, bodies included, where the setting max-stored-per-caller limits them; of those that have the most.
# TYPE lash_stored_bytes gauge
lash_stored_bytes{caller="ann"} 5
# HELP lash_running What this node is at work on.
# TYPE lash_running gauge
lash_running{what="tasks"} 0
lash_running{what="turns"} 0
# HELP lash_plugin_instances Programs of the plugin that live: ready for calls, draining, or of another version.
# TYPE lash_plugin_instances gauge
lash_plugin_instances{plugin="none",state="draining"} 0
lash_plugin_instances{plugin="none",state="other_version"} 0
lash_plugin_instances{plugin="none",state="ready"} 0
lash_plugin_instances{plugin="notes",state="draining"} 1
lash_plugin_instances{plugin="notes",state="other_version"} 1
lash_plugin_instances{plugin="notes",state="ready"} 1
# HELP lash_plugin_calls_running Calls that run in the plugin's living instances.
# TYPE lash_plugin_calls_running gauge
lash_plugin_calls_running{plugin="none"} 0
lash_plugin_calls_running{plugin="notes"} 3
# HELP lash_plugin_calls_ended Calls that ended in the living instances since each of them started.
# TYPE lash_plugin_calls_ended gauge
lash_plugin_calls_ended{plugin="none"} 0
lash_plugin_calls_ended{plugin="notes"} 10
# HELP lash_plugin_calls_failed Of these, calls that failed.
# TYPE lash_plugin_calls_failed gauge
lash_plugin_calls_failed{plugin="none"} 0
lash_plugin_calls_failed{plugin="notes"} 1
`
	runtest.WantError(t, "metrics", testutil.GatherAndCompare(reg, strings.NewReader(want), "lash_turns_total", "lash_tool_calls_total", "lash_tokens_total", "lash_cost_dollars_total", "lash_unpriced_replies_total", "lash_takeovers_total", "lash_up", "lash_stored_bytes", "lash_running",
		"lash_plugin_instances", "lash_plugin_calls_running", "lash_plugin_calls_ended", "lash_plugin_calls_failed"), nil)
	problems, err := testutil.GatherAndLint(reg)
	runtest.WantError(t, "lint", err, nil)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	series := gatherLabels(t, reg)
	checkDashboard(t, series)
}

// gatherLabels lists the labels of all series, by their names.
func gatherLabels(t *testing.T, reg *prometheus.Registry) map[string][]string {
	t.Helper()
	families, err := reg.Gather()
	runtest.WantError(t, "gather", err, nil)
	series := make(map[string][]string)
	for _, f := range families {
		labels := []string{"job", "instance"} // which Prometheus adds
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		series[f.GetName()] = labels
		if f.GetType().String() == "HISTOGRAM" {
			series[f.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
			series[f.GetName()+"_count"] = labels
		}
	}
	return series
}

// The parts of a query: the series, and the labels that it chooses and groups by.
var (
	querySeries  = regexp.MustCompile(`\b(?:lash|gen_ai_client)_[a-z_]+`)
	queryMatches = regexp.MustCompile(`([a-z_]+)(?:=~|!~|!=|=)"`)
	queryGroups  = regexp.MustCompile(`(?:by|without) ?\(([^)]*)\)`)
	legendLabels = regexp.MustCompile(`{{ *([a-z_]+) *}}`)
)

// checkDashboard checks that everything the shipped dashboard refers to exists: the series, the labels of its
// filters and groups, and the labels of its legends. It has tokens and costs by model.
func checkDashboard(t *testing.T, series map[string][]string) {
	t.Helper()
	data, err := os.ReadFile("../../deploy/grafana/lash.json")
	runtest.WantError(t, "read", err, nil)
	var board struct {
		Panels []struct {
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	runtest.WantError(t, "parse", json.Unmarshal(data, &board), nil)
	byModel := make(map[string]bool) // series that a panel shows by model
	for i, p := range board.Panels {
		if len(p.Targets) == 0 {
			t.Errorf("panel %d: got no query", i)
		}
		for _, target := range p.Targets {
			names := querySeries.FindAllString(target.Expr, -1)
			if len(names) == 0 {
				t.Errorf("%s: got no series", target.Expr)
			}
			var left, wanted []string
			for _, m := range queryGroups.FindAllStringSubmatch(target.Expr, -1) {
				left = append(left, regexp.MustCompile(`[a-z_]+`).FindAllString(m[1], -1)...)
			}
			for _, m := range queryMatches.FindAllStringSubmatch(target.Expr, -1) {
				wanted = append(wanted, m[1])
			}
			for _, m := range legendLabels.FindAllStringSubmatch(target.LegendFormat, -1) {
				if !slices.Contains(left, m[1]) {
					t.Errorf("%s: has the legend %s, which it does not group by", target.Expr, target.LegendFormat)
				}
			}
			for _, name := range names {
				byModel[name] = byModel[name] || slices.Contains(left, "model")
				labels, ok := series[name]
				if !ok {
					t.Errorf("%s: shows %s, which no node has", target.Expr, name)
				}
				for _, label := range append(wanted, left...) {
					if ok && !slices.Contains(labels, label) {
						t.Errorf("%s: uses the label %s, and %s has %v", target.Expr, label, name, labels)
					}
				}
			}
		}
	}
	for _, name := range []string{"lash_tokens_total", "lash_cost_dollars_total"} {
		if !byModel[name] {
			t.Errorf("the dashboard: no panel shows %s by model", name)
		}
	}
}

// TestMetricLabels bounds the labels that users choose.
func TestMetricLabels(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m, err := telemetry.NewMetrics(reg)
	runtest.WantError(t, "new metrics", err, nil)
	for i := range 5000 {
		m.Trace(api.TraceRecord{Event: api.TraceEvent{Type: api.TraceToolCallCompleted, Tool: fmt.Sprint("tool", i)}})
	}
	count, err := testutil.GatherAndCount(reg, "lash_tool_calls_total")
	runtest.WantError(t, "count", err, nil)
	runtest.Equal(t, "series of 5000 tools", count, 201)
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	mine := bustest.Open(t, b.Server)
	n, kill := b.StartNodeOn(mine)
	on, err := net.Listen("tcp", "127.0.0.1:0")
	runtest.WantError(t, "listen", err, nil)
	s := telemetry.Serve(on, prometheus.NewRegistry(), n.Ready, func() string { return "" })
	t.Cleanup(func() { s.Stop(context.Background()) }) // the test's own context has ended by then
	get := func(path string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(b.Ctx, http.MethodGet, "http://"+s.Addr()+path, nil)
		runtest.WantError(t, "request", err, nil)
		resp, err := http.DefaultTransport.RoundTrip(req)
		runtest.WantError(t, "get", err, nil)
		defer resp.Body.Close() //nolint:errcheck // read whole
		body, err := io.ReadAll(resp.Body)
		runtest.WantError(t, "read", err, nil)
		return resp.StatusCode, strings.TrimSpace(string(body))
	}
	t.Cleanup(func() { http.DefaultTransport.(*http.Transport).CloseIdleConnections() })
	status, body := get("/readyz")
	runtest.Equal(t, "ready", fmt.Sprint(status, " ", body), "200 ready")
	kill()
	status, body = get("/readyz")
	runtest.Equal(t, "after its stop", fmt.Sprint(status, " ", body), "503 "+workers.ErrStopping.Error())
	status, body = get("/healthz")
	runtest.Equal(t, "health", fmt.Sprint(status, " ", body), "200 ok")

	other, _ := b.StartNodeOn(bustest.Open(t, b.Server))
	runtest.WantError(t, "another node", other.Ready(b.Ctx), nil)
	b.Server.Stop()
	for err = other.Ready(b.Ctx); err == nil; err = other.Ready(b.Ctx) { // until its connection knows
	}
	runtest.WantError(t, "without servers", err, events.ErrOutcomeUnknown)
}
