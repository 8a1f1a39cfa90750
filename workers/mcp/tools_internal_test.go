package mcp

import (
	"math"
	"os"
	"slices"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/lash-go/lash/events"
)

// TestEffects has a file tighten what a server claims, by names and patterns of tools. A claim is never loosened, and of several entries
// the strictest one holds.
func TestEffects(t *testing.T) {
	t.Parallel()
	only, again := &mcp.ToolAnnotations{ReadOnlyHint: true}, &mcp.ToolAnnotations{IdempotentHint: true}
	const none, idempotent, once = events.EffectsNone, events.EffectsIdempotent, events.EffectsNonIdempotent
	for name, c := range map[string]struct {
		said string
		want []events.Effects // of tools that only read, that may repeat, and without a claim
	}{
		"no_entry":          {`{}`, []events.Effects{none, idempotent, once}},
		"another_tool":      {`{"write":"non_idempotent"}`, []events.Effects{none, idempotent, once}},
		"idempotent":        {`{"read":"idempotent"}`, []events.Effects{idempotent, idempotent, once}},
		"once":              {`{"read":"non_idempotent"}`, []events.Effects{once, once, once}},
		"pattern":           {`{"re*":"non_idempotent"}`, []events.Effects{once, once, once}},
		"all":               {`{"*":"idempotent"}`, []events.Effects{idempotent, idempotent, once}},
		"pattern_of_others": {`{"w*":"non_idempotent"}`, []events.Effects{none, idempotent, once}},
		"strictest":         {`{"*":"idempotent","r*":"non_idempotent","read":"idempotent"}`, []events.Effects{once, once, once}},
	} {
		servers, err := Parse([]byte(`{"mcpServers":{"s":{"command":"x","lash":{"effects":`+c.said+`}}}}`), func(string) string { return "" }, os.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		for i, claim := range []*mcp.ToolAnnotations{only, again, nil} {
			for range 20 { // the order of a map is random
				if got := servers[0].effects(&mcp.Tool{Name: "read", Annotations: claim}); got != c.want[i] {
					t.Errorf("%s of claim %d: got %q, want %q", name, i, got, c.want[i])
				}
			}
		}
	}
}

// TestShares divides an event among servers: none loses what fits in an equal part, and all together fit.
func TestShares(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sizes []int
		want  int
	}{
		"none": {nil, math.MaxInt}, "fit": {[]int{60, 40}, math.MaxInt}, "two": {[]int{90, 90}, 50}, "one_large": {[]int{10, 200, 10}, 80}, "many": {[]int{30, 30, 30, 30}, 25},
	} {
		if got := share(slices.Clone(c.sizes), 100); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
