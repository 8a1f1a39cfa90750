package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/code"
	"github.com/lash-go/lash/workers/builtin/code/sandbox"
)

// limited starts a node whose programs have these limits.
func (b *bundle) limited(limits sandbox.Limits) {
	b.t.Helper()
	h, err := plugin.NewHost(plugin.HostConfig{
		Builtins:  workers.Builtins(),
		Factories: []plugin.Factory{code.Factory(code.Config{Limits: limits}), plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return b.tools })},
	})
	must(b.t, "plugins", err, nil)
	b.codeNodeWith(workers.Config{Bus: b.bus, Plugins: h})
}

// complains checks that an output has all of what is wanted.
func complains(t *testing.T, output string, want ...string) {
	t.Helper()
	for _, s := range want {
		if !strings.Contains(output, s) {
			t.Errorf("output: got %.500q, want %q in it", output, s)
		}
	}
}

func TestCodeTaskTooLarge(t *testing.T) {
	t.Parallel()
	b, id, _ := setupCode(t, program("continue_as(\"x\" * 1000000)"), reply(text("so be it")))
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	complains(t, b.outputs(id)[0], "continue_as: the task is too long")
	equal(t, "frames", len(b.state(id).Frames), 1)
}

// TestSwitchTooLarge has a tool go on with what no event could hold, and with
// bodies that fit in none but can be kept outside.
func TestSwitchTooLarge(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "go", `{"task":1000000}`)), reply(call("k", "go", `{"node":1000000}`)), reply(text("done")))
	plugin.AddTool(b.tools, plugin.Tool{Name: "go"}, func(_ context.Context, _ plugin.Call, in struct {
		Task int `json:"task,omitempty"`
		Node int `json:"node,omitempty"`
	},
	) (plugin.Result, error) {
		nodes := []events.NewNode{}
		for i := range 10 {
			nodes = append(nodes, seed(events.NodeID(fmt.Sprintf("s%d", i)), events.RoleUser, strings.Repeat("n", in.Node/10)))
		}
		return plugin.Result{Text: "on", Control: events.ControlSwitch, Switch: events.FrameSwitch{
			Frame: "next", Task: "on" + strings.Repeat("t", in.Task), Nodes: nodes,
		}}, nil
	})
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndSwitched)
	results := find[*events.ToolReturned](b, id)
	equal(t, "outcome of the first", results[0].Results[0].Outcome, events.OutcomeFailure)
	equal(t, "code of the first", results[0].Results[0].Code, "agent_frame_too_large")
	equal(t, "end of the follow-on", b.ended(id, "t1-frame-1").End, events.EndFinished)
	prompt := b.model.prompt(2)
	equal(t, "messages", len(prompt), 11)
	equal(t, "a seed", len(prompt[9]), len("user ")+100_000)
}

// TestFailureTooLarge has a tool fail with more than an event could hold, in every field.
func TestFailureTooLarge(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "fails", "{}")), reply(text("done")))
	plugin.AddTool(b.tools, plugin.Tool{Name: "fails"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		long := strings.Repeat("x", 300_000)
		return "", &plugin.Failure{Class: long, Code: long, Message: long}
	})
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	result := find[*events.ToolReturned](b, id)[0].Results[0]
	equal(t, "outcome", result.Outcome, events.OutcomeFailure)
	equal(t, "size of the message", result.Blob.Size, int64(len("[failed] "))+300_000)
}

// TestCodeStateTooLarge leaves more behind than is kept: nothing of the program counts but its calls.
func TestCodeStateTooLarge(t *testing.T) {
	t.Parallel()
	b, id, c := setupCode(t,
		program("a = 1"), program("a = 2\nb = once()\nbig = [str(i) * 20 for i in range(20000)]\nfinish(b)"),
		program("continue_as(\"on\", {\"big\": \"x\" * 2000000})"),
		program("print(a)\nb = \"y\" * 900000"), program("finish(len(b) + a)"))
	r := b.run(id, "t1", text("go"))
	equal(t, "end", r.End, events.EndSubmitted)
	equal(t, "value", b.outcome(id, "t1").Value, "900001")
	outputs := b.outputs(id)
	complains(t, outputs[1], "[error] with big the variables take more than 1048576 bytes", "as before this program")
	complains(t, outputs[2], "[error] ", "the seed takes more than 1048576 bytes with big")
	equal(t, "output", outputs[3], "1\n")
	equal(t, "calls", c.of("once"), 1)
	equal(t, "frames", len(b.state(id).Frames), 1)
	equal(t, "saved states", len(find[*events.FrameStateSaved](b, id)), 2)
	verified(t, b.bus, id)
}

