package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// oneCall runs a turn that calls each tool once, in order, and gives the results as recorded.
func oneCall(t *testing.T, b *bundle, tools ...string) []events.ToolResult {
	t.Helper()
	var calls []events.Part
	for _, name := range tools {
		calls = append(calls, call("k", name, "{}"))
	}
	b.model.script = []step{reply(calls...), reply(text("done"))}
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	results := make([]events.ToolResult, len(tools))
	for _, p := range find[*events.ToolReturned](b, id) {
		for _, r := range p.Results {
			r.Millis = 0
			results[r.Call] = r
		}
	}
	return results
}

// failing registers a tool that fails with f until it was tried enough times.
func failing(b *bundle, name string, retry plugin.Retry, f *plugin.Failure, times int64) *atomic.Int64 {
	tries := new(atomic.Int64)
	plugin.AddTool(b.tools, plugin.Tool{Name: name, Retry: retry}, func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
		if n := tries.Add(1); int64(c.Attempt) != n {
			b.t.Errorf("attempt: got %d, want %d", c.Attempt, n)
		}
		if tries.Load() <= times {
			return "", f
		}
		return "at last", nil
	})
	return tries
}

// TestDispatchRetry tries again what says that this is safe (host specification 6.7, X16 to X18).
func TestDispatchRetry(t *testing.T) {
	t.Parallel()
	safe := &plugin.Failure{Class: plugin.ClassExternal, Code: "busy", Message: "busy", Safe: true}
	unsafe := &plugin.Failure{Class: plugin.ClassExternal, Code: "broken", Message: "broken"}
	three := plugin.Retry{Attempts: 3, Base: time.Millisecond}
	tests := []struct {
		name     string
		retry    plugin.Retry
		failure  *plugin.Failure
		times    int64
		attempts int64 // as recorded: 0 means one
		outcome  events.Outcome
		text     string
	}{
		{"succeeds_on_the_third", three, safe, 2, 3, events.OutcomeSuccess, "at last"},
		{"exhausted", three, safe, 9, 3, events.OutcomeFailure, "[failed] busy"},
		{"not_safe", three, unsafe, 9, 0, events.OutcomeFailure, "[failed] broken"},
		{"never", plugin.Retry{}, safe, 9, 0, events.OutcomeFailure, "[failed] busy"},
		{"asked_to_wait", plugin.Retry{Attempts: 2, Base: time.Hour}, &plugin.Failure{Class: plugin.ClassExternal, Message: "busy", Safe: true, After: time.Millisecond}, 1, 2, events.OutcomeSuccess, "at last"},
		{"capped", plugin.Retry{Attempts: 2, Base: time.Hour, Max: time.Millisecond}, safe, 1, 2, events.OutcomeSuccess, "at last"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t)
			tries := failing(b, "shaky", tt.retry, tt.failure, tt.times)
			got := oneCall(t, b, "shaky")[0]
			equal(t, "attempts", got.Attempts, tt.attempts)
			equal(t, "tries", tries.Load(), max(tt.attempts, 1))
			equal(t, "outcome", got.Outcome, tt.outcome)
			equal(t, "text", got.Text, tt.text)
			if tt.outcome == events.OutcomeFailure {
				equal(t, "code", got.Code, tt.failure.Code)
				equal(t, "class", got.Class, tt.failure.Class)
			}
		})
	}
}

// TestDispatchKey gives every attempt of a call the same key, and every call its own.
func TestDispatchKey(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	keys := make(chan string, 8)
	plugin.AddTool(b.tools, plugin.Tool{Name: "shaky", Effects: events.EffectsIdempotent, Retry: plugin.Retry{Attempts: 2}},
		func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
			keys <- c.Key
			return "", &plugin.Failure{Message: "busy", Safe: true}
		})
	oneCall(t, b, "shaky", "shaky")
	close(keys)
	count := make(map[string]int)
	for k := range keys {
		count[k]++
	}
	equal(t, "keys", len(count), 2)
	for k, n := range count {
		equal(t, "attempts with "+k, n, 2)
	}
}

// TestDispatchFailures lets a tool fail in every way; the calls beside it do not notice.
func TestDispatchFailures(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	register := func(tool plugin.Tool, run func(context.Context) (string, error)) {
		plugin.AddTool(b.tools, tool, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) { return run(ctx) })
	}
	register(plugin.Tool{Name: "fine"}, func(context.Context) (string, error) { return "fine", nil })
	register(plugin.Tool{Name: "panics"}, func(context.Context) (string, error) { panic("ouch") })
	register(plugin.Tool{Name: "slow", Timeout: time.Millisecond}, func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	register(plugin.Tool{Name: "plain"}, func(context.Context) (string, error) { return "", errors.New("no luck") })
	register(plugin.Tool{Name: "denied"}, func(context.Context) (string, error) {
		return "", fmt.Errorf("reading: %w", &plugin.Failure{Class: plugin.ClassPermissionDenied, Code: "eperm", Message: "denied"})
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "picky"}, func(context.Context, plugin.Call, struct{ N int }) (string, error) {
		t.Error("picky: ran, want it refused")
		return "", nil
	})
	got := oneCall(t, b, "panics", "slow", "plain", "denied", "picky", "missing", "fine")
	want := []struct{ class, code, text string }{
		{plugin.ClassInternal, plugin.CodeTaskFailed, "ouch"},
		{plugin.ClassTimeout, "tool_timeout", "deadline"},
		{plugin.ClassExecution, "", "no luck"},
		{plugin.ClassPermissionDenied, "eperm", "denied"},
		{plugin.ClassInvalidRequest, plugin.CodeInvalidArgs, "required"},
		{plugin.ClassUnavailable, plugin.CodeUnavailable, "missing"},
	}
	for i, w := range want {
		equal(t, "outcome of "+w.text, got[i].Outcome, events.OutcomeFailure)
		equal(t, "class of "+w.text, got[i].Class, w.class)
		equal(t, "code of "+w.text, got[i].Code, w.code)
		if !strings.HasPrefix(got[i].Text, "[failed] ") || !strings.Contains(got[i].Text, w.text) {
			t.Errorf("text: got %q, want %q in it", got[i].Text, w.text)
		}
	}
	equal(t, "text of the call beside them", got[6].Text, "fine")
	equalLists(t, "results in the prompt", resultIDs(b.model.asked()[1].Messages[2]), []string{"panics", "slow", "plain", "denied", "picky", "missing", "fine"})
}

