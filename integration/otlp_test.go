package integration

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	w3c "github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
	"github.com/lash-go/lash/workers/telemetry"
)

// receiver takes what nodes export, as an OpenTelemetry collector does.
type receiver struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	spans []*otlp.Span
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{t: t}
	server := httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *receiver) take(w http.ResponseWriter, q *http.Request) {
	var export collector.ExportTraceServiceRequest
	body, err := io.ReadAll(q.Body)
	if err == nil {
		err = proto.Unmarshal(body, &export)
	}
	if err != nil || q.URL.Path != "/v1/traces" {
		r.t.Errorf("%s: got %v", q.URL.Path, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range export.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			if !strings.HasSuffix(scope.GetSchemaUrl(), "/1.41.0") {
				r.t.Errorf("schema: got %s", scope.GetSchemaUrl())
			}
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	answer, _ := proto.Marshal(&collector.ExportTraceServiceResponse{}) // has nothing in it
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(answer)
}

// exporting is what a node exports its spans with.
func (r *receiver) exporting(ctx context.Context, ratio float64) *telemetry.Spans {
	r.t.Helper()
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(r.url+"/v1/traces"))
	must(r.t, "exporter", err, nil)
	return telemetry.NewSpans(exporter, ratio)
}

// lines are the spans of a trace, one a line: kind, name, parent and attributes, sorted. named gives texts others in their place.
func (r *receiver) lines(trace string, named map[string]string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pairs []string
	for from, to := range named {
		pairs = append(pairs, from, to)
	}
	replace := strings.NewReplacer(pairs...)
	names := make(map[string]string)
	for _, s := range r.spans {
		names[hex.EncodeToString(s.GetSpanId())] = s.GetName()
	}
	var lines []string
	for _, s := range r.spans {
		if got := hex.EncodeToString(s.GetTraceId()); got != trace {
			r.t.Errorf("span %s: got trace %s, want %s", s.GetName(), got, trace)
		}
		under := hex.EncodeToString(s.GetParentSpanId())
		if names[under] != "" {
			under = names[under]
		}
		line := []string{strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_") + " " + s.GetName() + " under " + under}
		if s.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR {
			line = append(line, "error")
		}
		var attributes []string
		for _, a := range s.GetAttributes() {
			attributes = append(attributes, strings.TrimPrefix(a.GetKey(), "gen_ai.")+"="+valueOf(a.GetValue()))
		}
		slices.Sort(attributes)
		lines = append(lines, replace.Replace(strings.Join(append(line, attributes...), " ")))
	}
	slices.Sort(lines)
	return lines
}

func valueOf(v *common.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_DoubleValue:
		return fmt.Sprint(v.DoubleValue)
	case *common.AnyValue_ArrayValue:
		var list []string
		for _, e := range v.ArrayValue.GetValues() {
			list = append(list, valueOf(e))
		}
		return strings.Join(list, ",")
	}
	return fmt.Sprintf("%v", v)
}

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

// billed is a reply as a provider gives it, with names and all kinds of usage.
func billed(id string, stop events.StopReason, parts ...events.Part) step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{
			Parts: parts, Stop: stop, Model: "small-1", ID: id, Usage: events.Usage{Input: 10, Output: 5, CacheRead: 3, CacheWrite: 2, Reasoning: 1},
		}}, nil
	}
}

