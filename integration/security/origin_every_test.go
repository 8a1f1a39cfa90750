package security

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// originCase prepares a session as bob, so that alice's request of an operation has an effect.
type originCase struct {
	steps   []harness.Step              // of the model
	prepare []prepared                  // requests of bob
	asks    bool                        // wait for a question before the request
	body    any                         // of the request; nil: that of bodiesInSession
	ready   func(*projector.State) bool // before the request; nil: at once
	ends    func(*projector.State) bool // after it; nil: at once
}

type prepared struct {
	op   operation.Name
	body any
}

func originCases() map[operation.Name]originCase {
	submit := prepared{operation.Submit.Name, new(turnWith("t1", []events.Part{harness.Text("1+2?")}))}
	inject := prepared{operation.Inject.Name, &api.InjectRequest{ID: "i1", Parts: small(11)}}
	nodes := prepared{operation.AppendNodes.Name, &api.AppendNodesRequest{Nodes: []api.AppendNode{{ID: "n1", Kind: events.NodePlugin, Type: "x", Body: []byte("{}")}, {ID: "n2", Message: new(plugin.Say(events.RoleUser, "two"))}}}}
	register := func(id events.TaskID) prepared {
		return prepared{operation.RegisterTask.Name, &api.TaskRequest{ID: id}}
	}
	asking, told := []harness.Step{harness.CallAdd()}, []harness.Step{harness.CallAdd(), harness.Reply(harness.Text("3"))}
	m1 := func(command string) *events.MonitorSpec { return &events.MonitorSpec{ID: "m1", Command: command} }
	idle := func(s *projector.State) bool { return s.Turn() == nil && len(s.Queue)+len(s.Scheduled) == 0 }
	ended := func(id events.TurnID) func(*projector.State) bool {
		return func(s *projector.State) bool {
			place, err := s.FindTurn(id)
			return err == nil && place.Known() && idle(s)
		}
	}
	return map[operation.Name]originCase{
		operation.Submit.Name:       {steps: told[1:], ends: ended("t1")},
		operation.SubmitAt.Name:     {steps: told[1:], body: &api.SubmitAtArgs{At: events.MillisOf(time.Now().Add(100 * time.Millisecond)), Request: turnWith("t1", small(11))}, ends: ended("t1")},
		operation.Cancel.Name:       {steps: asking, prepare: []prepared{submit}, asks: true, ends: ended("t1")},
		operation.Approve.Name:      {steps: told, prepare: []prepared{submit}, asks: true, ends: ended("t1")},
		operation.CancelInputs.Name: {prepare: []prepared{inject}}, operation.CancelInputsFrom.Name: {prepare: []prepared{inject}},
		operation.CancelTask.Name: {prepare: []prepared{register("k1")}}, operation.ProgressTask.Name: {prepare: []prepared{register("k2")}},
		operation.TransitionOwnTask.Name: {prepare: []prepared{register("k2")}}, operation.UnregisterOwnTask.Name: {prepare: []prepared{register("k2")}},
		operation.EndOwnTask.Name: {prepare: []prepared{register("k2")}}, operation.RequestCancelTask.Name: {prepare: []prepared{register("k2")}},
		operation.CancelTasks.Name: {prepare: []prepared{register("k2")}}, operation.TransferTasks.Name: {prepare: []prepared{register("k2"), {operation.Create.Name, &api.CreateArgs{Request: api.CreateRequest{ID: "elsewhere"}}}}},
		operation.StopMonitor.Name: {prepare: []prepared{{operation.StartMonitor.Name, m1("sleep 60")}}},
		operation.StartMonitor.Name: {steps: told[1:], body: m1("echo a line"), ends: func(s *projector.State) bool {
			m, ok := s.Monitor("m1")
			return ok && m.State == events.MonitorExited && m.Wake == "" && idle(s)
		}},
		operation.BranchTo.Name:         {prepare: []prepared{nodes}, body: new(events.NodeID("n1"))},
		operation.Rewrite.Name:          {prepare: []prepared{nodes}},
		operation.RemoveToolSource.Name: {prepare: []prepared{{operation.AddToolSource.Name, new("more")}}},
		operation.ResolveTool.Name: {
			steps: []harness.Step{harness.Reply(harness.Call("k", "later", "{}")), told[1]}, prepare: []prepared{submit}, ready: harness.HasPending,
			body: &api.ResolveArgs{Key: harness.AddEffect, Result: events.ToolResult{Outcome: events.OutcomeSuccess, Text: "3"}}, ends: ended("t1"),
		},
		operation.InvokeAction.Name:       {body: &api.ActionArgs{Name: "greet", Args: []byte("{}")}},
		operation.Complete.Name:           {steps: told[1:]},
		operation.TakeMonitorUpdates.Name: {prepare: []prepared{{operation.StartMonitor.Name, &events.MonitorSpec{ID: "m1", Command: "echo a line", Wake: events.WakeNotify}}}, ready: func(s *projector.State) bool { m, ok := s.Monitor("m1"); return ok && m.State == events.MonitorExited }},
	}
}

