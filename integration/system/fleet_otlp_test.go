package system

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

	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	w3c "github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
	"github.com/lash-go/lash/workers/telemetry"
)

// receiver receives the exports of nodes, as an OpenTelemetry collector does.
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
	var export otlp.TracesData // has the bytes of an ExportTraceServiceRequest
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
	w.Header().Set("Content-Type", "application/x-protobuf") // of an ExportTraceServiceResponse with nothing in it
}

// exporting is the tracer provider of a node.
func (r *receiver) exporting(ratio float64) *telemetry.Spans {
	return telemetry.NewSpans(telemetry.NewOTLP(r.url+"/v1/traces", nil), ratio)
}

// lines lists the spans of a trace, one a line: kind, name, parent and attributes, sorted. named replaces texts by
// others.
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
			value := valueOf(a.GetValue())
			if seconds := a.GetValue().GetDoubleValue(); a.GetKey() == "gen_ai.response.time_to_first_chunk" && seconds >= 0 {
				value = "SOME"
			}
			attributes = append(attributes, strings.TrimPrefix(a.GetKey(), "gen_ai.")+"="+value)
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

// billed is a reply with the names and all kinds of usage that a provider sends.
func billed(id string, stop events.StopReason, parts ...events.Part) harness.Step {
	return func(context.Context, llm.Request) (scripted.Answer, error) {
		return scripted.Answer{Response: llm.Response{
			Parts: parts, Stop: stop, Model: "small-1", ID: id, Usage: events.Usage{Input: 10, Output: 5, CacheRead: 3, CacheWrite: 2, Reasoning: 1},
		}}, nil
	}
}

// TestSpansReceived has a collector receive all spans of a turn with an agent, a failed attempt, a tool and a node
// that is killed, in the trace of a client: names, kinds, parents and attributes, and no content.
func TestSpansReceived(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	b := harness.StartIdle(t,
		billed("r1", events.StopToolUse, harness.Text("secret"), harness.Call("k1", "spawn_agent", `{"capability":"explore","task":"secret"}`)),
		harness.Fail(llm.KindRateLimit, "slow_down"), billed("r2", events.StopEnd, harness.Text("secret")),
		billed("r3", events.StopToolUse, harness.Call("k2", "add", `{"A":1,"B":2}`), harness.Call("k3", "add", `{"A":"secret"}`)), harness.Hang(running), billed("r4", events.StopOutputLimit, harness.Text("secret")),
	)
	r := newReceiver(t)
	id := b.Open(api.CreateRequest{Config: events.Config{
		Model: "small", MaxOutputTokens: 100, Sampling: events.Sampling{Temperature: "0.5", TopP: "0.25", Seed: "7", Stop: []string{"END"}},
	}})
	ctx := w3c.Received(b.Ctx, []string{clientParent}, []string{"a=b"})
	_, err := b.Submit(ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("secret")}}})
	runtest.WantError(t, "submit", err, nil)
	for i := range 2 {
		spans := r.exporting(1)
		b.TraceTo = spans.Trace
		node, kill := b.StartNodeOn(bustest.Open(t, b.Server), adding(), subagent.Factory(subagent.Config{}))
		if i == 0 {
			harness.Receive(b, "the last model call", running)
			kill()
		} else {
			b.AwaitTurn(id, "t1")
			node.Stop(b.Ctx)
		}
		runtest.WantError(t, "stop", spans.Stop(b.Ctx), nil)
	}
	wantGuide(t, r.spans)
	agent := b.Subagents(id)[0].Child
	named := map[string]string{string(id): "ROOT", string(agent): "AGENT", clientSpan: "CLIENT"}
	for _, e := range b.History(agent) {
		if e.Turn != "" {
			named[string(e.Turn)] = "t2"
		}
	}
	const (
		prompt = " operation.name=chat provider.name=scripted request.max_tokens=100 request.model=small request.seed=7 request.stop_sequences=END request.temperature=0.5 request.top_p=0.25"
		model1 = " response.model=small-1"
		first  = model1 + " response.time_to_first_chunk=SOME" // of replies with text
		usage  = " usage.cache_creation.input_tokens=2 usage.cache_read.input_tokens=3 usage.input_tokens=15 usage.output_tokens=5 usage.reasoning.output_tokens=1"
		chat   = "CLIENT chat small under invoke_agent"
		root   = " conversation.id=ROOT lash.attempts=1 lash.iteration="
		tool   = " lash.turn=t1 operation.name=execute_tool tool.call.id="
		about  = " tool.description=Gives a task to an agent of its own, which sees nothing of this conversation, and waits for its answer." +
			" Capabilities: explore (knows nothing but its task); peer (has your own tools, settings and plans)."
	)
	runtest.EqualLists(t, "spans", r.lines(clientTrace, named), []string{
		chat + root + "0 lash.turn=t1" + prompt + " response.finish_reasons=tool_calls response.id=r1" + first + usage,
		chat + root + "1 lash.turn=t1" + prompt + " response.finish_reasons=tool_calls response.id=r3" + model1 + usage,
		chat + root + "2 lash.turn=t1" + prompt + " response.finish_reasons=length response.id=r4" + first + usage,
		chat + " error conversation.id=ROOT error.type=cancelled lash.attempts=1 lash.iteration=2 lash.turn=t1" + prompt, // its node was killed
		chat + " explore agent.name=explore conversation.id=AGENT lash.attempts=2 lash.iteration=0 lash.turn=t2" + prompt + " response.finish_reasons=stop response.id=r2" + first + usage,
		"INTERNAL execute_tool add under invoke_agent" + root + "1" + tool + "k2 tool.name=add tool.type=function",
		"INTERNAL execute_tool add under invoke_agent error conversation.id=ROOT error.type=invalid_tool_args lash.attempts=1 lash.iteration=1" + tool + "k3 tool.name=add tool.type=function",
		"INTERNAL execute_tool spawn_agent under invoke_agent" + root + "0" + tool + "k1" + about + " tool.name=spawn_agent tool.type=function",
		"INTERNAL invoke_agent explore under execute_tool spawn_agent agent.id=AGENT agent.name=explore conversation.id=AGENT lash.attempts=1 lash.end=finished lash.turn=t2" +
			" operation.name=invoke_agent provider.name=scripted request.model=small" + usage,
		"INTERNAL invoke_agent under CLIENT error agent.id=ROOT conversation.id=ROOT error.type=output_limit lash.attempts=3 lash.end=incomplete lash.turn=t1" +
			" operation.name=invoke_agent provider.name=scripted request.model=small usage.cache_creation.input_tokens=6 usage.cache_read.input_tokens=9" +
			" usage.input_tokens=45 usage.output_tokens=15 usage.reasoning.output_tokens=3",
	})
}

