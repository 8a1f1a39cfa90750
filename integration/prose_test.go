package integration

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestProse shows users what a plugin makes of the model's prose (host
// specification 5.2). It is decided where the reply is recorded: hosts without
// the plugin know it, and a node that takes over does not ask again.
func TestProse(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("a line\n", 20_000) // of which neither form fits an event
	begun := make(chan struct{})
	b := setupIdle(t, reply(text("see <secret>"), call("k", "noop", "{}")), hangs(begun), reply(),
		reply(text(large)), reply(text("boom")), reply(text("<secret>")))
	stack := declares("prose", func(r *plugin.Registrar) {
		simple(r, "noop")
		r.ProjectProse(func(s string) string {
			if s == "boom" {
				panic("no prose")
			}
			return strings.ToUpper(strings.ReplaceAll(s, "<secret>", ""))
		})
	})
	_, kill := b.nodeOn(bustest.Open(t, b.server), stack)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	<-begun
	kill()
	b.nodeOn(b.bus, stack)
	b.ended(id, "t1")
	output := func(turn events.TurnID) api.AssistantOutput {
		t.Helper()
		got, err := b.otherHost().AssembledTurn(b.ctx, id, turn)
		must(t, "assemble", err, nil)
		return got.Output
	}
	equal(t, "output", output("t1"), api.AssistantOutput{SafeText: "SEE ", RawText: "see <secret>", State: api.OutputUsable})
	equal(t, "what the model said", b.messages(id)[1], "assistant see <secret> k:noop{}")
	equal(t, "what the model is told that it said", b.model.prompt(1)[1], "assistant see <secret> k:noop{}")
	b.run(id, "t2", text("more"))
	got := output("t2")
	equal(t, "large text", got.RawText == large, true)
	equal(t, "large text as shown", got.SafeText == strings.ToUpper(large), true)
	b.run(id, "t3", text("and"))
	equal(t, "prose of a plugin that panics", output("t3"), api.AssistantOutput{SafeText: "boom", RawText: "boom", State: api.OutputUsable})
	b.run(id, "t4", text("and"))
	equal(t, "prose of which nothing is shown", output("t4"), api.AssistantOutput{RawText: "<secret>", State: api.OutputUsable})
	verified(t, b.bus, id)
}
