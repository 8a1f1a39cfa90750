package system

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm/llmtest"
)

// TestCompletionStream streams a completion whose first attempt is cut off, and streams none for a reply that the
// history has.
func TestCompletionStream(t *testing.T) {
	t.Parallel()
	cut := llmtest.Text("wro")
	cut.Fault = llmtest.FaultError
	b, e := startEndpoint(t, []llmtest.Reply{cut, llmtest.Text("go", "od")})
	id := b.Open(api.CreateRequest{})
	wantStream := func(wants ...plugin.CompletionDelta) {
		t.Helper()
		var got []plugin.CompletionDelta
		req := plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "a title?")}, Stream: func(d plugin.CompletionDelta) { got = append(got, d) }}
		c, err := b.Complete(api.WithRequestMeta(b.Ctx, api.RequestMeta{Key: "k"}), id, req, "title")
		harness.WantError(t, "complete", err, nil)
		harness.Equal(t, "text", c.Text, "good")
		harness.EqualLists(t, "streamed", got, wants)
	}
	wantStream(plugin.CompletionDelta{Kind: events.PartText, Text: "wro"}, plugin.CompletionDelta{Reset: true},
		plugin.CompletionDelta{Kind: events.PartText, Text: "go"}, plugin.CompletionDelta{Kind: events.PartText, Text: "od"})
	wantStream() // the same again: of the history
	harness.Equal(t, "requests", len(e.sent()), 2)
}
