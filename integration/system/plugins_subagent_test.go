package system

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/subagent"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestSmokeSubagent spawns an agent, sends it another request, and closes it.
func TestSmokeSubagent(t *testing.T) {
	t.Parallel()
	var b *harness.System
	named := func(next func(agent string) harness.Step) harness.Step { // the script knows the agent once there is one
		return func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			return next(string(b.Subagents(req.Session)[0].Child))(ctx, req)
		}
	}
	b = harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"look around"}`)), harness.Reply(harness.Text("I looked")),
		named(func(a string) harness.Step {
			return harness.Reply(harness.Call("c2", "send_agent", `{"agent":"`+a+`","message":"and?"}`))
		}), harness.Reply(harness.Text("Nothing")),
		harness.Reply(harness.Call("c3", "list_agents", `{}`)),
		named(func(a string) harness.Step {
			return harness.Reply(harness.Call("c4", "close_agent", `{"agent":"`+a+`"}`), harness.Call("c5", "send_agent", `{"agent":"x","message":""}`))
		}),
		harness.Reply(harness.Call("c6", "spawn_agent", `{"capability":"genius","task":""}`)), harness.Reply(harness.Text("done")),
	)
	b.StartNode(subagent.Factory(subagent.Config{}))
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.RunTurn(id, "t1", harness.Text("go"))
	tasks := b.Subagents(id)
	if len(tasks) != 1 || tasks[0].State != events.TaskCompleted || string(tasks[0].ID) != string(tasks[0].Child) {
		t.Fatalf("tasks: got %+v, want one that is completed", tasks)
	}
	child := b.StateOf(tasks[0].Child)
	runtest.EqualLists(t, "child", b.Messages(child.Session), []string{"user look around", "assistant I looked", "user and?", "assistant Nothing"})
	runtest.Equal(t, "child is", child.Subagent, events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5})
	runtest.Equal(t, "status", child.Status, projector.StatusClosed)
	runtest.Equal(t, "model", child.Config.Model, "small")
	var agent struct {
		State  events.TaskState `json:"state"`
		Answer string           `json:"answer"`
		Usage  api.TokenUsage   `json:"usage"`
	}
	if err := json.Unmarshal([]byte(b.CallResult(id, "c1")), &agent); err != nil || agent.Answer != "I looked" || agent.State != events.TaskWaiting || agent.Usage.Output != 5 {
		t.Errorf("spawn: got %+v, %v, want the answer and its usage", agent, err)
	}
	runtest.Equal(t, "list", b.CallResult(id, "c3"), `[{"agent":"`+string(child.Session)+`","capability":"explore","state":"waiting"}]`)
	runtest.Equal(t, "close", b.CallResult(id, "c4"), "closed")
	runtest.Equal(t, "unknown agent", b.CallResult(id, "c5"), `[failed] you have no agent "x"`)
	runtest.Equal(t, "unknown capability", b.CallResult(id, "c6"), `[failed] there is no capability "genius"`)
	runtest.Equal(t, "ledger", b.StateOf(id).Usage().BySource["subagent"].Output, 10)
	var states []events.TaskState
	for _, p := range harness.Find[*events.TaskStateChanged](b, id) {
		states = append(states, p.State)
	}
	runtest.EqualLists(t, "states", states, []events.TaskState{events.TaskWaiting, events.TaskRunning, events.TaskWaiting})
}

// TestSubagentBackground has an agent reply later, as a message.
func TestSubagentBackground(t *testing.T) {
	t.Parallel()
	parent := events.SessionID("parent")
	release := make(chan struct{})
	b := harness.StartIdle(t)
	script := func(_ context.Context, req llm.Request) (scripted.Answer, error) {
		part := harness.Text("noted")
		switch {
		case req.Session != parent:
			<-release
			part = harness.Text("worked")
		case len(req.Messages) == 1:
			part = harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"work","background":true}`)
		}
		return scripted.Answer{Response: llm.Response{Parts: []events.Part{part}, Stop: events.StopEnd}}, nil
	}
	b.Model.Script = []harness.Step{script, script, script, script}
	b.StartNode(subagent.Factory(subagent.Config{}))
	b.Open(api.CreateRequest{ID: parent})
	b.RunTurn(parent, "t1", harness.Text("go"))
	runtest.Equal(t, "state", b.Subagents(parent)[0].State, events.TaskRunning)
	close(release)
	s := b.AwaitState(parent, "answer", func(s *projector.State) bool {
		return len(s.Inputs) == 1 && len(s.Tasks) == 1 && s.Tasks[0].State == events.TaskWaiting
	})
	agent := string(s.Tasks[0].Child)
	b.RunTurn(parent, "t2", harness.Text("and?"))
	if got := b.Messages(parent); !slices.Contains(got, "user Agent "+agent+" answers: worked") {
		t.Errorf("messages: got %q, want the answer", got)
	}
}