// TestSpansOfClientsChoice has a client that exports no spans of its trace, and a node that exports no turns: the
// collector receives nothing.
func TestSpansOfClientsChoice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		flags string
		ratio float64
	}{"client": {"-00", 1}, "node": {"-01", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, r := harness.StartIdle(t, harness.Reply(harness.Text("hi"))), newReceiver(t)
			spans := r.exporting(c.ratio)
			b.TraceTo = spans.Trace
			b.StartNode()
			b.Ctx = w3c.Received(b.Ctx, []string{strings.TrimSuffix(clientParent, "-01") + c.flags}, nil)
			b.RunTurn(b.Open(api.CreateRequest{}), "t1", harness.Text("hi"))
			runtest.WantError(t, "stop", spans.Stop(b.Ctx), nil)
			runtest.Equal(t, "spans", len(r.spans), 0)
		})
	}
}

// TestTraceparent submits turns, now and later, over every API: the history has the client's span, and none where
// the header is malformed.
func TestTraceparent(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.StartNode()
	c, err := client.New(client.Config{Bus: bustest.Open(t, b.Server)})
	runtest.WantError(t, "client", err, nil)
	d, later := b.ServeHTTP(httpapi.Config{}), time.Now().Add(time.Hour)
	under := w3c.Received(b.Ctx, []string{clientParent}, []string{"a=b"})
	id := b.Open(api.CreateRequest{})
	for name, s := range map[string]api.Service{"go": b.Host, "nats": c} {
		_, err := s.SubmitAt(under, id, later, harness.TurnRequest(events.TurnID(name), "hi"))
		runtest.WantError(t, name, err, nil)
		_, err = s.SubmitAt(b.Ctx, id, later, harness.TurnRequest(events.TurnID(name+"-none"), "hi"))
		runtest.WantError(t, name, err, nil)
		_, err = s.SubmitAt(b.Ctx, id, later, harness.TurnRequest(events.TurnID(name), "hi")) // again, under no span: the same turn
		runtest.WantError(t, name, err, nil)
	}
	for name, header := range map[string][]string{
		"http": {"Traceparent", clientParent, "Tracestate", "a=b"}, "http-none": nil, "http-bad-none": {"Traceparent", clientParent + "0", "Tracestate", "a=b"},
	} {
		body := fmt.Sprintf(`{"id":%q,"text":"hi","at_ms":%d}`, name, later.UnixMilli())
		d.Want(http.StatusAccepted, http.MethodPost, "/v1/sessions/"+string(id)+"/turns", body, header...)
	}
	want := events.TraceParent{Parent: clientParent, State: "a=b"}
	var seen int
	for _, due := range b.StateOf(id).Scheduled {
		seen++
		none := strings.HasSuffix(string(due.ID), "-none")
		if none && !due.Trace.IsZero() || !none && due.Trace != want {
			t.Errorf("%s: got %v", due.ID, due.Trace)
		}
	}
	runtest.Equal(t, "turns", seen, 7)
}
