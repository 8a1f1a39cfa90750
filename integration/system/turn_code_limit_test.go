package system

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/code"
)

// limited starts a node whose programs have these limits.
func limited(b *harness.System, limits code.Limits) {
	b.T.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{
		Builtins:  workers.Builtins(),
		Factories: []plugin.Factory{code.Factory(code.Config{Limits: limits}), plugin.OfTools("tools", func(events.SessionID) *plugin.Tools { return b.Tools })},
	})
	runtest.WantError(b.T, "plugins", err, nil)
	b.StartCodeNodeWith(workers.Config{Bus: b.Bus, Plugins: builder})
}

// complains checks that an output has all of these texts.
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
	b, id, _ := harness.StartCode(t, harness.Program("continue_as(\"x\" * 1000000)"), harness.Reply(harness.Text("so be it")))
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	complains(t, b.Outputs(id)[0], "continue_as: the task is too long")
	runtest.Equal(t, "frames", len(b.StateOf(id).Frames), 1)
}

// TestSwitchTooLarge has a tool switch to a frame that no event could hold, and to one whose bodies fit in no
// event but in blobs.
func TestSwitchTooLarge(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "go", `{"task":1000000}`)), harness.Reply(harness.Call("k", "go", `{"node":1000000}`)), harness.Reply(harness.Text("done")))
	plugin.AddTool(b.Tools, plugin.Tool{Name: "go"}, func(_ context.Context, _ plugin.Call, in struct {
		Task int `json:"task,omitempty"`
		Node int `json:"node,omitempty"`
	},
	) (plugin.Result, error) {
		nodes := []events.NewNode{}
		for i := range 10 {
			nodes = append(nodes, harness.SeedNode(events.NodeID(fmt.Sprintf("s%d", i)), events.RoleUser, strings.Repeat("n", in.Node/10)))
		}
		return plugin.Result{Text: "on", Control: events.ControlSwitch, Switch: events.FrameSwitch{
			Frame: "next", Task: "on" + strings.Repeat("t", in.Task), Nodes: nodes,
		}}, nil
	})
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndSwitched)
	results := harness.Find[*events.ToolReturned](b, id)
	runtest.Equal(t, "outcome of the first", results[0].Results[0].Outcome, events.OutcomeFailure)
	runtest.Equal(t, "code of the first", results[0].Results[0].Code, "agent_frame_too_large")
	runtest.Equal(t, "end of the follow-on", b.AwaitTurn(id, "t1-frame-1").End, events.EndFinished)
	prompt := b.Model.Prompt(2)
	runtest.Equal(t, "messages", len(prompt), 11)
	runtest.Equal(t, "a seed", len(prompt[9]), len("user ")+100_000)
}

// TestFailureTooLarge has a tool fail with more text than an event could hold, in every field.
func TestFailureTooLarge(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "fails", "{}")), harness.Reply(harness.Text("done")))
	plugin.AddTool(b.Tools, plugin.Tool{Name: "fails"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		long := strings.Repeat("x", 300_000)
		return "", &plugin.Failure{Class: long, Code: long, Message: long}
	})
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	result := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
	runtest.Equal(t, "outcome", result.Outcome, events.OutcomeFailure)
	runtest.Equal(t, "size of the message", result.Blob.Size, int64(len("[failed] "))+300_000)
}

// TestCodeStateTooLarge has a program with more state than the limit: only its calls are recorded.
func TestCodeStateTooLarge(t *testing.T) {
	t.Parallel()
	b, id, c := harness.StartCode(t,
		harness.Program("a = 1"), harness.Program("a = 2\nb = once()\nbig = [str(i) * 20 for i in range(20000)]\nfinish(b)"),
		harness.Program("continue_as(\"on\", {\"big\": \"x\" * 2000000})"),
		harness.Program("print(a)\nb = \"y\" * 900000"), harness.Program("finish(len(b) + a)"))
	r := b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "end", r.End, events.EndSubmitted)
	runtest.Equal(t, "value", b.Outcome(id, "t1").Value, "900001")
	outputs := b.Outputs(id)
	complains(t, outputs[1], "[error] with big the variables take more than 1048576 bytes", "as before this program")
	complains(t, outputs[2], "[error] ", "the seed takes more than 1048576 bytes with big")
	runtest.Equal(t, "output", outputs[3], "1\n")
	runtest.Equal(t, "calls", c.Count("once"), 1)
	runtest.Equal(t, "frames", len(b.StateOf(id).Frames), 1)
	runtest.Equal(t, "saved states", len(harness.Find[*events.FrameStateSaved](b, id)), 2)
	harness.VerifyHistory(t, b.Bus, id)
}

// TestCodeTimeLimit stops a program at its time limit: only the error is recorded.
func TestCodeTimeLimit(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("a = 1"), harness.Program("a = 2\nprint(once())\nwhile True: pass"), harness.Program("print(a)"), harness.Reply(harness.Text("done")))
	c := b.AddCodeTools()
	limited(b, code.Limits{Timeout: 5 * time.Second, Steps: 1 << 60})
	id := b.Open(harness.CodeSession())
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	outputs := b.Outputs(id)
	complains(t, outputs[1], "once-1\n[error] the program ran longer than 5s")
	runtest.Equal(t, "variable", outputs[2], "1\n")
	runtest.Equal(t, "calls", c.Count("once"), 1)
}

