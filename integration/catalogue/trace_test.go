package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

func traceEntries() []entry {
	return []entry{
		{"D06", "broken trace sink does not affect the turn", "a trace sink that panics, one that fails, one that hangs", "turn", "unaffected; what is lost is counted", testTraceFails},
		{"D07", "each call is traced once", "tool calls that run, fail, are refused, wait, nest, are lost and cancelled", "traced, over a takeover", "one start and one completion each", testTraceTools},
		{"D08", "trace of a plugin has its id", "plugins that emit a trace n", "traced", "custom, plugin.<id>.n", testTraceCustom},
	}
}

// traced collects the traces of nodes from then on, up to the end of a turn. A node reports that shortly after the
// commit.
func traced(b *harness.System, also session.TraceFunc) func() []api.TraceRecord {
	var mu sync.Mutex
	var list []api.TraceRecord
	ended := make(chan struct{})
	b.TraceTo = func(r api.TraceRecord) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, r)
		if also != nil {
			also(r)
		}
		if r.Event.Type == api.TraceTurnCompleted {
			close(ended)
		}
	}
	return func() []api.TraceRecord {
		b.T.Helper()
		b.Wait("trace of the turn's end", ended)
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(list)
	}
}

// tracing is a plugin that traces at every point.
func tracing(id string) plugin.Factory {
	trace := func(name string) []plugin.Directive {
		return []plugin.Directive{plugin.Trace(name, json.RawMessage(`{"n":1}`))}
	}
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return trace("before_turn"), nil
		})
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
			return trace("before_call"), nil
		})
		r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
			return trace("after_call"), nil
		})
		r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
			return trace(string(in.At)), nil
		})
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			return trace("after_turn"), nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "tell"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			return "ok", errors.Join(
				c.Host.EmitTrace(ctx, api.TraceContext{}, api.TraceEvent{Name: "told", Payload: json.RawMessage(`[1]`)}),
				c.Host.EmitTrace(ctx, api.TraceContext{}, api.TraceEvent{Name: "broken", Payload: json.RawMessage(`{`)}),
			)
		})
	})
}

// TestTraceFile reads the lines of a turn whose plugin traces.
func TestTraceFile(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Fail(llm.KindServer, ""), harness.Reply(harness.Call("k", "tell", "{}")), harness.Reply(harness.Text("secret done")))
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	file, err := workers.OpenTraceFile(path, zaptest.NewLogger(t))
	runtest.WantError(t, "open", err, nil)
	traced := traced(b, file.Trace)
	b.StartNode(tracing("p"))
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.RunTurn(id, "t1", harness.Text("secret hello"))
	traced()
	runtest.WantError(t, "close", file.Close(b.Ctx), nil)
	data, err := os.ReadFile(path)
	runtest.WantError(t, "read", err, nil)
	if strings.Contains(string(data), "secret") {
		t.Error("trace: got texts of the conversation, want none")
	}
	var got []string
	ids := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		var r api.TraceRecord
		runtest.WantError(t, "line", json.Unmarshal([]byte(line), &r), nil)
		runtest.Equal(t, "schema", r.Schema, api.TraceSchema)
		runtest.Equal(t, "session", r.Context.Session, id)
		runtest.Equal(t, "metadata", len(r.Context.Metadata["worker"]) > 0 && r.At > 0 && !ids[r.ID], true)
		ids[r.ID] = true
		if r.Event.Type != api.TraceSessionStarted {
			runtest.Equal(t, "turn of "+string(r.Event.Type), r.Context.Turn, "t1")
			runtest.Equal(t, "index of "+string(r.Event.Type), r.Context.TurnIndex, 1)
		}
		words := []string{string(r.Event.Type)}
		for _, w := range []string{r.Event.Name, string(r.Event.Payload), r.Event.Tool, r.Event.Model, r.Event.Status, string(r.Context.Effect)} {
			if w != "" {
				words = append(words, w)
			}
		}
		got = append(got, strings.Join(words, " "))
	}
	for _, line := range []string{
		"session_started", "turn_started", `custom plugin.p.before_turn {"n":1} t1/0/before_turn`, "prompt_built t1/0/model",
		"llm_call_started small t1/0/model", "llm_call_completed small t1/0/model", "token_usage small t1/0/model",
		"tool_call_started tell t1/0/0", `custom plugin.p.before_call {"n":1} t1/0/0`, `custom told [1] t1/0/0`, `custom broken "{" t1/0/0`,
		`custom plugin.p.after_call {"n":1} t1/0/0`, "tool_call_completed tell t1/0/0", `custom plugin.p.after_work {"n":1} t1/1/checkpoint/after_work`,
		"prompt_built t1/1/model", "llm_call_started small t1/1/model", "llm_call_completed small t1/1/model", "token_usage small t1/1/model",
		`custom plugin.p.before_completion {"n":1} t1/2/checkpoint/before_completion`, `custom plugin.p.after_turn {"n":1} t1/2/after_turn/end`,
		"turn_completed small finished",
	} {
		at := slices.Index(got, line)
		if at < 0 {
			t.Errorf("trace: got no line %q", line)
			continue
		}
		got = slices.Delete(got, at, at+1)
	}
	runtest.EqualLists(t, "more lines", got, []string{})
}