// TestCodeTimeLimit stops a program by the clock: of it stays only the error.
func TestCodeTimeLimit(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, program("a = 1"), program("a = 2\nprint(once())\nwhile True: pass"), program("print(a)"), reply(text("done")))
	c := b.codeTools()
	b.limited(sandbox.Limits{Timeout: 2 * time.Second, Steps: 1 << 60})
	id := b.open(inCode())
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	outputs := b.outputs(id)
	complains(t, outputs[1], "once-1\n[error] the program ran longer than 2s")
	equal(t, "variable", outputs[2], "1\n")
	equal(t, "calls", c.of("once"), 1)
}

// TestCodeCallLimits bounds what one program may ask of others.
func TestCodeCallLimits(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, program("for i in range(9): add(a=i)"), program("gather([call(add, a=1)] * 4)"), program("for i in range(9): start(add, a=i)"),
		program("finish(\"v\" * 300000)"))
	c := b.codeTools()
	b.limited(sandbox.Limits{Calls: 3})
	id := b.open(inCode())
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndSubmitted)
	for _, output := range b.outputs(id)[:3] {
		complains(t, output, "called too many tools (limit 3)")
	}
	equal(t, "value", len(b.outcome(id, "t1").Value), 300_002)
	b.await(id, "the started ones' end", b.idleTasks(id))
	equal(t, "calls", c.of("add"), 3+0+3)
}

// TestCodeDeepData hands over what nests too deeply, or contains itself.
func TestCodeDeepData(t *testing.T) {
	t.Parallel()
	deep := "x = []\nfor i in range(100000): x = [x]\n"
	b, id, _ := setupCode(t, program(deep+"print(x)"), program(deep+"add(a=x)"), program(deep+"finish(x)"), program("x = {}\nx[1] = x\nfinish(x)"),
		program("print("+strings.Repeat("(", 5000)), program("x = 1"+strings.Repeat(" + 1", 10000)), program("print(\"x\")"), reply(text("enough")))
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	for i, want := range []string{"nests deeper", "nests deeper", "nests deeper", "contains itself", "brackets are open", "nests deeper", "x\n"} {
		complains(t, b.outputs(id)[i], want)
	}
}

// TestCodeCancelled cancels a turn in the middle of a program.
func TestCodeCancelled(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, program("a = 1"), program("a = 2\nonce()\nhang()"), program("print(a)"), reply(text("done")))
	c := b.codeTools()
	begun := make(chan struct{})
	plugin.AddTool(b.tools, plugin.Tool{Name: "hang"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		close(begun)
		<-ctx.Done()
		return "", ctx.Err()
	})
	b.codeNode(bustest.Open(t, b.server))
	id := b.open(inCode())
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	_, _, err := b.Cancel(b.ctx, id, "t1", api.CancelRequest{})
	must(t, "cancel", err, nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	equal(t, "next", b.run(id, "t2", text("again")).End, events.EndFinished)
	outputs := b.outputs(id)
	equal(t, "variable", outputs[len(outputs)-1], "1\n")
	equal(t, "calls", c.of("once"), 1)
	verified(t, b.bus, id)
}

// TestCodeRambling has a model that writes on after its block, and never ends.
func TestCodeRambling(t *testing.T) {
	t.Parallel()
	b, id, _ := setupCode(t, hangs(make(chan struct{}), block("print(1)"), text("And then it goes on.")), reply(text("done")))
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	equalLists(t, "messages", b.messages(id)[3:], []string{"assistant done"})
	equalLists(t, "output", b.outputs(id), []string{"1\n"})
	equal(t, "what is kept of the reply", len(find[*events.ModelReplied](b, id)[0].Parts), 1)
}

// TestCodeUsage counts what a reply with a program has cost: its usage comes after the block.
func TestCodeUsage(t *testing.T) {
	t.Parallel()
	b, id, _ := setupCode(t, program("print(1)"), program("print(2)"), reply(text("done")))
	equal(t, "usage", b.run(id, "t1", text("go")).Usage, events.Usage{Input: 30, Output: 15})
}
