package system

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// derived lists ids that a program might derive from the content of a session: the effects of turn t1, its inputs,
// and monitor m.
func derived() (list []string) {
	for _, prefix := range []string{"timer-", "expire-", "answer-", "wake-", "cover-", "resolve-", "cancel-", "after-"} {
		for _, name := range []string{"t1", "t1/0/0", "t1/0/1", "t1/0/model", "i1", "m", "m-1", "monitor-m", "monitor-m-1", "monitor-m-2"} {
			list = append(list, prefix+strings.ReplaceAll(name, "/", "-"), events.DerivedID(prefix, name))
		}
	}
	for n := 1; n < 4; n++ {
		list = append(list, fmt.Sprintf("t1-frame-%d", n), fmt.Sprintf("monitor-m-%d", n))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestClientIDsOfDerivedNames has a client use every id that a session could derive for turns and inputs of its own, before and
// while a turn waits. The timer of that turn, the denial of an approval without an answer, and the wake of a
// monitor still take effect.
func TestClientIDsOfDerivedNames(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if last := req.Messages[len(req.Messages)-1]; last.Role == events.RoleUser && last.Text() == "go" {
			return harness.Reply(harness.Call("k", "add", `{}`), harness.Call("p", "later", `{}`))(ctx, req)
		}
		return harness.Reply(harness.Text("done"))(ctx, req)
	}
	tools := harness.PluginOf("tools", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool == "add" {
				return []plugin.Directive{plugin.AskWithin("really?", 2*time.Second)}, nil
			}
			return nil, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "add"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "added", nil })
		plugin.AddTool(r, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
			c.CompletionKey()
			return plugin.Result{Pending: true}, nil
		})
	})
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{tools}})
	runtest.WantError(t, "plugins", err, nil)
	f.Join(workers.Config{Plugins: builder})
	id := f.Open(api.CreateRequest{})
	ids := derived()
	for n, name := range ids {
		if n%2 == 0 {
			f.StartTurn(id, events.TurnID(name), harness.Text("mine"))
		}
	}
	f.AwaitUnqueued(id)
	f.StartTurn(id, "t1", harness.Text("go"))
	f.AwaitState(id, "question", harness.HasAsk)
	runtest.WantError(t, "resolve at", f.ResolveAt(f.Ctx, id, "t1/0/1", time.Now().Add(time.Second), events.ToolResult{Outcome: events.OutcomeSuccess, Text: "in time"}), nil)
	for n, name := range ids {
		if n%2 == 1 {
			f.StartTurn(id, events.TurnID(name), harness.Text("mine"))
		} else if _, err := f.SubmitAt(f.Ctx, id, time.Now().Add(time.Second), harness.TurnRequest(events.TurnID("x"+name), "mine")); err != nil {
			t.Errorf("submit x%s: %v", name, err)
		}
		_, err := f.Inject(f.Ctx, id, api.InjectRequest{ID: events.InputID(name), Parts: []events.Part{harness.Text("mine too")}})
		runtest.WantError(t, "inject "+name, err, nil)
	}
	runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
	texts := make([]string, 2)
	for _, r := range harness.ToolResults(f.System, id) {
		texts[r.Call] = r.Text
	}
	runtest.EqualLists(t, "results", texts, []string{"[failed] the call was not approved: no answer came in time", "in time"})
	for n, name := range ids {
		if n%2 == 0 {
			name = "x" + name
		}
		runtest.Equal(t, "end of "+name, f.AwaitTurn(id, events.TurnID(name)).End, events.EndFinished)
	}
	f.AwaitUnqueued(id)
	before := f.StateOf(id).Turns
	f.StartMonitorOf(id, events.MonitorSpec{ID: "m", Command: "echo one; sleep 1000", Persistent: true})
	f.AwaitState(id, "turn for the monitor's line", func(s *projector.State) bool { return s.Turns == before+1 && s.Turn() == nil })
	list := f.Messages(id)
	runtest.EqualLists(t, "last messages", list[len(list)-2:], []string{`user Monitor event "m": one`, "assistant done"})
	for _, name := range ids {
		_, err := f.StateOf(id).Settled(events.InputID(name))
		runtest.WantError(t, "settled", err, nil)
	}
	harness.VerifyHistory(t, f.Bus, id)
}

// TestClientIDFollowOn has a turn of a client wait, in the queue or for its time, under the id that the turn after
// a frame switch would have: both run.
func TestClientIDFollowOn(t *testing.T) {
	t.Parallel()
	for name, submit := range map[string]func(b *harness.System, id events.SessionID){
		"queued": func(b *harness.System, id events.SessionID) { b.StartTurn(id, "t1-frame-1", harness.Text("mine")) },
		"scheduled": func(b *harness.System, id events.SessionID) {
			b.ScheduleTurn(id, "t1-frame-1", time.Now().Add(time.Second), "mine")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Call("k", "continue_as", "{}")), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("done")))
			id := events.SessionID("s")
			b.StartNode(harness.FrameSwitcher(func() { submit(b, id) }))
			b.Open(api.CreateRequest{ID: id})
			b.StartTurn(id, "t1", harness.Text("go"))
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndSwitched)
			b.AwaitState(id, "three turns", func(s *projector.State) bool { return s.Turns == 3 && s.Turn() == nil })
			var texts []string
			for _, p := range harness.Find[*events.TurnRequested](b, id) {
				texts = append(texts, p.Input.Parts[0].Text)
			}
			slices.Sort(texts)
			runtest.EqualLists(t, "requests", texts, []string{"go", "mine", "the rest"})
			harness.VerifyHistory(t, b.Bus, id)
		})
	}
}
