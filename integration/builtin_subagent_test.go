package integration

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// agents are the subagents of a session.
func (b *bundle) agents(id events.SessionID) []projector.Task {
	b.t.Helper()
	list, err := b.Tasks(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(t projector.Task) bool { return t.Of != events.TaskSubagent })
}

// TestSubagent spawns an agent, asks it again, and closes it.
func TestSubagent(t *testing.T) {
	t.Parallel()
	var b *bundle
	named := func(next func(agent string) step) step { // the script knows the agent once there is one
		return func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			return next(string(b.agents(req.Session)[0].Child))(ctx, req)
		}
	}
	b = setupIdle(t,
		reply(call("c1", "spawn_agent", `{"capability":"explore","task":"look around"}`)), reply(text("I looked")),
		named(func(a string) step { return reply(call("c2", "send_agent", `{"agent":"`+a+`","message":"and?"}`)) }), reply(text("Nothing")),
		reply(call("c3", "list_agents", `{}`)),
		named(func(a string) step {
			return reply(call("c4", "close_agent", `{"agent":"`+a+`"}`), call("c5", "send_agent", `{"agent":"x","message":""}`))
		}),
		reply(call("c6", "spawn_agent", `{"capability":"genius","task":""}`)), reply(text("done")),
	)
	b.node(subagent.Factory(subagent.Config{}))
	id := b.open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.run(id, "t1", text("go"))
	tasks := b.agents(id)
	if len(tasks) != 1 || tasks[0].State != events.TaskCompleted || string(tasks[0].ID) != string(tasks[0].Child) {
		t.Fatalf("tasks: got %+v, want one that is completed", tasks)
	}
	child := b.state(tasks[0].Child)
	equalLists(t, "child", b.messages(child.Session), []string{"user look around", "assistant I looked", "user and?", "assistant Nothing"})
	equal(t, "child is", child.Subagent, events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5})
	equal(t, "status", child.Status, projector.StatusClosed)
	equal(t, "model", child.Config.Model, "small")
	var said subagent.Agent
	if err := json.Unmarshal([]byte(b.result(id, "c1")), &said); err != nil || said.Answer != "I looked" || said.State != events.TaskWaiting || said.Usage.Output != 5 {
		t.Errorf("spawn: got %+v, %v, want the answer and its usage", said, err)
	}
	equal(t, "list", b.result(id, "c3"), `[{"agent":"`+string(child.Session)+`","capability":"explore","state":"waiting"}]`)
	equal(t, "close", b.result(id, "c4"), "closed")
	equal(t, "unknown agent", b.result(id, "c5"), `[failed] you have no agent "x"`)
	equal(t, "unknown capability", b.result(id, "c6"), `[failed] there is no capability "genius"`)
	equal(t, "ledger", b.state(id).Usage().BySource["subagent"].Output, 10)
	var states []events.TaskState
	for _, p := range find[*events.TaskStateChanged](b, id) {
		states = append(states, p.State)
	}
	equalLists(t, "states", states, []events.TaskState{events.TaskWaiting, events.TaskRunning, events.TaskWaiting})
}

