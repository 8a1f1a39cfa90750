package catalogue

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// failing registers a tool that fails with f that many times, and then succeeds.
func failing(b *harness.System, name string, retry plugin.Retry, f *plugin.Failure, times int64) *atomic.Int64 {
	tries := new(atomic.Int64)
	plugin.AddTool(b.Tools, plugin.Tool{Name: name, Retry: retry}, func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
		if n := tries.Add(1); int64(c.Attempt) != n {
			b.T.Errorf("attempt: got %d, want %d", c.Attempt, n)
		}
		if tries.Load() <= times {
			return "", f
		}
		return "at last", nil
	})
	return tries
}

// TestDispatchRetry has calls that fail. A failure that is marked safe is tried again, up to the attempts of the tool.
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
			b := harness.StartIdle(t)
			tries := failing(b, "shaky", tt.retry, tt.failure, tt.times)
			got := harness.CallEach(t, b, "shaky")[0]
			runtest.Equal(t, "attempts", got.Attempts, tt.attempts)
			runtest.Equal(t, "tries", tries.Load(), max(tt.attempts, 1))
			runtest.Equal(t, "outcome", got.Outcome, tt.outcome)
			runtest.Equal(t, "text", got.Text, tt.text)
			if tt.outcome == events.OutcomeFailure {
				runtest.Equal(t, "code", got.Code, tt.failure.Code)
				runtest.Equal(t, "class", got.Class, tt.failure.Class)
			}
		})
	}
}

// TestDispatchServersFail: what the servers fail a tool runs again where it may run twice, and is the tool's failure elsewhere.
func TestDispatchServersFail(t *testing.T) {
	t.Parallel()
	for effects, tries := range map[events.Effects]int64{events.EffectsNone: 3, events.EffectsIdempotent: 3, events.EffectsNonIdempotent: 1} {
		t.Run("effects_"+string(effects), func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t)
			var ran atomic.Int64
			plugin.AddTool(b.Tools, plugin.Tool{Name: "shaky", Effects: effects}, func(context.Context, plugin.Call, struct{}) (string, error) {
				if ran.Add(1) < 3 {
					return "", fmt.Errorf("read: %w", events.ErrOutcomeUnknown)
				}
				return "at last", nil
			})
			got := harness.CallEach(t, b, "shaky")[0]
			runtest.Equal(t, "success", got.Outcome == events.OutcomeSuccess, tries == 3)
			runtest.Equal(t, "tries", ran.Load(), tries)
		})
	}
}

// TestDispatchKey gives every attempt of a call the same key, and every call its own.
func TestDispatchKey(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	keys := make(chan string, 8)
	plugin.AddTool(b.Tools, plugin.Tool{Name: "shaky", Effects: events.EffectsIdempotent, Retry: plugin.Retry{Attempts: 2}},
		func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
			keys <- c.Key
			return "", &plugin.Failure{Message: "busy", Safe: true}
		})
	harness.CallEach(t, b, "shaky", "shaky")
	close(keys)
	count := make(map[string]int)
	for k := range keys {
		count[k]++
	}
	runtest.Equal(t, "keys", len(count), 2)
	for k, n := range count {
		runtest.Equal(t, "attempts with "+k, n, 2)
	}
}

// TestDispatchFailures has a tool fail in every way. The calls of the same turn beside it are unaffected.
func TestDispatchFailures(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	register := func(tool plugin.Tool, run func(context.Context) (string, error)) {
		plugin.AddTool(b.Tools, tool, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) { return run(ctx) })
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
	plugin.AddTool(b.Tools, plugin.Tool{Name: "picky"}, func(context.Context, plugin.Call, struct{ N int }) (string, error) {
		t.Error("picky: ran, want it refused")
		return "", nil
	})
	got := harness.CallEach(t, b, "panics", "slow", "plain", "denied", "picky", "missing", "fine")
	want := []struct{ class, code, text string }{
		{plugin.ClassInternal, plugin.CodeTaskFailed, "ouch"},
		{plugin.ClassTimeout, "tool_timeout", "deadline"},
		{plugin.ClassExecution, "", "no luck"},
		{plugin.ClassPermissionDenied, "eperm", "denied"},
		{plugin.ClassInvalidRequest, plugin.CodeInvalidArgs, "required"},
		{plugin.ClassUnavailable, plugin.CodeUnavailable, "missing"},
	}
	for i, w := range want {
		runtest.Equal(t, "outcome of "+w.text, got[i].Outcome, events.OutcomeFailure)
		runtest.Equal(t, "class of "+w.text, got[i].Class, w.class)
		runtest.Equal(t, "code of "+w.text, got[i].Code, w.code)
		if !strings.HasPrefix(got[i].Text, "[failed] ") || !strings.Contains(got[i].Text, w.text) {
			t.Errorf("text: got %q, want %q in it", got[i].Text, w.text)
		}
	}
	runtest.Equal(t, "text of the call beside them", got[6].Text, "fine")
	runtest.EqualLists(t, "results in the prompt", resultIDs(b.Model.Requests()[1].Messages[2]), []string{"panics", "slow", "plain", "denied", "picky", "missing", "fine"})
}