func testTraceFails(t *testing.T) {
	turn := func(trace session.TraceFunc) {
		b := harness.StartIdle(t, harness.Reply(harness.Call("k", "tell", "{}")), harness.Reply(harness.Text("done")))
		b.TraceTo = trace
		b.StartNode(tracing("p"))
		id := b.Open(api.CreateRequest{})
		r := b.RunTurn(id, "t1", harness.Text("hello"))
		runtest.Equal(t, "end", r.End, events.EndFinished)
		runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant k:tell{}", "user k=ok", "assistant done"})
		runtest.Equal(t, "result", harness.Find[*events.ToolReturned](b, id)[0].Results[0].Outcome, events.OutcomeSuccess)
	}
	turn(func(api.TraceRecord) { panic("no trace") })

	failing := workers.NewTraceFile(writer(func([]byte) (int, error) { return 0, harness.ErrPlugin }), zaptest.NewLogger(t))
	turn(failing.Trace)
	runtest.WantError(t, "close", failing.Close(t.Context()), nil)
	runtest.Equal(t, "lines lost", failing.Lost() > 10, true)

	release := make(chan struct{})
	hanging := workers.NewTraceFile(writer(func(p []byte) (int, error) { <-release; return len(p), nil }), zaptest.NewLogger(t))
	turn(hanging.Trace)
	close(release)
	runtest.WantError(t, "close", hanging.Close(t.Context()), nil)
}

// writer writes with a function.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// pairs renders the calls of a trace: the reports of each, in order.
func pairs(list []api.TraceRecord) map[string][]string {
	calls := make(map[string][]string)
	for i := range list {
		e := &list[i].Event
		key := fmt.Sprintf("%s %s", e.Tool, list[i].Context.Effect)
		switch e.Type {
		case api.TraceToolCallStarted:
			calls[key] = append(calls[key], "started")
		case api.TraceToolCallCompleted:
			calls[key] = append(calls[key], strings.TrimSpace("completed "+string(e.Outcome)+" "+e.Code))
		default:
		}
	}
	return calls
}

func testTraceTools(t *testing.T) {
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("a", "add", "{}"), harness.Call("b", "missing", "{}"), harness.Call("c", "denied", "{}"), harness.Call("d", "outer", "{}"), harness.Call("e", "asked", "{}")),
		harness.Reply(harness.Call("a", "slow", "{}"), harness.Call("b", "again", "{}")),
		harness.Reply(harness.Call("a", "waits", "{}")))
	list := traced(b, nil)
	started := make(chan struct{}, 4)
	var again atomic.Int64
	hang := func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
		if c.Effect == "t1/1/1" && again.Add(1) == 2 {
			return "again", nil
		}
		started <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}
	factory := harness.PluginOf("tools", func(r *plugin.Registrar) {
		harness.NamedTools(r, "add", "denied", "asked")
		harness.OuterTool(r, plugin.NestedCall{Tool: "add"}, plugin.NestedCall{Tool: "denied"})
		plugin.AddTool(r, plugin.Tool{Name: "slow"}, hang)
		plugin.AddTool(r, plugin.Tool{Name: "again", Effects: events.EffectsIdempotent}, hang)
		plugin.AddTool(r, plugin.Tool{Name: "waits"}, hang)
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			switch in.Tool {
			case "denied":
				return []plugin.Directive{plugin.Abort("no", "not this one")}, nil
			case "asked":
				return []plugin.Directive{plugin.Ask("really?")}, nil
			}
			return nil, nil
		})
	})
	_, kill := b.StartNodeOn(bustest.Open(t, b.Server), factory)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.AwaitState(id, "question", harness.HasAsk)
	runtest.WantError(t, "approve", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "t1/0/4", Granted: true}), nil)
	harness.Receive(b, "the start", started)
	harness.Receive(b, "the start", started)
	kill()
	b.StartNode(factory)
	b.AwaitState(id, "last call", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Iteration == 2 && s.Turn().Replied })
	harness.Receive(b, "the start", started)
	b.CancelTurn(id, "t1", api.CancelRequest{}, api.CancelRequested)
	b.AwaitTurn(id, "t1")
	want := map[string][]string{
		"add t1/0/0": {"started", "completed"}, "missing t1/0/1": {"started", "completed failure " + plugin.CodeUnavailable},
		"denied t1/0/2": {"started", "completed failure no"}, "outer t1/0/3": {"started", "completed"},
		"add t1/0/3/0": {"started", "completed"}, "denied t1/0/3/1": {"started", "completed failure no"}, "asked t1/0/4": {"started", "completed"},
		"slow t1/1/0": {"started", "completed lost"}, "again t1/1/1": {"started", "completed"}, "waits t1/2/0": {"started", "completed cancelled"},
	}
	got := pairs(list())
	runtest.Equal(t, "calls", len(got), len(want))
	for key, notification := range want {
		runtest.EqualLists(t, "told of "+key, got[key], notification)
	}
}

