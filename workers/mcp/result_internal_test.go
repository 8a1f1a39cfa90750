package mcp

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestTextOfAServerIsNoResult returns structured results whose metadata has a text already: it counts only for the digits of the same value.
func TestTextOfAServerIsNoResult(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"n":9007199254740993}`:             `{"n":9007199254740993}`,
		`{"n":"other","n":9007199254740993}`: `{"n":9007199254740993}`,
		`{"n":5}`:                            `{"n":9007199254740992}`,
		`paid`:                               `{"n":9007199254740992}`,
		`"paid"`:                             `{"n":9007199254740992}`,
		``:                                   `{"n":9007199254740992}`,
		`{"n":1e999}`:                        `{"n":9007199254740992}`,
	} {
		r := &mcp.CallToolResult{StructuredContent: map[string]any{"n": float64(1 << 53)}, Meta: mcp.Meta{exactKey: text}}
		if got := resultOf(r).Text; got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