// TestSubagentTakeover kills the node while an agent works: the node that takes over waits for the same agent.
func TestSubagentTakeover(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	b := setupIdle(t, reply(call("c1", "spawn_agent", `{"capability":"peer","task":"work"}`)), hangs(begun), reply(text("worked")), reply(text("done")))
	first := b.node(subagent.Factory(subagent.Config{}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	now, cancel := context.WithCancel(b.ctx)
	cancel()
	first.Stop(now)
	b.node(subagent.Factory(subagent.Config{}))
	b.ended(id, "t1")
	if got := b.result(id, "c1"); !strings.Contains(got, `"answer":"worked"`) {
		t.Errorf("spawn: got %s, want the answer", got)
	}
	if got := b.agents(id); len(got) != 1 || got[0].State != events.TaskWaiting {
		t.Errorf("agents: got %+v, want one that waits", got)
	}
}

// TestSubagentBackground has an agent answer later, as a message.
func TestSubagentBackground(t *testing.T) {
	t.Parallel()
	parent := events.SessionID("parent")
	release := make(chan struct{})
	b := setupIdle(t)
	script := func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		part := text("noted")
		switch {
		case req.Session != parent:
			<-release
			part = text("worked")
		case len(req.Messages) == 1:
			part = call("c1", "spawn_agent", `{"capability":"explore","task":"work","background":true}`)
		}
		return scripted.Answer{Response: llm.Response{Parts: []events.Part{part}, Stop: events.StopEnd}}, nil
	}
	b.model.script = []step{script, script, script, script}
	b.node(subagent.Factory(subagent.Config{}))
	b.open(api.CreateRequest{ID: parent})
	b.run(parent, "t1", text("go"))
	equal(t, "state", b.agents(parent)[0].State, events.TaskRunning)
	close(release)
	s := b.await(parent, "answer", func(s *projector.State) bool {
		return len(s.Inputs) == 1 && len(s.Tasks) == 1 && s.Tasks[0].State == events.TaskWaiting
	})
	agent := string(s.Tasks[0].Child)
	b.run(parent, "t2", text("and?"))
	if got := b.messages(parent); !slices.Contains(got, "user Agent "+agent+" answers: worked") {
		t.Errorf("messages: got %q, want the answer", got)
	}
}

// TestSubagentCancel cancels what a cancelled turn waited for, and the tree of a task that is cancelled.
func TestSubagentCancel(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	b := setupIdle(t, reply(call("c1", "spawn_agent", `{"capability":"explore","task":"work"}`)), hangs(begun))
	b.node(subagent.Factory(subagent.Config{}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	if _, _, err := b.Cancel(b.ctx, id, "t1", api.CancelRequest{}); err != nil {
		t.Fatal(err)
	}
	b.ended(id, "t1")
	agent := b.agents(id)[0].Child
	b.await(agent, "end of the agent's turn", func(s *projector.State) bool { return s.Idle() && s.Seq > 2 })
	b.await(id, "waiting agent", func(s *projector.State) bool { return s.Tasks[0].State == events.TaskWaiting })
	if _, err := b.CancelTask(b.ctx, id, events.TaskID(agent)); err != nil {
		t.Fatal(err)
	}
	b.await(agent, "closed agent", func(s *projector.State) bool { return s.Status == projector.StatusClosed })
}

// TestSubagentDepth hides the tool at the last level, and refuses what is deeper.
func TestSubagentDepth(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		reply(call("c1", "spawn_agent", `{"capability":"explore","task":"go deeper"}`)),
		reply(call("c2", "spawn_agent", `{"capability":"explore","task":"deeper"}`)), reply(text("bottom")), reply(text("done")),
	)
	b.node(subagent.Factory(subagent.Config{MaxDepth: 1}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	equalLists(t, "offered", b.model.offered(1), []string{"close_agent", "list_agents", "send_agent"})
	child := b.agents(id)[0].Child
	if got := b.result(child, "c2"); !strings.Contains(got, "not available") {
		t.Errorf("spawn at the last level: got %s, want a refusal", got)
	}
	if got := b.agents(child); len(got) != 0 {
		t.Errorf("agents of the agent: got %v, want none", got)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	list := subagent.Register([]subagent.Capability{subagent.Explore(), subagent.Peer()},
		subagent.Capability{Name: "test"}, subagent.Capability{Name: "explore", Description: "another"})
	var got []string
	for _, c := range list {
		got = append(got, c.Name)
	}
	equalLists(t, "capabilities", got, []string{"explore", "peer", "test"})
	equal(t, "replaced", list[0].Description, "another")
}

// TestSubagentUsage kills one node while an agent works, and another between
// the agent's answer and its record: what the agent used is the parent's once.
func TestSubagentUsage(t *testing.T) {
	t.Parallel()
	begun, answered := make(chan struct{}), make(chan struct{})
	b := setupIdle(t, reply(call("c1", "spawn_agent", `{"capability":"peer","task":"work"}`)),
		reply(call("c2", "list_agents", `{}`)), hangs(begun), reply(text("worked")),
		reply(text("done")), reply(text("and so on")),
	)
	stuck := plugin.Func("stuck", func(r *plugin.Registrar) error {
		r.AfterToolCall(func(ctx context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
			if in.Tool == "spawn_agent" {
				close(answered)
				<-ctx.Done()
			}
			return nil, ctx.Err()
		})
		return nil
	})
	agents := subagent.Factory(subagent.Config{})
	n, kill := b.nodeOn(bustest.Open(t, b.server), agents)
	b.Host = n.Host()
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.wait("the agent's second question", begun)
	kill()
	n, kill = b.nodeOn(bustest.Open(t, b.server), agents, stuck)
	b.Host = n.Host()
	b.wait("the agent's answer", answered)
	kill()
	b.node(agents)
	b.ended(id, "t1")
	child := b.agents(id)[0].Child
	equal(t, "the agent's own", b.state(child).Usage().Total, events.Usage{Input: 20, Output: 10})
	equal(t, "ledger", b.state(id).Usage().BySource[subagent.ID], events.Usage{Input: 20, Output: 10})
	equal(t, "the parent's own", b.state(id).Usage().BySource["turn"], events.Usage{Input: 20, Output: 10})
	equal(t, "charges", len(find[*events.UsageCharged](b, id)), 1)
	whole, err := b.AssembledTurn(b.ctx, id, "t1")
	if err != nil || len(whole.ChildrenUsage) != 1 || whole.ChildrenUsage[0].Source != subagent.ID || whole.ChildrenUsage[0].Usage.Output != 10 {
		t.Errorf("turn: got %+v, %v, want the agent's usage", whole.ChildrenUsage, err)
	}
	b.run(child, "more", text("more"))
	b.await(id, "charge", func(s *projector.State) bool {
		return s.Usage().BySource[subagent.ID] == events.Usage{Input: 30, Output: 15}
	})
}

// TestSubagentUsageNested has an agent of an agent use something while those above it do nothing: all of them are charged.
func TestSubagentUsageNested(t *testing.T) {
	t.Parallel()
	root, release := events.SessionID("root"), make(chan struct{})
	b := setupIdle(t)
	script := func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		state, err := b.State(ctx, req.Session)
		if err != nil {
			return scripted.Answer{}, err
		}
		part := text("done")
		switch depth := state.Subagent.Depth; {
		case depth == 2:
			<-release
		case depth == 1 && len(req.Messages) == 1:
			part = call("c1", "spawn_agent", `{"capability":"explore","task":"work","background":true}`)
		case depth == 0 && len(req.Messages) == 1:
			part = call("c1", "spawn_agent", `{"capability":"explore","task":"have somebody work"}`)
		}
		return scripted.Answer{Response: llm.Response{Parts: []events.Part{part}, Stop: events.StopEnd, Usage: events.Usage{Input: 10, Output: 5}}}, nil
	}
	b.model.script = []step{script, script, script, script, script}
	b.node(subagent.Factory(subagent.Config{}))
	b.open(api.CreateRequest{ID: root})
	b.run(root, "t1", text("go"))
	equal(t, "ledger before", b.state(root).Usage().BySource[subagent.ID].Output, 10)
	close(release)
	b.await(root, "charge", func(s *projector.State) bool { return s.Usage().BySource[subagent.ID].Output == 15 })
	equal(t, "ledger of the agent", b.state(b.agents(root)[0].Child).Usage().BySource[subagent.ID].Output, 5)
	equal(t, "total", b.state(root).Usage().Total, events.Usage{Input: 50, Output: 25})
}