func resultIDs(m events.Message) []string {
	var names []string
	for _, p := range m.Parts {
		names = append(names, p.Tool)
	}
	return names
}

// TestDispatchUnavailable refuses a tool that the session's catalogue switches off.
func TestDispatchUnavailable(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Call("k", "off", "{}")), harness.Reply(harness.Text("done")))
	plugin.AddTool(b.Tools, plugin.Tool{Name: "off"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		t.Error("off: ran, want it refused")
		return "", nil
	})
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("hello"))
	tools := harness.Find[*events.ToolStateApplied](b, id)[0].Tools
	tools[0].Override = events.Overridden(events.AvailSearchable)
	b.CommitUnchecked(id, &events.ToolStateApplied{Generation: 2, Tools: tools})
	b.RunTurn(id, "t2", harness.Text("again"))
	runtest.Equal(t, "tools offered", len(b.Model.Requests()[1].Tools), 0)
	got := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
	runtest.Equal(t, "code", got.Code, plugin.CodeUnavailable)
	runtest.Equal(t, "calls written down", len(harness.Find[*events.ToolCalled](b, id)), 0)
}

// testCallOrder finishes parallel calls in reverse. The results stand in call order.
func testCallOrder(t *testing.T) {
	b := harness.StartIdle(t)
	names := []string{"a", "b", "c"}
	turns := make([]chan struct{}, len(names)+1)
	for i := range turns {
		turns[i] = make(chan struct{})
	}
	close(turns[len(names)])
	for i, name := range names {
		plugin.AddTool(b.Tools, plugin.Tool{Name: name, Effects: events.EffectsNone}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
			select {
			case <-turns[i+1]:
			case <-ctx.Done():
				return "", ctx.Err()
			}
			defer close(turns[i])
			return "result of " + name, nil
		})
	}
	harness.CallEach(t, b, names...)
	runtest.Equal(t, "results", b.Model.Prompt(1)[2], "user k=result of a k=result of b k=result of c")
}

// TestDispatchText records text that any reader can decode.
func TestDispatchText(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	raw := func(s string, err error) plugin.Handler {
		return func(context.Context, plugin.Call, json.RawMessage) (plugin.Result, error) {
			return plugin.Result{Text: s}, err
		}
	}
	runtest.WantError(t, "add", errors.Join(b.Tools.Add(plugin.Tool{Name: "bytes"}, raw("a\xffb", nil)),
		b.Tools.Add(plugin.Tool{Name: "fails"}, raw("", errors.New("c\xfe")))), nil)
	got := harness.CallEach(t, b, "bytes", "fails")
	runtest.Equal(t, "text", got[0].Text, "a\uFFFDb")
	runtest.Equal(t, "failure", got[1].Text, "[failed] c\uFFFD")
}

// TestDispatchLarge stores large outputs outside the history and sends the model all of them.
func TestDispatchLarge(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	large := strings.Repeat("0123456789abcdef", 300<<10/16)
	plugin.AddTool(b.Tools, plugin.Tool{Name: "large"}, func(context.Context, plugin.Call, struct{}) (string, error) { return large, nil })
	got := harness.CallEach(t, b, "large", "large")
	for _, r := range got {
		runtest.Equal(t, "inline text", len(r.Text), 0)
		body, err := b.Bus.Blob(b.Ctx, r.Blob)
		runtest.WantError(t, "blob", err, nil)
		runtest.Equal(t, "blob is the output", string(body) == large, true)
	}
	for _, p := range b.Model.Requests()[1].Messages[2].Parts {
		runtest.Equal(t, "the model sees the output", p.Text == large, true)
	}
}

// TestLargeInput runs a turn on 1.5 MiB of text.
func TestLargeInput(t *testing.T) {
	t.Parallel()
	b := harness.Start(t, harness.Reply(harness.Text("long")), harness.Reply(harness.Text("longer")))
	large := strings.Repeat("0123456789abcdef", 3<<19/16)
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "text", b.RunTurn(id, "t1", harness.Text(large)).Text, "long")
	runtest.Equal(t, "the model sees the input", b.Model.Requests()[0].Messages[0].Parts[0].Text == large, true)
	parts := make([]events.Part, 24) // each fits an event, together they do not
	for i := range parts {
		parts[i] = harness.Text(large[:60<<10])
	}
	runtest.Equal(t, "text", b.RunTurn(id, "t2", parts...).Text, "longer")
	for i, p := range b.Model.Requests()[1].Messages[2].Parts {
		runtest.Equal(t, fmt.Sprintf("the model sees part %d", i), p.Text == large[:60<<10], true)
	}
	runtest.Equal(t, "again", b.RunTurn(id, "t1", harness.Text(large)).Text, "long") // the same content is the same turn
}
