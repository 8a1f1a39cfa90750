package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// gates are tools' calls that wait to be let through, by name.
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

// slow adds a tool whose calls wait at a gate, and then give as many bytes as asked for.
func (b *bundle) slow(c *coded) *gates {
	g := &gates{}
	plugin.AddTool(b.tools, plugin.Tool{Name: "slow"}, func(ctx context.Context, _ plugin.Call, in struct {
		Gate string `json:"gate"`
		Size int    `json:"size,omitempty"`
	},
	) (string, error) {
		c.count(in.Gate)
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
func (b *bundle) live(id events.SessionID) int {
	b.t.Helper()
	list, err := b.Tasks(b.ctx, id)
	must(b.t, "tasks", err, nil)
	n := 0
	for i := range list {
		if list[i].Live() {
			n++
		}
	}
	return n
}

// idleTasks reports, whenever it is asked, whether all tasks of a session have ended.
func (b *bundle) idleTasks(id events.SessionID) func(*projector.State) bool {
	return func(*projector.State) bool { return b.live(id) == 0 }
}

// TestCodeHandlesAcrossNodes starts tools on one node and waits for them on
// another, while the first lives and after it has died.
func TestCodeHandlesAcrossNodes(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		program("a, b, c = start(slow, gate=\"a\"), start(slow, gate=\"b\", size=100000), start(slow, gate=\"c\")"), reply(text("begun")),
		program("occupy()"),
		program("print(wait(a), len(wait(b)), wait(a))"), reply(text("two")),
		reply(text("the other's end")), program("r = attempt(wait, c)\nprint(r.ok, r.error)"), reply(text("lost")))
	c := b.codeTools()
	g := b.slow(c)
	busy := make(chan struct{})
	plugin.AddTool(b.tools, plugin.Tool{Name: "occupy"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		close(busy)
		<-ctx.Done()
		return "", ctx.Err()
	})
	kill := b.codeNodeWith(workers.Config{Bus: bustest.Open(t, b.server), Concurrency: 1})
	id, other := b.open(inCode()), b.open(inCode())
	b.run(id, "t1", text("go"))
	b.submit(other, "t1", text("go")) // the first node has its hands full from here on
	receive(b, "busy", busy)
	b.codeNode(b.bus)
	b.submit(id, "t2", text("wait"))
	b.await(id, "t2 on the other node", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().ID == "t2" })
	close(g.of("a"))
	close(g.of("b"))
	b.ended(id, "t2")
	started := find[*events.TurnStarted](b, id)
	equal(t, "on one node", started[0].Worker == started[1].Worker, false)
	equal(t, "output", b.outputs(id)[1], fmt.Sprintf("a %d a\n", 100001))

	kill()
	b.ended(other, "t1") // which the second node has taken over
	b.run(id, "t3", text("and c"))
	output := b.outputs(id)[2]
	equal(t, "output: "+output, strings.HasPrefix(output, "False abandoned: worker "), true)
	for _, gate := range []string{"a", "b", "c"} {
		equal(t, "calls of "+gate, c.of(gate), 1)
	}
}

// TestCodeHandlesUnreferenced goes on in a new frame with one of three started tools.
func TestCodeHandlesUnreferenced(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		program("a, b, c = start(slow, gate=\"a\"), start(slow, gate=\"b\"), start(slow, gate=\"c\")"),
		program("continue_as(\"the rest\", {\"kept\": [{\"it\": (b, 1)}]})"),
		program("print(wait(kept[0][\"it\"][0]))"), reply(text("done")))
	c := b.codeTools()
	g := b.slow(c)
	b.codeNode(b.bus)
	id := b.open(inCode())
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndSwitched)
	b.await(id, "the others' end", func(*projector.State) bool { return b.live(id) == 1 })
	close(g.of("b"))
	equal(t, "end of the follow-on", b.ended(id, "t1-frame-1").End, events.EndFinished)
	equal(t, "output", b.outputs(id)[2], "b\n")
	list, err := b.Tasks(b.ctx, id)
	must(t, "tasks", err, nil)
	states := map[events.TaskState]int{}
	for i := range list {
		states[list[i].State]++
	}
	equal(t, "cancelled", states[events.TaskCancelled], 2)
	equal(t, "completed", states[events.TaskCompleted], 1)
	verified(t, b.bus, id)
}