// TestOriginOfEverything has alice send every operation that changes something to sessions that bob prepared. Every commit that
// follows, in any session, is hers, or is a node's about a turn or a task that the history says is on her behalf.
func TestOriginOfEverything(t *testing.T) {
	t.Parallel()
	cases := originCases()
	ops := slices.DeleteFunc(slices.Sorted(maps.Keys(natsBodies())), func(op operation.Name) bool { return operation.Named()[op].Needs == api.RightRead })
	var script []harness.Step
	for _, op := range ops {
		script = append(script, cases[op].steps...)
	}
	reach := api.Reach{Scope: api.ScopeAdmin}
	acts := harness.PluginOf("acts", func(r *plugin.Registrar) {
		harness.AddPending(r)
		r.Source("more", harness.SourceOf("extra"))
		plugin.AddAction(r, plugin.ActionDef{Name: "greet"}, func(ctx context.Context, a plugin.ActionContext, _ struct{}) (string, error) {
			_, err := a.Host.StartMonitor(ctx, a.Session, events.MonitorSpec{ID: "acted", Command: "true", Wake: events.WakeNotify})
			return "hello", err
		})
		r.Compact(0, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
			m := plugin.Say(events.RoleUser, "summary")
			return plugin.Compaction{Nodes: []api.AppendNode{{Message: &m}}}, nil
		})
	})
	n := newNATSAPI(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": reach, "host@acme": reach}}, script...)
	n.node.Stop(n.Ctx) // the system's node, which has the plugins and the model, serves instead
	n.StartNodeWith(workers.Config{Scopes: map[string]api.Reach{"alice@acme": reach, "host@acme": reach}}, plugin.BuilderConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{(&harness.Approver{}).Factory(events.EffectsNonIdempotent), acts},
	})
	o := &origins{System: n.System, who: "alice", other: "host", askRaw: n.askRaw, seen: make(map[events.SessionID]events.Seq)}
	var silent []string
	for _, op := range ops {
		if o.request(op, cases[op]) == 0 {
			silent = append(silent, string(op))
		}
	}
	runtest.EqualLists(t, "operations without a commit", silent, originSilent())
}

// originSilent are operations that append nothing in these sessions.
func originSilent() []string {
	return []string{"apply_extension"}
}

type origins struct {
	*harness.System
	askRaw func(user string, op operation.Name, r api.Request, body any) api.Response
	who    string                          // sends the requests, as the API authenticates it
	other  string                          // prepared the sessions
	seen   map[events.SessionID]events.Seq // last commits before alice's request
}

// request sends an operation to a session of its own, and checks what follows. It returns the number of commits.
func (o *origins) request(op operation.Name, c originCase) (commits int) {
	o.T.Helper()
	id := events.SessionID("of-" + string(op))
	bob := func(op operation.Name, body any) {
		a := o.askRaw("host@acme", op, api.Request{Session: id}, body)
		runtest.Equal(o.T, "prepare by "+string(op), a.Error.Code+a.Error.Message, "")
	}
	bob(operation.Create.Name, &api.CreateArgs{Request: api.CreateRequest{ID: id}})
	for _, p := range c.prepare {
		bob(p.op, p.body)
	}
	if c.asks {
		o.AwaitState(id, "question", harness.HasAsk)
	}
	if c.ready != nil {
		o.AwaitState(id, "ready", c.ready)
	}
	o.mark()
	body := c.body
	if body == nil {
		body = natsBodies()[op]
	}
	if a := o.askRaw("alice@acme", op, api.Request{Session: id}, body); a.Error.Code != "" && !slices.Contains(originSilent(), string(op)) {
		o.T.Errorf("%s: got %v, want it done", op, a.Error)
	}
	if c.ends != nil {
		o.AwaitState(id, "end of "+string(op), c.ends)
	}
	return o.checkAll(string(op))
}

// mark stores the end of every session.
func (o *origins) mark() {
	o.T.Helper()
	o.each(func(id events.SessionID, last events.Seq) { o.seen[id] = last })
}

// checkAll checks the commits after the mark, and counts them.
func (o *origins) checkAll(op string) (commits int) {
	o.T.Helper()
	o.each(func(id events.SessionID, last events.Seq) {
		if first := o.seen[id] + 1; first <= last {
			commits += int(last - first + 1) //nolint:gosec // small
			o.check(op, id, first)
		}
	})
	return commits
}

// each calls do with every session and its end.
func (o *origins) each(do func(events.SessionID, events.Seq)) {
	o.T.Helper()
	for hot, err := range o.Bus.Hot(o.Ctx) {
		runtest.WantError(o.T, "list", err, nil)
		do(hot.ID, hot.Last)
	}
}

