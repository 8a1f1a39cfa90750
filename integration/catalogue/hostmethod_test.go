package catalogue

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// TestMethodsOfPluginHost has a tool use the host that plugins get: a method that does nothing is noticed. The child's turn does not end
// before the tool waits for it, and its run not before the tool ends.
func TestMethodsOfPluginHost(t *testing.T) {
	t.Parallel()
	waits, used := make(chan struct{}), make(chan struct{})
	var b *harness.System
	b = harness.StartIdle(t,
		harness.Reply(harness.Call("k1", "use", `{}`)),
		func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
			harness.Receive(b, "the wait for the child", waits)
			return harness.ReplyStopped(events.StopEnd, events.Usage{Input: 3, Output: 2}, harness.Text("advice"))(ctx, req)
		},
		harness.Reply(harness.Text("done")))
	var prompts []int64
	b.StartNode(harness.PluginOf("user", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "other"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
		plugin.AddTool(r, plugin.Tool{Name: "use"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			defer close(used)
			return "used", errors.Join(awaitsTurns(ctx, b, c, waits), cancelsTasks(ctx, t, c), setsLevels(ctx, t, c))
		})
		r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
			if e.Kind == plugin.TurnPersisted && e.Session == "child" {
				select {
				case <-used:
				case <-ctx.Done():
				}
			}
			return nil
		})
		r.BeforeModelCall(func(_ context.Context, in plugin.ModelContext) ([]plugin.Directive, error) {
			if in.Session == "parent" {
				prompts = append(prompts, in.LastPrompt)
			}
			return nil, nil
		})
	}))
	id := b.Open(api.CreateRequest{ID: "parent"})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.Equal(t, "result", b.ResultsByPosition(id)[0].Text, "used")
	runtest.EqualLists(t, "tokens of the last prompt", prompts, []int64{0, 10})
}

// awaitsTurns waits for a child's turn: its outcome is there then, and its usage is charged to its parent.
func awaitsTurns(ctx context.Context, b *harness.System, c plugin.Call, waits chan struct{}) error {
	child, err := c.Host.CreateSession(ctx, api.CreateRequest{ID: "child", Relation: events.RelationChild, Usage: "help"})
	if err != nil {
		return err
	}
	turn, _, err := c.Host.StartTurnStream(ctx, child.Session, api.TurnRequest{ID: "c1", Input: events.TurnInput{Parts: []events.Part{harness.Text("help")}}})
	if err != nil {
		return err
	}
	close(waits)
	got, err := c.Host.AwaitTurn(ctx, child.Session, turn)
	if err != nil {
		return err
	}
	runtest.Equal(b.T, "what the child says", got.Output.SafeText, "advice")
	charged := harness.Find[*events.UsageCharged](b, c.Session)
	runtest.Equal(b.T, "charges", len(charged), 1)
	for _, charge := range charged {
		runtest.EqualLists(b.T, "charged", charge.Entries, []events.UsageEntry{{Usage: events.Usage{Input: 3, Output: 2}}})
	}
	return nil
}

// cancelsTasks cancels a task that is known and one that is not.
func cancelsTasks(ctx context.Context, t *testing.T, c plugin.Call) error {
	_, err := c.Host.RegisterTask(ctx, c.Session, api.TaskRequest{ID: "build", Of: events.TaskTool})
	if err != nil {
		return err
	}
	if err := errors.Join(c.Host.CancelTaskIfKnown(ctx, c.Session, "build"), c.Host.CancelTaskIfKnown(ctx, c.Session, "none")); err != nil {
		return err
	}
	list, err := c.Host.Tasks(ctx, c.Session)
	runtest.Equal(t, "tasks", len(list), 1)
	for _, task := range list {
		runtest.Equal(t, "state of "+string(task.ID), task.State, events.TaskCancelled)
	}
	return err
}

// setsLevels sets a tool's level, and puts it back.
func setsLevels(ctx context.Context, t *testing.T, c plugin.Call) error {
	for _, want := range []events.Override{events.Overridden(events.AvailOff), ""} {
		if _, err := c.Host.SetToolAvailability(ctx, c.Session, "other", want); err != nil {
			return err
		}
		state, err := c.Host.ToolState(ctx, c.Session)
		if err != nil {
			return err
		}
		for _, tool := range state.Tools {
			if tool.Name == "other" {
				runtest.Equal(t, "override", tool.Override, want)
			}
		}
	}
	return nil
}
