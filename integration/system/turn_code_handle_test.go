package system

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// gates block the calls of tools, by name.
type gates struct {
	mu   sync.Mutex
	made map[string]chan struct{}
}

func (g *gates) of(name string) chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.made == nil {
		g.made = make(map[string]chan struct{})
	}
	if g.made[name] == nil {
		g.made[name] = make(chan struct{})
	}
	return g.made[name]
}

// slow adds a tool whose calls wait at a gate, and then return as many bytes as requested.
func slow(b *harness.System, c *harness.CodeCounts) *gates {
	g := &gates{}
	plugin.AddTool(b.Tools, plugin.Tool{Name: "slow"}, func(ctx context.Context, _ plugin.Call, in struct {
		Gate string `json:"gate"`
		Size int    `json:"size,omitempty"`
	},
	) (string, error) {
		c.Add(in.Gate)
		select {
		case <-g.of(in.Gate):
			return in.Gate + strings.Repeat(".", in.Size), nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	return g
}

// live is the number of a session's tasks that have not ended.
func live(b *harness.System, id events.SessionID) int {
	b.T.Helper()
	list, err := b.Tasks(b.Ctx, id)
	runtest.WantError(b.T, "tasks", err, nil)
	n := 0
	for i := range list {
		if list[i].Live() {
			n++
		}
	}
	return n
}

// idleTasks reports whether all tasks of a session have ended.
func idleTasks(b *harness.System, id events.SessionID) func(*projector.State) bool {
	return func(*projector.State) bool { return live(b, id) == 0 }
}

// TestCodeHandlesAcrossNodes starts tools on one node and waits for them on
// another, while the first lives and after it has died.
func TestCodeHandlesAcrossNodes(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Program("a, b, c = start(slow, gate=\"a\"), start(slow, gate=\"b\", size=100000), start(slow, gate=\"c\")"), harness.Reply(harness.Text("begun")),
		harness.Program("occupy()"),
		harness.Program("print(wait(a), len(wait(b)), wait(a))"), harness.Reply(harness.Text("two")),
		harness.Reply(harness.Text("the other's end")), harness.Program("r = attempt(wait, c)\nprint(r.ok, r.error)"), harness.Reply(harness.Text("lost")))
	c := b.AddCodeTools()
	g := slow(b, c)
	busy := make(chan struct{})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "occupy"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		close(busy)
		<-ctx.Done()
		return "", ctx.Err()
	})
	kill := b.StartCodeNodeWith(workers.Config{Bus: bustest.Open(t, b.Server), Concurrency: 1})
	id, other := b.Open(harness.CodeSession()), b.Open(harness.CodeSession())
	b.RunTurn(id, "t1", harness.Text("go"))
	b.StartTurn(other, "t1", harness.Text("go")) // the first node has its hands full from here on
	harness.Receive(b, "busy", busy)
	b.StartCodeNode(b.Bus)
	b.StartTurn(id, "t2", harness.Text("wait"))
	b.AwaitState(id, "t2 on the other node", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().ID == "t2" })
	close(g.of("a"))
	close(g.of("b"))
	b.AwaitTurn(id, "t2")
	started := harness.Find[*events.TurnStarted](b, id)
	runtest.Equal(t, "on one node", started[0].Worker == started[1].Worker, false)
	runtest.Equal(t, "output", b.Outputs(id)[1], fmt.Sprintf("a %d a\n", 100001))

	kill()
	b.AwaitTurn(other, "t1") // which the second node has taken over
	b.RunTurn(id, "t3", harness.Text("and c"))
	output := b.Outputs(id)[2]
	runtest.Equal(t, "output: "+output, strings.HasPrefix(output, "False abandoned: worker "), true)
	for _, gate := range []string{"a", "b", "c"} {
		runtest.Equal(t, "calls of "+gate, c.Count(gate), 1)
	}
}

// TestCodeHandlesUnreferenced continues in a new frame with one of three started tools.
func TestCodeHandlesUnreferenced(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Program("a, b, c = start(slow, gate=\"a\"), start(slow, gate=\"b\"), start(slow, gate=\"c\")"),
		harness.Program("continue_as(\"the rest\", {\"kept\": [{\"it\": (b, 1)}]})"),
		harness.Program("print(wait(kept[0][\"it\"][0]))"), harness.Reply(harness.Text("done")))
	c := b.AddCodeTools()
	g := slow(b, c)
	b.StartCodeNode(b.Bus)
	id := b.Open(harness.CodeSession())
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndSwitched)
	b.AwaitState(id, "the others' end", func(*projector.State) bool { return live(b, id) == 1 })
	close(g.of("b"))
	runtest.Equal(t, "end of the follow-on", b.AwaitTurn(id, "t1-frame-1").End, events.EndFinished)
	runtest.Equal(t, "output", b.Outputs(id)[2], "b\n")
	list, err := b.Tasks(b.Ctx, id)
	runtest.WantError(t, "tasks", err, nil)
	states := map[events.TaskState]int{}
	for i := range list {
		states[list[i].State]++
	}
	runtest.Equal(t, "cancelled", states[events.TaskCancelled], 2)
	runtest.Equal(t, "completed", states[events.TaskCompleted], 1)
	harness.VerifyHistory(t, b.Bus, id)
}

