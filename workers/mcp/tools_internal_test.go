package mcp

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestEffects has a file tighten what a server claims, by names and patterns of tools. A claim is never loosened, and of several entries
// the strictest one holds.
func TestEffects(t *testing.T) {
	t.Parallel()
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
		runtest.NoError(t, err)
		for i, claim := range []string{`{"readOnlyHint":true}`, `{"idempotentHint":true}`, `{}`} {
			for range 20 { // the order of a map is random
				tool := readListed(json.RawMessage(`{"name":"read","annotations":` + claim + `}`))
				runtest.Equal(t, fmt.Sprintf("%s of claim %d", name, i), servers[0].effects(tool.Name, tool.claim), c.want[i])
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
		runtest.Equal(t, name, share(slices.Clone(c.sizes), 100), c.want)
	}
}

// TestInstructionsOfServers takes offers with instructions: those of servers whose tools every session has are in the prompt, with the name
// of each, and bounded. Nodes that do not know them have the same hash.
func TestInstructionsOfServers(t *testing.T) {
	t.Parallel()
	s, err := New(Config{})
	runtest.NoError(t, err)
	for i := range 20 {
		s.take((&offer{Server: fmt.Sprintf("long%02d", i), Instructions: strings.Repeat("x", maxInstructions)}).seal())
	}
	s.take((&offer{Server: "none"}).seal())
	s.take((&offer{Server: "own", Instructions: "x", BySession: true}).seal())
	s.take((&offer{Server: "short", Instructions: "first"}).seal())
	s.take((&offer{Server: "short", Instructions: "Call look first."}).seal())
	sum := 0
	for _, c := range s.list.instructions {
		sum += len(c.Content)
		if c.Slot != events.SlotGuidance || strings.Contains(c.Title, "short") && c.Content != "Call look first." {
			t.Errorf("got %+v", c)
		}
	}
	if n := len(s.list.instructions); n != 21 || sum > maxAllInstructions {
		t.Errorf("got %d instructions with %d bytes, want 21 and at most %d", n, sum, maxAllInstructions)
	}
	if a, b := (&offer{Server: "a", Instructions: "x"}).seal().hash, (&offer{Server: "a"}).seal().hash; a != b {
		t.Error("instructions change the hash of an offer")
	}
}

// TestToolsAsTheyAreListed reads tools of servers that differ from the protocol: what is used of each, and what the library gets.
func TestToolsAsTheyAreListed(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]listed{
		`{"name":"t","annotations":{"readOnlyHint":"true"},"description":["a"],"icons":{},"title":5,"_meta":[]}`: {Name: "t"},
		`{"name":"t","description":"d","inputSchema":{"type":"object","maximum":9007199254740993}}`:              {Name: "t", Description: "d", Schema: json.RawMessage(`{"maximum":9007199254740993,"type":"object"}`)},
		`{"name":5}`: {fault: "it cannot be read: its name is 5"},
		`null`:       {fault: "it is null"},
		`{"name":"t","execution":{"taskSupport":"required"}}`: {Name: "t", fault: "it runs as a task only (its taskSupport is required), and tasks are not supported"},
	} {
		if want.fault == "" || want.Name != "" {
			want.claim = events.EffectsNonIdempotent
			if want.Schema == nil {
				want.Schema = json.RawMessage("null")
			}
		}
		got := readListed(json.RawMessage(sent))
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%s:\ngot  %q\nwant %q", sent, got, want)
		}
		library := string(named(json.RawMessage("[" + sent + "]")))
		if want.fault == "" != strings.Contains(library, `"name":"t"`) {
			t.Errorf("%s: the library gets %s", sent, library)
		}
	}
}
