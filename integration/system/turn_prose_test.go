package system

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestProjectedReplyIsRecorded shows users the text that a plugin makes of the model's reply. The text is recorded with the reply:
// hosts without the plugin have it, and a node that takes over does not call the plugin again.
func TestProjectedReplyIsRecorded(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a line\n", 20_000) // of which neither form fits an event
	started := make(chan struct{})
	b := harness.StartIdle(t, harness.Reply(harness.Text("see <secret>"), harness.Call("k", "noop", "{}")), harness.Hang(started), harness.Reply(harness.Text("so <secret>")),
		harness.Reply(harness.Text(large)), harness.Reply(harness.Text("boom")), harness.Reply(harness.Text("<secret>")))
	stack := harness.PluginOf("prose", func(r *plugin.Registrar) {
		harness.NamedTools(r, "noop")
		r.ProjectProse(func(s string) string {
			if s == "boom" {
				panic("no prose")
			}
			return strings.ToUpper(strings.ReplaceAll(s, "<secret>", ""))
		})
	})
	_, kill := b.StartNodeOn(bustest.Open(t, b.Server), stack)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	<-started
	kill()
	b.StartNodeOn(b.Bus, stack)
	b.AwaitTurn(id, "t1")
	output := func(turn events.TurnID) api.AssistantOutput {
		t.Helper()
		got, err := b.OtherHost().AssembledTurn(b.Ctx, id, turn)
		runtest.WantError(t, "assemble", err, nil)
		return got.Output
	}
	runtest.Equal(t, "output", output("t1"), api.AssistantOutput{SafeText: "SO ", RawText: "so <secret>", State: api.OutputUsable})
	runtest.Equal(t, "what the model said", b.Messages(id)[1], "assistant see <secret> k:noop{}")
	runtest.Equal(t, "what the model is told that it said", b.Model.Prompt(1)[1], "assistant see <secret> k:noop{}")
	b.RunTurn(id, "t2", harness.Text("more"))
	got := output("t2")
	runtest.Equal(t, "large text", got.RawText == large, true)
	runtest.Equal(t, "large text as shown", got.SafeText == strings.ToUpper(large), true)
	b.RunTurn(id, "t3", harness.Text("and"))
	runtest.Equal(t, "prose of a plugin that panics", output("t3"), api.AssistantOutput{SafeText: "boom", RawText: "boom", State: api.OutputUsable})
	b.RunTurn(id, "t4", harness.Text("and"))
	runtest.Equal(t, "prose of which nothing is shown", output("t4"), api.AssistantOutput{RawText: "<secret>", State: api.OutputUsable})
	harness.VerifyHistory(t, b.Bus, id)
}
