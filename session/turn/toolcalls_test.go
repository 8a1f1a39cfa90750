package turn_test

import (
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// TestToolCalls counts calls only: the parts between them have no index.
func TestToolCalls(t *testing.T) {
	t.Parallel()
	parts := []events.Part{
		{Kind: events.PartText, Text: "a"},
		{Kind: events.PartToolCall, Tool: "first"},
		{Kind: events.PartReasoning, Text: "b"},
		{Kind: events.PartToolCall, Tool: "second"},
		{Kind: events.PartText, Text: "c"},
	}
	var tools []string
	for index, call := range turn.ToolCalls(parts) {
		if int(index) != len(tools) {
			t.Errorf("call of %s: got index %d, want %d", call.Tool, index, len(tools))
		}
		tools = append(tools, call.Tool)
	}
	if want := []string{"first", "second"}; !slices.Equal(tools, want) {
		t.Errorf("got %v, want %v", tools, want)
	}
	for _, call := range turn.ToolCalls(parts) {
		if call.Tool != "first" {
			t.Errorf("after the end of the loop: got %s", call.Tool)
		}
		break
	}
}