func resultIDs(m events.Message) []string {
	var names []string
	for _, p := range m.Parts {
		names = append(names, p.Tool)
	}
	return names
}

// TestDispatchUnavailable refuses a tool that the session's catalogue has switched off.
func TestDispatchUnavailable(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("hi")), reply(call("k", "off", "{}")), reply(text("done")))
	plugin.AddTool(b.tools, plugin.Tool{Name: "off"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		t.Error("off: ran, want it refused")
		return "", nil
	})
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("hello"))
	tools := find[*events.ToolStateApplied](b, id)[0].Tools
	tools[0].Override = events.Overridden(events.AvailSearchable)
	b.commitWith(id, &events.ToolStateApplied{Generation: 2, Tools: tools})
	b.run(id, "t2", text("again"))
	equal(t, "tools offered", len(b.model.asked()[1].Tools), 0)
	got := find[*events.ToolReturned](b, id)[0].Results[0]
	equal(t, "code", got.Code, plugin.CodeUnavailable)
	equal(t, "calls written down", len(find[*events.ToolCalled](b, id)), 0)
}

// testCallOrder finishes parallel calls in reverse; results stand in call order.
func testCallOrder(t *testing.T) {
	b := setupIdle(t)
	names := []string{"a", "b", "c"}
	turns := make([]chan struct{}, len(names)+1)
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	close(turns[len(names)])
	for i, name := range names {
		plugin.AddTool(b.tools, plugin.Tool{Name: name, Effects: events.EffectsNone}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
			select {
			case <-turns[i+1]:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			defer close(turns[i])
			return "result of " + name, nil
		})
	}
	oneCall(t, b, names...)
	equal(t, "results", b.model.prompt(1)[2], "user k=result of a k=result of b k=result of c")
}

// TestDispatchText records text that any reader can decode.
func TestDispatchText(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	raw := func(s string, err error) plugin.Handler {
		return func(context.Context, plugin.Call, json.RawMessage) (plugin.Result, error) {
			return plugin.Result{Text: s}, err
		}
	}
	must(t, "add", errors.Join(b.tools.Add(plugin.Tool{Name: "bytes"}, raw("a\xffb", nil)),
		b.tools.Add(plugin.Tool{Name: "fails"}, raw("", errors.New("c\xfe")))), nil)
	got := oneCall(t, b, "bytes", "fails")
	equal(t, "text", got[0].Text, "a\uFFFDb")
	equal(t, "failure", got[1].Text, "[failed] c\uFFFD")
}

// TestDispatchLarge keeps large outputs outside the history and gives the model the whole.
func TestDispatchLarge(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	large := strings.Repeat("0123456789abcdef", 300<<10/16)
	plugin.AddTool(b.tools, plugin.Tool{Name: "large"}, func(context.Context, plugin.Call, struct{}) (string, error) { return large, nil })
	got := oneCall(t, b, "large", "large")
	for _, r := range got {
		equal(t, "inline text", len(r.Text), 0)
		body, err := b.bus.Blob(b.ctx, r.Blob)
		must(t, "blob", err, nil)
		equal(t, "blob is the output", string(body) == large, true)
	}
	for _, p := range b.model.asked()[1].Messages[2].Parts {
		equal(t, "the model sees the output", p.Text == large, true)
	}
}

// TestLargeInput runs a turn on 1.5 MiB of text.
func TestLargeInput(t *testing.T) {
	t.Parallel()
	b := setup(t, reply(text("long")), reply(text("longer")))
	large := strings.Repeat("0123456789abcdef", 3<<19/16)
	id := b.open(api.CreateRequest{})
	equal(t, "text", b.run(id, "t1", text(large)).Text, "long")
	equal(t, "the model sees the input", b.model.asked()[0].Messages[0].Parts[0].Text == large, true)
	parts := make([]events.Part, 24) // each fits an event, together they do not
	for i := range parts {
		parts[i] = text(large[:60<<10])
	}
	equal(t, "text", b.run(id, "t2", parts...).Text, "longer")
	for i, p := range b.model.asked()[1].Messages[2].Parts {
		equal(t, fmt.Sprintf("the model sees part %d", i), p.Text == large[:60<<10], true)
	}
	equal(t, "again", b.run(id, "t1", text(large)).Text, "long") // the same content is the same turn
}
