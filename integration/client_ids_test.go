package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// derived are ids that a program might make for itself of what a session has:
// the effects of turn t1, its inputs, and monitor m.
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

// TestClientIDs has a client use every id that might be derived in the session
// for turns and inputs of its own, before and while a turn waits: its timer, the
// denial of what nobody answers, and the wake of a monitor come all the same.
func TestClientIDs(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if last := req.Messages[len(req.Messages)-1]; last.Role == events.RoleUser && last.Text() == "go" {
			return reply(call("k", "add", `{}`), call("p", "later", `{}`))(ctx, req)
		}
		return reply(text("done"))(ctx, req)
	}
	tools := declares("tools", func(r *plugin.Registrar) {
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
	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{tools}})
	must(t, "plugins", err, nil)
	f.join(workers.Config{Plugins: stack})
	id := f.open(api.CreateRequest{})
	ids := derived()
	for n, name := range ids {
		if n%2 == 0 {
			f.submit(id, events.TurnID(name), text("mine"))
		}
	}
	f.unqueued(id)
	f.submit(id, "t1", text("go"))
	f.await(id, "question", hasAsk)
	must(t, "resolve at", f.ResolveAt(f.ctx, id, "t1/0/1", time.Now().Add(time.Second), events.ToolResult{Outcome: events.OutcomeSuccess, Text: "in time"}), nil)
	for n, name := range ids {
		if n%2 == 1 {
			f.submit(id, events.TurnID(name), text("mine"))
		} else if _, err := f.SubmitAt(f.ctx, id, time.Now().Add(time.Second), asksTurn(events.TurnID("x"+name), "mine")); err != nil {
			t.Errorf("submit x%s: %v", name, err)
		}
		_, err := f.Inject(f.ctx, id, api.InjectRequest{ID: events.InputID(name), Parts: []events.Part{text("mine too")}})
		must(t, "inject "+name, err, nil)
	}
	equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
	texts := make([]string, 2)
	for _, r := range resultsIn(f.bundle, id) {
		texts[r.Call] = r.Text
	}
	equalLists(t, "results", texts, []string{"[failed] the call was not approved: no answer came in time", "in time"})
	for n, name := range ids {
		if n%2 == 0 {
			name = "x" + name
		}
		equal(t, "end of "+name, f.ended(id, events.TurnID(name)).End, events.EndFinished)
	}
	f.unqueued(id)
	before := f.state(id).Turns
	f.start(id, events.MonitorSpec{ID: "m", Command: "echo one; sleep 1000", Persistent: true})
	f.await(id, "turn for the monitor's line", func(s *projector.State) bool { return s.Turns == before+1 && s.Turn() == nil })
	list := f.messages(id)
	equalLists(t, "last messages", list[len(list)-2:], []string{`user Monitor event "m": one`, "assistant done"})
	for _, name := range ids {
		_, err := f.state(id).Settled(events.InputID(name))
		must(t, "settled", err, nil)
	}
	verified(t, f.bus, id)
}

// TestClientIDFollowOn has a client's turn wait, in the queue or for its time,
// under the id that the turn after a frame switch would get: both run.
func TestClientIDFollowOn(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(b *bundle, id events.SessionID){
		"queued": func(b *bundle, id events.SessionID) { b.submit(id, "t1-frame-1", text("mine")) },
		"scheduled": func(b *bundle, id events.SessionID) {
			b.submitAt(id, "t1-frame-1", time.Now().Add(time.Second), "mine")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, reply(call("k", "continue_as", "{}")), reply(text("done")), reply(text("done")))
			id := events.SessionID("s")
			b.node(switcher(func() { ask(b, id) }))
			b.open(api.CreateRequest{ID: id})
			b.submit(id, "t1", text("go"))
			equal(t, "end", b.ended(id, "t1").End, events.EndSwitched)
			b.await(id, "three turns", func(s *projector.State) bool { return s.Turns == 3 && s.Turn() == nil })
			var texts []string
			for _, p := range find[*events.TurnRequested](b, id) {
				texts = append(texts, p.Input.Parts[0].Text)
			}
			slices.Sort(texts)
			equalLists(t, "requests", texts, []string{"go", "mine", "the rest"})
			verified(t, b.bus, id)
		})
	}
}