func testTraceCustom(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("A title")), harness.Reply(harness.Text("done")))
	list := traced(b, nil)
	b.StartNode(harness.PluginOf("p", func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Trace("n", json.RawMessage(`{"a":1}`)), plugin.Trace("m", nil)}, nil
		})
	}), harness.PluginOf("q", func(r *plugin.Registrar) {
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Trace("n", nil)}, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	_, err := b.Worker().RuntimeHost(id, nil, "").Complete(b.Ctx, harness.CompletionOf("a title?"), "title")
	runtest.WantError(t, "complete", err, nil)
	b.RunTurn(id, "t1", harness.Text("hello"))
	var got []string
	direct := 0
	for _, r := range list() {
		if r.Event.Type == api.TraceCustom {
			got = append(got, r.Event.Name+" "+string(r.Event.Payload))
		}
		if r.Event.Source == "title" {
			direct++
		}
	}
	runtest.EqualLists(t, "custom", got, []string{`plugin.p.n {"a":1}`, "plugin.p.m ", "plugin.q.n "})
	runtest.Equal(t, "lines of the direct completion", direct, 3)
}

// TestTraceContext gives traces a context: where it leaves something out, that of the caller counts.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "tell", "{}")), harness.Reply(harness.Text("done")))
	list := traced(b, nil)
	b.StartNode(harness.PluginOf("p", func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.TraceIn(api.TraceContext{ModelCall: "m", Metadata: map[string]string{"k": "v", "worker": "w"}}, "n", nil)}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "tell"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			return "ok", errors.Join(
				c.Host.EmitTrace(ctx, api.TraceContext{Origin: "o", Agent: "a", Metadata: map[string]string{"run": "r7"}}, api.TraceEvent{Type: api.TraceProtocolStep, Tool: "step"}),
				c.Host.EmitTrace(ctx, api.TraceContext{Session: "elsewhere", Effect: "x"}, api.TraceEvent{Name: "far"}),
				c.Host.EmitTrace(ctx, api.TraceContext{Turn: "before"}, api.TraceEvent{Name: "earlier"}),
			)
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hello"))
	got := make(map[string]api.TraceContext)
	for _, r := range list() {
		if r.Event.Type == api.TraceCustom || r.Event.Type == api.TraceProtocolStep {
			got[r.Event.Name+r.Event.Tool] = r.Context
		}
	}
	worker := got["far"].Metadata["worker"]
	runtest.Equal(t, "the node names its worker", worker != "", true)
	for name, want := range map[string]api.TraceContext{
		"plugin.p.n": {Session: id, Turn: "t1", TurnIndex: 1, Iteration: new(int64(0)), Effect: "t1/0/before_turn", ModelCall: "m", Metadata: map[string]string{"worker": worker, "plugin.p.k": "v", "plugin.p.worker": "w"}},
		"step":       {Session: id, Turn: "t1", TurnIndex: 1, Iteration: new(int64(0)), Effect: "t1/0/0", Origin: "o", Agent: "a", Metadata: map[string]string{"worker": worker, "run": "r7"}},
		"far":        {Session: "elsewhere", Effect: "x", Metadata: map[string]string{"worker": worker}},
		"earlier":    {Session: id, Turn: "before", Metadata: map[string]string{"worker": worker}},
	} {
		have := got[name]
		have.Client = events.TraceParent{}
		runtest.DeepEqual(t, "context of "+name, have, want)
	}
}

// TestTraceCode reports a program as a step of the protocol, and its calls as calls.
func TestTraceCode(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("x = add(a=1, b=2)\nonce()\nbroken()"), harness.Reply(harness.Text("done")))
	list := traced(b, nil)
	b.AddCodeTools()
	b.StartCodeNode(b.Bus)
	id := b.Open(harness.CodeSession())
	b.RunTurn(id, "t1", harness.Text("go"))
	var steps []string
	for _, r := range list() {
		if r.Event.Type == api.TraceProtocolStep {
			steps = append(steps, strings.TrimSpace(string(r.Context.Effect)+" "+string(r.Event.Outcome)))
		}
		if r.Event.Tool != "" {
			runtest.Equal(t, "origin of a call", r.Context.Origin, "t1/0/0")
		}
	}
	runtest.EqualLists(t, "steps", steps, []string{"t1/0/0 failure"})
	got := pairs(list())
	runtest.Equal(t, "calls", len(got), 3)
	runtest.EqualLists(t, "add", got["add t1/0/0/0"], []string{"started", "completed"})
	runtest.EqualLists(t, "once", got["once t1/0/0/1"], []string{"started", "completed"})
	runtest.EqualLists(t, "broken", got["broken t1/0/0/2"], []string{"started", "completed failure"})
}
