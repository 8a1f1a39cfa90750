package mcp

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestTextOfAServerIsNoResult returns structured results whose metadata has a text already: it does not count.
func TestTextOfAServerIsNoResult(t *testing.T) {
	t.Parallel()
	const want = `{"n":9007199254740992}`
	for _, text := range []string{`{"n":9007199254740993}`, `{"n":5}`, `paid`, `"paid"`, ``, `{"n":1e999}`} {
		r := &mcp.CallToolResult{StructuredContent: map[string]any{"n": float64(1 << 53)}, Meta: mcp.Meta{exactKey: text}}
		if got, err := resultOf(r); got.Text != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", text, got.Text, err, want)
		}
	}
}