// TestSpansReceived has a collector take all spans of a turn with an agent, a
// try that failed, a tool and a node that is killed, of which a client has the
// trace: names, kinds, parents and attributes, and nothing that was said.
func TestSpansReceived(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	b := setupIdle(t,
		billed("r1", events.StopToolUse, text("secret"), call("k1", "spawn_agent", `{"capability":"explore","task":"secret"}`)),
		fails(llm.KindRateLimit, "slow_down"), billed("r2", events.StopEnd, text("secret")),
		billed("r3", events.StopToolUse, call("k2", "add", `{"A":1,"B":2}`), call("k3", "add", `{"A":"secret"}`)), hangs(begun), billed("r4", events.StopOutputLimit, text("secret")),
	)
	r := newReceiver(t)
	id := b.open(api.CreateRequest{Config: events.Config{
		Model: "small", MaxOutputTokens: 100, Sampling: events.Sampling{Temperature: "0.5", TopP: "0.25", Seed: "7", Stop: []string{"END"}},
	}})
	ctx := w3c.Received(b.ctx, []string{clientParent}, []string{"a=b"})
	_, err := b.Submit(ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("secret")}}})
	must(t, "submit", err, nil)
	for i := range 2 {
		spans := r.exporting(b.ctx, 1)
		b.trace = spans.Trace
		node, kill := b.nodeOn(bustest.Open(t, b.server), adding(), subagent.Factory(subagent.Config{}))
		if i == 0 {
			receive(b, "the last model call", begun)
			kill()
		} else {
			b.ended(id, "t1")
			node.Stop(b.ctx)
		}
		must(t, "stop", spans.Stop(b.ctx), nil)
	}
	agent := b.agents(id)[0].Child
	named := map[string]string{string(id): "ROOT", string(agent): "AGENT", clientSpan: "CLIENT"}
	for _, e := range b.history(agent) {
		if e.Turn != "" {
			named[string(e.Turn)] = "t2"
		}
	}
	const (
		asks  = " operation.name=chat provider.name=scripted request.max_tokens=100 request.model=small request.seed=7 request.stop_sequences=END request.temperature=0.5 request.top_p=0.25"
		bills = " response.model=small-1 usage.cache_creation.input_tokens=2 usage.cache_read.input_tokens=3 usage.input_tokens=15 usage.output_tokens=5 usage.reasoning.output_tokens=1"
		chat  = "CLIENT chat small under invoke_agent"
		root  = " conversation.id=ROOT lash.attempts=1 lash.iteration="
		tool  = " lash.turn=t1 operation.name=execute_tool tool.call.id="
		about = " tool.description=Gives a task to an agent of its own, which sees nothing of this conversation, and waits for its answer." +
			" Capabilities: explore (knows nothing but its task); peer (has your own tools, settings and plans)."
	)
	equalLists(t, "spans", r.lines(clientTrace, named), []string{
		chat + root + "0 lash.turn=t1" + asks + " response.finish_reasons=tool_calls response.id=r1" + bills,
		chat + root + "1 lash.turn=t1" + asks + " response.finish_reasons=tool_calls response.id=r3" + bills,
		chat + root + "2 lash.turn=t1" + asks + " response.finish_reasons=length response.id=r4" + bills,
		chat + " error conversation.id=ROOT error.type=cancelled lash.attempts=1 lash.iteration=2 lash.turn=t1" + asks, // its node was killed
		chat + " explore agent.name=explore conversation.id=AGENT lash.attempts=2 lash.iteration=0 lash.turn=t2" + asks + " response.finish_reasons=stop response.id=r2" + bills,
		"INTERNAL execute_tool add under invoke_agent" + root + "1" + tool + "k2 tool.name=add tool.type=function",
		"INTERNAL execute_tool add under invoke_agent error conversation.id=ROOT error.type=invalid_tool_args lash.attempts=1 lash.iteration=1" + tool + "k3 tool.name=add tool.type=function",
		"INTERNAL execute_tool spawn_agent under invoke_agent" + root + "0" + tool + "k1" + about + " tool.name=spawn_agent tool.type=function",
		"INTERNAL invoke_agent explore under execute_tool spawn_agent agent.id=AGENT agent.name=explore conversation.id=AGENT lash.attempts=1 lash.end=finished lash.turn=t2" +
			" operation.name=invoke_agent provider.name=scripted request.model=small" + strings.TrimPrefix(bills, " response.model=small-1"),
		"INTERNAL invoke_agent under CLIENT error agent.id=ROOT conversation.id=ROOT error.type=output_limit lash.attempts=2 lash.end=incomplete lash.turn=t1" +
			" operation.name=invoke_agent provider.name=scripted request.model=small usage.cache_creation.input_tokens=6 usage.cache_read.input_tokens=9" +
			" usage.input_tokens=45 usage.output_tokens=15 usage.reasoning.output_tokens=3",
	})
}

// TestSpansOfClientsChoice has a client that exports nothing of its trace, and a node that exports no turns: nothing is received.
func TestSpansOfClientsChoice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags string
		ratio float64
	}{"client": {"-00", 1}, "node": {"-01", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := setupIdle(t, reply(text("hi"))), newReceiver(t)
			spans := r.exporting(b.ctx, c.ratio)
			b.trace = spans.Trace
			b.node()
			b.ctx = w3c.Received(b.ctx, []string{strings.TrimSuffix(clientParent, "-01") + c.flags}, nil)
			b.run(b.open(api.CreateRequest{}), "t1", text("hi"))
			must(t, "stop", spans.Stop(b.ctx), nil)
			equal(t, "spans", len(r.spans), 0)
		})
	}
}

// TestTraceparent asks for turns, now and later, in each way that there is: the
// history has the client's span, and nothing where that is malformed.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	b.node()
	c, err := client.New(client.Config{Bus: bustest.Open(t, b.server)})
	must(t, "client", err, nil)
	d, later := b.door(httpapi.Config{}), time.Now().Add(time.Hour)
	under := w3c.Received(b.ctx, []string{clientParent}, []string{"a=b"})
	id := b.open(api.CreateRequest{})
	for name, s := range map[string]api.Service{"go": b.Host, "nats": c} {
		_, err := s.SubmitAt(under, id, later, asksTurn(events.TurnID(name), "hi"))
		must(t, name, err, nil)
		_, err = s.SubmitAt(b.ctx, id, later, asksTurn(events.TurnID(name+"-none"), "hi"))
		must(t, name, err, nil)
		_, err = s.SubmitAt(b.ctx, id, later, asksTurn(events.TurnID(name), "hi")) // again, under no span: the same turn
		must(t, name, err, nil)
	}
	for name, header := range map[string][]string{
		"http": {"Traceparent", clientParent, "Tracestate", "a=b"}, "http-none": nil, "http-bad-none": {"Traceparent", clientParent + "0", "Tracestate", "a=b"},
	} {
		body := fmt.Sprintf(`{"id":%q,"text":"hi","at_ms":%d}`, name, later.UnixMilli())
		d.want(http.StatusAccepted, http.MethodPost, "/v1/sessions/"+string(id)+"/turns", body, header...)
	}
	want := events.TraceParent{Parent: clientParent, State: "a=b"}
	var seen int
	for _, due := range b.state(id).Scheduled {
		seen++
		none := strings.HasSuffix(string(due.ID), "-none")
		if none && !due.Trace.IsZero() || !none && due.Trace != want {
			t.Errorf("%s: got %v", due.ID, due.Trace)
		}
	}
	equal(t, "turns", seen, 7)
}
