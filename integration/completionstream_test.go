package integration

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestCompletionStream streams a completion whose first try is cut off, and none for a reply that the history has.
func TestCompletionStream(t *testing.T) {
	t.Parallel()
	cut := llmtest.Text("wro")
	cut.Fault = llmtest.FaultError
	b, e := setupEndpoint(t, []llmtest.Reply{cut, llmtest.Text("go", "od")})
	id := b.open(api.CreateRequest{})
	ask := func(wants ...plugin.CompletionDelta) {
		t.Helper()
		var got []plugin.CompletionDelta
		req := plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "a title?")}, Stream: func(d plugin.CompletionDelta) { got = append(got, d) }}
		c, err := b.Complete(api.WithAsked(b.ctx, api.Asked{Key: "k"}), id, req, "title")
		must(t, "complete", err, nil)
		equal(t, "text", c.Text, "good")
		equalLists(t, "streamed", got, wants)
	}
	ask(plugin.CompletionDelta{Kind: events.PartText, Text: "wro"}, plugin.CompletionDelta{Reset: true},
		plugin.CompletionDelta{Kind: events.PartText, Text: "go"}, plugin.CompletionDelta{Kind: events.PartText, Text: "od"})
	ask() // the same again: of the history
	equal(t, "requests", len(e.sent()), 2)
}