// TestCodeCallLimits bounds the calls of one program.
func TestCodeCallLimits(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("for i in range(9): add(a=i)"), harness.Program("gather([call(add, a=1)] * 4)"), harness.Program("for i in range(9): start(add, a=i)"),
		harness.Program("finish(\"v\" * 300000)"))
	c := b.AddCodeTools()
	limited(b, code.Limits{Calls: 3})
	id := b.Open(harness.CodeSession())
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndSubmitted)
	for _, output := range b.Outputs(id)[:3] {
		complains(t, output, "called too many tools (limit 3)")
	}
	runtest.Equal(t, "value", len(b.Outcome(id, "t1").Value), 300_002)
	b.AwaitState(id, "the started ones' end", idleTasks(b, id))
	runtest.Equal(t, "calls", c.Count("add"), 3+0+3)
}

// TestCodeDeepData passes values that nest too deeply, or contain themselves.
func TestCodeDeepData(t *testing.T) {
	t.Parallel()
	deep := "x = []\nfor i in range(1000): x = [x]\n"
	b, id, _ := harness.StartCode(t, harness.Program(deep+"print(x)"), harness.Program(deep+"add(a=x)"), harness.Program(deep+"finish(x)"), harness.Program("x = {}\nx[\"x\"] = x\nfinish(x)"),
		harness.Program("print("+strings.Repeat("(", 5000)), harness.Program("x = 1"+strings.Repeat(" + 1", 10000)+"\nprint(x)"), harness.Program("print(\"x\")"), harness.Reply(harness.Text("enough")))
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	for i, want := range []string{"[[[[", "nests deeper", "nests deeper", "cycle", "excessive nesting", "10001\n", "x\n"} {
		complains(t, b.Outputs(id)[i], want)
	}
}

// TestCodeMemoryLimit ends a program at its memory limit: only its call and the error are recorded, and the node goes on.
func TestCodeMemoryLimit(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("a = 1"), harness.Program("a = 2\nprint(once())\nx = [0]\nwhile True: x = x + x"), harness.Program("print(a)"), harness.Reply(harness.Text("done")))
	c := b.AddCodeTools()
	limited(b, code.Limits{MemoryBytes: 16 << 20, Timeout: 10 * time.Minute})
	id := b.Open(harness.CodeSession())
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	outputs := b.Outputs(id)
	complains(t, outputs[1], "once-1\n[error] the program went beyond its memory limit (16777216 bytes)")
	runtest.Equal(t, "variable", outputs[2], "1\n")
	runtest.Equal(t, "calls", c.Count("once"), 1)
	harness.VerifyHistory(t, b.Bus, id)
}

// TestCodeCancelled cancels a turn in the middle of a program.
func TestCodeCancelled(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("a = 1"), harness.Program("a = 2\nonce()\nhang()"), harness.Program("print(a)"), harness.Reply(harness.Text("done")))
	c := b.AddCodeTools()
	started := make(chan struct{})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "hang"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		close(started)
		<-ctx.Done()
		return "", ctx.Err()
	})
	b.StartCodeNode(bustest.Open(t, b.Server))
	id := b.Open(harness.CodeSession())
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	_, _, err := b.Cancel(b.Ctx, id, "t1", api.CancelRequest{})
	runtest.WantError(t, "cancel", err, nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
	runtest.Equal(t, "next", b.RunTurn(id, "t2", harness.Text("again")).End, events.EndFinished)
	outputs := b.Outputs(id)
	runtest.Equal(t, "variable", outputs[len(outputs)-1], "1\n")
	runtest.Equal(t, "calls", c.Count("once"), 1)
	harness.VerifyHistory(t, b.Bus, id)
}

// TestCodeRambling has a model that continues its reply after the block, and never ends.
func TestCodeRambling(t *testing.T) {
	t.Parallel()
	b, id, _ := harness.StartCode(t, harness.Hang(make(chan struct{}), harness.CodeBlock("print(1)"), harness.Text("And then it goes on.")), harness.Reply(harness.Text("done")))
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.EqualLists(t, "messages", b.Messages(id)[3:], []string{"assistant done"})
	runtest.EqualLists(t, "output", b.Outputs(id), []string{"1\n"})
	runtest.Equal(t, "what is kept of the reply", len(harness.Find[*events.ModelReplied](b, id)[0].Parts), 1)
}

// TestCodeUsage counts the cost of a reply with a program: its usage arrives after the block.
func TestCodeUsage(t *testing.T) {
	t.Parallel()
	b, id, _ := harness.StartCode(t, harness.Program("print(1)"), harness.Program("print(2)"), harness.Reply(harness.Text("done")))
	runtest.Equal(t, "usage", b.RunTurn(id, "t1", harness.Text("go")).Usage, events.Usage{Input: 30, Output: 15})
}