// TestCodeHandleGone continues with a handle that the session no longer has.
func TestCodeHandleGone(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t,
		harness.Program("a, b = start(slow, gate=\"a\"), start(slow, gate=\"b\")\nprint(a)"), harness.Reply(harness.Text("begun")),
		harness.Program("continue_as(\"the rest\", {\"a\": a})"), harness.Program("print(attempt(wait, a).error)"), harness.Reply(harness.Text("done")))
	slow(b, b.AddCodeTools())
	b.StartCodeNode(b.Bus)
	id := b.Open(harness.CodeSession())
	b.RunTurn(id, "t1", harness.Text("go"))
	list, err := b.Tasks(b.Ctx, id)
	runtest.WantError(t, "tasks", err, nil)
	removed := list[0].ID
	runtest.WantError(t, "unregister", b.UnregisterTask(b.Ctx, id, removed), nil)
	runtest.Equal(t, "end", b.RunTurn(id, "t2", harness.Text("on")).End, events.EndFinished)
	outputs := b.Outputs(id)
	runtest.Equal(t, "names it: "+outputs[1], strings.HasPrefix(outputs[1], "[error] continue_as: ") && strings.Contains(outputs[1], string(removed)), true)
	runtest.Equal(t, "waiting for it", outputs[2], "there is no task "+string(removed)+", or its result was forgotten\n")
	runtest.Equal(t, "frames", len(b.StateOf(id).Frames), 1)
	runtest.Equal(t, "the other one lives", live(b, id), 1)
}

// TestCodeSwitchLimit switches frames up to the limit. The switch beyond it changes and cancels nothing.
func TestCodeSwitchLimit(t *testing.T) {
	t.Parallel()
	script := []harness.Step{}
	for i := range 17 {
		before := "h = start(slow, gate=\"h\")\n"
		if i > 0 {
			before = ""
		}
		seed := "{\"h\": h}"
		if i == 16 {
			seed = "{}"
		}
		script = append(script, harness.Program(before+"continue_as(\"again\", "+seed+")"))
	}
	b := harness.StartIdle(t, append(script, harness.Program("print(h)"), harness.Reply(harness.Text("over")))...)
	slow(b, b.AddCodeTools())
	b.StartCodeNode(b.Bus)
	id := b.Open(harness.CodeSession())
	b.StartTurn(id, "t1", harness.Text("go"))
	last := b.AwaitTurn(id, "t1-frame-16")
	runtest.Equal(t, "end", last.End, events.EndRuntimeError)
	runtest.Equal(t, "code", last.Issue.Code, "agent_frame_switch_limit")
	runtest.Equal(t, "frames", len(b.StateOf(id).Frames), 1+events.MaxSwitches)
	runtest.Equal(t, "live tasks", live(b, id), 1)
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("and")).End, events.EndFinished)
	runtest.Equal(t, "the variable: "+b.Outputs(id)[17], strings.HasPrefix(b.Outputs(id)[17], "<task tool-"), true)
}

// TestCodeHandlesRefused starts tools that need a feature which a started tool does not have.
func TestCodeHandlesRefused(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("for h in [start(broken), start(once), start(outer), start(add, a=1)]: print(attempt(wait, h))"),
		harness.Program("h = start(broken)\nwait(h)\nprint(\"never\")"), harness.Program("print(attempt(start, add, b=2), attempt(start, \"nobody\"))"), harness.Reply(harness.Text("done")))
	c := b.AddCodeTools()
	harness.OuterTool(b.Tools, plugin.NestedCall{Tool: "add", Args: []byte(`{"a":1}`)})
	b.StartNode(append(workers.Builtins()[1:], plugin.Func("ask", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool == "once" {
				return []plugin.Directive{plugin.Ask("really?")}, nil
			}
			return nil, nil
		})
		return r.Tools(b.Tools)
	}))...)
	id := b.Open(harness.CodeSession())
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	outputs := b.Outputs(id)
	complains(t, outputs[0], "out of paper 1", "needs an approval, which a tool that was started cannot have", "a tool that was started cannot call tools", "result(ok=True, value=1)\n")
	complains(t, outputs[1], "[error] line 2: wait(h)\nbroken failed: out of paper 2")
	complains(t, outputs[2], "[error] ", "nobody")
	runtest.Equal(t, "calls of what was not approved", c.Count("once"), 0)
}

// TestCodeContinueAt fills the window. The turn continues in a new frame with every variable and every task, also
// where the state is in a blob.
func TestCodeContinueAt(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 1, "large": 100_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := harness.ReplyStopped(events.StopEnd, events.Usage{Input: 60, Output: 5}, harness.CodeBlock(fmt.Sprintf("x = 41\ny = \"y\" * %d\nh = start(slow, gate=\"g\")", size)))
			b := harness.StartIdle(t, full, harness.Reply(harness.Text("Add one to x.")), harness.Program("print(x + 1, len(y), wait(h))"), harness.Reply(harness.Text("It is 42.")))
			g := slow(b, b.AddCodeTools())
			kill := b.StartCodeNode(b.Bus)
			defer kill()
			req := harness.CodeSession()
			req.Config.ContextWindow = 100
			req.Options = map[string]string{"code": `{"continue_at_percent":50}`}
			id := b.Open(req)
			runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("What is it?")).End, events.EndSwitched)
			runtest.Equal(t, "live tasks", live(b, id), 1)
			close(g.of("g"))
			runtest.Equal(t, "end of the follow-on", b.AwaitTurn(id, "t1-frame-1").End, events.EndFinished)
			runtest.Equal(t, "output", b.Outputs(id)[1], fmt.Sprintf("42 %d g\n", size))
			prompt := b.Model.Prompt(2)
			runtest.Equal(t, "task", prompt[len(prompt)-1], "user Add one to x.")
			runtest.Equal(t, "what came before", strings.Contains(strings.Join(prompt, "\n"), "What is it?"), false)
			runtest.Equal(t, "variables of the frame", len(b.StateOf(id).Frames), 2)
			harness.VerifyHistory(t, b.Bus, id)
		})
	}
}