// TestSubagentCancel cancels the agents that a cancelled turn waits for, and the tree of a task that is cancelled.
func TestSubagentCancel(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"work"}`)), harness.Hang(started))
	b.StartNode(subagent.Factory(subagent.Config{}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	_, _, err := b.Cancel(b.Ctx, id, "t1", api.CancelRequest{})
	runtest.NoError(t, err)
	b.AwaitTurn(id, "t1")
	agent := b.Subagents(id)[0].Child
	b.AwaitState(agent, "end of the agent's turn", func(s *projector.State) bool { return s.Idle() && s.Seq > 2 })
	b.AwaitState(id, "waiting agent", func(s *projector.State) bool { return s.Tasks[0].State == events.TaskWaiting })
	_, err = b.CancelTask(b.Ctx, id, events.TaskID(agent))
	runtest.NoError(t, err)
	b.AwaitState(agent, "closed agent", func(s *projector.State) bool { return s.Status == projector.StatusClosed })
}

// TestSubagentDepth hides the tool at the last level, and refuses a deeper agent.
func TestSubagentDepth(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Reply(harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"go deeper"}`)),
		harness.Reply(harness.Call("c2", "spawn_agent", `{"capability":"explore","task":"deeper"}`)), harness.Reply(harness.Text("bottom")), harness.Reply(harness.Text("done")),
	)
	b.StartNode(subagent.Factory(subagent.Config{MaxDepth: 1}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.EqualLists(t, "offered", b.Model.Offered(1), []string{"close_agent", "list_agents", "send_agent"})
	child := b.Subagents(id)[0].Child
	runtest.Contains(t, "spawn at the last level", b.CallResult(child, "c2"), "not available")
	runtest.Equal(t, "agents of the agent", len(b.Subagents(child)), 0)
}

// TestSubagentUsage kills one node while an agent works, and another between the agent's reply and its record: the
// agent's usage is in the parent's ledger once.
func TestSubagentUsage(t *testing.T) {
	t.Parallel()
	started, answered := make(chan struct{}), make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Call("c1", "spawn_agent", `{"capability":"peer","task":"work"}`)),
		harness.Reply(harness.Call("c2", "list_agents", `{}`)), harness.Hang(started), harness.Reply(harness.Text("worked")),
		harness.Reply(harness.Text("done")), harness.Reply(harness.Text("and so on")),
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
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), agents)
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.Wait("the agent's second question", started)
	kill()
	n, kill = b.StartNodeOn(bustest.Open(t, b.Server), agents, stuck)
	b.Host = n.Host()
	b.Wait("the agent's answer", answered)
	kill()
	b.StartNode(agents)
	b.AwaitTurn(id, "t1")
	child := b.Subagents(id)[0].Child
	runtest.Equal(t, "the agent's own", b.StateOf(child).Usage().Total, events.Usage{Input: 20, Output: 10})
	runtest.Equal(t, "ledger", b.StateOf(id).Usage().BySource[subagent.ID], events.Usage{Input: 20, Output: 10})
	runtest.Equal(t, "the parent's own", b.StateOf(id).Usage().BySource["turn"], events.Usage{Input: 20, Output: 10})
	runtest.Equal(t, "charges", len(harness.Find[*events.UsageCharged](b, id)), 1)
	assembled, err := b.AssembledTurn(b.Ctx, id, "t1")
	if err != nil || len(assembled.ChildrenUsage) != 1 || assembled.ChildrenUsage[0].Source != subagent.ID || assembled.ChildrenUsage[0].Usage.Output != 10 {
		t.Errorf("turn: got %+v, %v, want the agent's usage", assembled.ChildrenUsage, err)
	}
	b.RunTurn(child, "more", harness.Text("more"))
	b.AwaitState(id, "charge", func(s *projector.State) bool {
		return s.Usage().BySource[subagent.ID] == events.Usage{Input: 30, Output: 15}
	})
}

// TestSubagentUsageNested has an agent of an agent use tokens while those above it are idle: all of them are
// charged.
func TestSubagentUsageNested(t *testing.T) {
	t.Parallel()
	root, release := events.SessionID("root"), make(chan struct{})
	b := harness.StartIdle(t)
	script := func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		state, err := b.State(ctx, req.Session)
		if err != nil {
			return scripted.Answer{}, err
		}
		part := harness.Text("done")
		switch depth := state.Subagent.Depth; {
		case depth == 2:
			<-release
		case depth == 1 && len(req.Messages) == 1:
			part = harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"work","background":true}`)
		case depth == 0 && len(req.Messages) == 1:
			part = harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"have somebody work"}`)
		}
		return scripted.Answer{Response: llm.Response{Parts: []events.Part{part}, Stop: events.StopEnd, Usage: events.Usage{Input: 10, Output: 5}}}, nil
	}
	b.Model.Script = []harness.Step{script, script, script, script, script}
	b.StartNode(subagent.Factory(subagent.Config{}))
	b.Open(api.CreateRequest{ID: root})
	b.RunTurn(root, "t1", harness.Text("go"))
	runtest.Equal(t, "ledger before", b.StateOf(root).Usage().BySource[subagent.ID].Output, 10)
	close(release)
	b.AwaitState(root, "charge", func(s *projector.State) bool { return s.Usage().BySource[subagent.ID].Output == 15 })
	runtest.Equal(t, "ledger of the agent", b.StateOf(b.Subagents(root)[0].Child).Usage().BySource[subagent.ID].Output, 5)
	runtest.Equal(t, "total", b.StateOf(root).Usage().Total, events.Usage{Input: 50, Output: 25})
}