// TestCodeHandleGone goes on with a handle that the session does not have any more.
func TestCodeHandleGone(t *testing.T) {
	t.Parallel()
	b := setupIdle(t,
		program("a, b = start(slow, gate=\"a\"), start(slow, gate=\"b\")\nprint(a)"), reply(text("begun")),
		program("continue_as(\"the rest\", {\"a\": a})"), program("print(attempt(wait, a).error)"), reply(text("done")))
	b.slow(b.codeTools())
	b.codeNode(b.bus)
	id := b.open(inCode())
	b.run(id, "t1", text("go"))
	list, err := b.Tasks(b.ctx, id)
	must(t, "tasks", err, nil)
	gone := list[0].ID
	must(t, "unregister", b.UnregisterBackgroundTask(b.ctx, id, gone), nil)
	equal(t, "end", b.run(id, "t2", text("on")).End, events.EndFinished)
	outputs := b.outputs(id)
	equal(t, "names it: "+outputs[1], strings.HasPrefix(outputs[1], "[error] continue_as: ") && strings.Contains(outputs[1], string(gone)), true)
	equal(t, "waiting for it", outputs[2], "there is no task "+string(gone)+", or its result was forgotten\n")
	equal(t, "frames", len(b.state(id).Frames), 1)
	equal(t, "the other one lives", b.live(id), 1)
}

// TestCodeSwitchLimit goes on and on. The one that is too much switches nothing and cancels nothing.
func TestCodeSwitchLimit(t *testing.T) {
	t.Parallel()
	script := []step{}
	for i := range 17 {
		before := "h = start(slow, gate=\"h\")\n"
		if i > 0 {
			before = ""
		}
		seed := "{\"h\": h}"
		if i == 16 {
			seed = "{}"
		}
		script = append(script, program(before+"continue_as(\"again\", "+seed+")"))
	}
	b := setupIdle(t, append(script, program("print(h)"), reply(text("over")))...)
	b.slow(b.codeTools())
	b.codeNode(b.bus)
	id := b.open(inCode())
	b.submit(id, "t1", text("go"))
	last := b.ended(id, "t1-frame-16")
	equal(t, "end", last.End, events.EndRuntimeError)
	equal(t, "code", last.Issue.Code, "agent_frame_switch_limit")
	equal(t, "frames", len(b.state(id).Frames), 1+events.MaxSwitches)
	equal(t, "live tasks", b.live(id), 1)
	equal(t, "next turn", b.run(id, "t2", text("and")).End, events.EndFinished)
	equal(t, "the variable: "+b.outputs(id)[17], strings.HasPrefix(b.outputs(id)[17], "<task tool-"), true)
}

// TestCodeHandlesRefused starts what needs what a started tool cannot have.
func TestCodeHandlesRefused(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, program("for h in [start(broken), start(once), start(outer), start(add, a=1)]: print(attempt(wait, h))"),
		program("h = start(broken)\nwait(h)\nprint(\"never\")"), program("print(attempt(start, add, b=2), attempt(start, \"nobody\"))"), reply(text("done")))
	c := b.codeTools()
	outer(b.tools, plugin.NestedCall{Tool: "add", Args: []byte(`{"a":1}`)})
	b.node(append(workers.Builtins()[1:], plugin.Func("ask", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool == "once" {
				return []plugin.Directive{plugin.Ask("really?")}, nil
			}
			return nil, nil
		})
		return r.Tools(b.tools)
	}))...)
	id := b.open(inCode())
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	outputs := b.outputs(id)
	complains(t, outputs[0], "out of paper 1", "needs an approval, which a tool that was started cannot have", "a tool that was started cannot call tools", "result(ok=True, value=1)\n")
	complains(t, outputs[1], "[error] line 2: wait(h)\nbroken failed: out of paper 2")
	complains(t, outputs[2], "[error] ", "nobody")
	equal(t, "calls of what was not approved", c.of("once"), 0)
}

// TestCodeContinueAt fills the window: the turn goes on in a new frame with
// every variable and every task, also where the state is kept in a blob.
func TestCodeContinueAt(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 1, "large": 100_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := stopped(events.StopEnd, events.Usage{Input: 60, Output: 5}, block(fmt.Sprintf("x = 41\ny = \"y\" * %d\nh = start(slow, gate=\"g\")", size)))
			b := setupIdle(t, full, reply(text("Add one to x.")), program("print(x + 1, len(y), wait(h))"), reply(text("It is 42.")))
			g := b.slow(b.codeTools())
			kill := b.codeNode(b.bus)
			defer kill()
			req := inCode()
			req.Config.ContextWindow = 100
			req.Options = map[string]string{"code": `{"continue_at_percent":50}`}
			id := b.open(req)
			equal(t, "end", b.run(id, "t1", text("What is it?")).End, events.EndSwitched)
			equal(t, "live tasks", b.live(id), 1)
			close(g.of("g"))
			equal(t, "end of the follow-on", b.ended(id, "t1-frame-1").End, events.EndFinished)
			equal(t, "output", b.outputs(id)[1], fmt.Sprintf("42 %d g\n", size))
			prompt := b.model.prompt(2)
			equal(t, "task", prompt[len(prompt)-1], "user Add one to x.")
			equal(t, "what came before", strings.Contains(strings.Join(prompt, "\n"), "What is it?"), false)
			equal(t, "variables of the frame", len(b.state(id).Frames), 2)
			verified(t, b.bus, id)
		})
	}
}