// check fails for commits from a sequence on that name neither alice nor a turn or task on her behalf.
func (o *origins) check(op string, id events.SessionID, first events.Seq) {
	o.T.Helper()
	alice := events.Actor{Kind: events.ActorClient, ID: o.who}
	hers := make(map[string]bool) // turns and tasks: of bob's requests those on his behalf
	for entry, err := range o.Bus.Log().Read(o.Ctx, id, 1) {
		runtest.WantError(o.T, "read", err, nil)
		onBehalf := func(callers []string) bool { // of the other caller before alice's request only
			return slices.Contains(callers, o.who) || entry.Seq < first && slices.Contains(callers, o.other)
		}
		for i := range entry.Commit.Events {
			ev := &entry.Commit.Events[i]
			switch p := ev.Payload.(type) {
			case *events.TurnRequested:
				hers["turn "+string(ev.Turn)] = onBehalf(p.Callers)
			case *events.TaskRegistered:
				hers["task "+string(p.Task)] = onBehalf(p.Callers)
			}
			if entry.Seq < first || entry.Commit.Actor == alice {
				continue
			}
			if entry.Commit.Actor.Kind == events.ActorClient || !o.follows(ev, hers) {
				o.T.Errorf("%s led to %s in commit %d of %s, by %s, cause %q", op, ev.Kind, entry.Seq, id, entry.Commit.Actor, entry.Commit.Cause)
			}
		}
	}
}

// follows reports whether an event of a node is about a turn or a task on alice's behalf.
func (o *origins) follows(ev *events.Event, hers map[string]bool) bool {
	switch p := ev.Payload.(type) {
	case *events.TaskRegistered:
		return hers["task "+string(p.Task)]
	case *events.TaskStarted:
		return hers["task "+string(p.Task)]
	case *events.TaskEnded:
		return hers["task "+string(p.Task)]
	case *events.MonitorStarted:
		return hers["task "+string(events.TaskOf(p.Monitor))]
	case *events.MonitorReported:
		return hers["task "+string(events.TaskOf(p.Monitor))]
	case *events.MonitorEnded:
		return hers["task "+string(events.TaskOf(p.Monitor))]
	case *events.InputInjected: // of a monitor's line
		return hers["task monitor-m1"]
	}
	return hers["turn "+string(ev.Turn)]
}

// TestOriginOfEverythingOverHTTP has a caller send every operation of the document that changes something, to sessions that another
// caller created.
func TestOriginOfEverythingOverHTTP(t *testing.T) {
	t.Parallel()
	var script []harness.Step
	for range 4 { // a turn, two completions, and the turn of a monitor's line
		script = append(script, harness.Reply(harness.Text("fine")))
	}
	b := harness.StartIdle(t, script...)
	b.StartNode(harness.PluginOf("acts", func(r *plugin.Registrar) {
		harness.AddPending(r)
		r.Source("more", harness.SourceOf("extra"))
		plugin.AddAction(r, plugin.ActionDef{Name: "greet"}, func(context.Context, plugin.ActionContext, struct{}) (string, error) { return "hello", nil })
	}))
	d := b.ServeHTTP(httpapi.Config{})
	o := &origins{System: b, who: "admin", other: "root", seen: make(map[events.SessionID]events.Seq)}
	n := 0
	var refused []string
	for _, op := range d.Doc.Operations() {
		if op.Scope == "" || op.Right == string(api.RightRead) {
			continue
		}
		id := events.SessionID("of-" + op.ID)
		body := strings.Replace(harness.ValidBodies()[op.ID], `{"command":"true"}`, `{"command":"echo a line"}`, 1)
		runtest.Equal(t, "create", d.Send("root", "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q}`, id)).Status, 201)
		o.mark()
		if status, _ := d.StatusOf("admin", op.Method, harness.PathOf(op.Path, string(id))+harness.QueryOf(op.ID), body); status/100 != 2 {
			refused = append(refused, op.ID)
		}
		switch op.ID {
		case "submitTurn":
			b.AwaitState(id, "end", func(s *projector.State) bool { return s.Turn() == nil && len(s.Queue) == 0 })
		case "startMonitor":
			b.AwaitState(id, "end", func(s *projector.State) bool {
				m, ok := s.Monitor("m1")
				return ok && m.State == events.MonitorExited && m.Wake == "" && s.Turn() == nil && len(s.Queue) == 0
			})
		}
		n += o.checkAll(op.ID)
	}
	runtest.EqualLists(t, "operations that find nothing to act on here, most of which TestOriginOfEverything has", refused, []string{
		"applyExtension", "approve", "cancelTask", "cancelTurn", "endTask", "invokeAction", "progressTask", "removeToolSource", "resolveCall", "setTools", "stopMonitor", "stopTask", "transitionTask",
	})
	if n < 20 {
		t.Errorf("got %d commits, want at least 20", n)
	}
}
