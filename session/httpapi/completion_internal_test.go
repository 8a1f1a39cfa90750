package httpapi

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// TestCompletingWaits streams a reply that changes its kind with every letter, without a reader. Few pieces wait;
// together they have all text, in the order within each kind.
func TestCompletingWaits(t *testing.T) {
	t.Parallel()
	const many = 100_000
	run := &completionRun{pending: make(chan struct{}, 1)}
	run.add(plugin.CompletionDelta{Kind: events.PartText, Text: "lost"})
	run.add(plugin.CompletionDelta{Reset: true})
	var want [2]strings.Builder
	kinds := []events.PartKind{events.PartText, events.PartReasoning}
	for n := range many {
		letter := string(rune('a' + n%26))
		want[n%2].WriteString(letter)
		run.add(plugin.CompletionDelta{Kind: kinds[n%2], Text: letter})
	}
	waits := run.takeDeltas()
	if limit := maxDeltas + 2*many/plugin.MaxDeltaBytes; len(waits) > limit {
		t.Errorf("got %d pieces, want at most %d", len(waits), limit)
	}
	if !waits[0].reset || len(waits[0].text) > 0 {
		t.Errorf("got %+v first, want the reset alone", waits[0])
	}
	for i, kind := range kinds {
		var got strings.Builder
		for _, p := range waits {
			if p.kind == kind {
				got.Write(p.text)
			}
			if len(p.text) > plugin.MaxDeltaBytes {
				t.Errorf("got a piece of %d bytes, limit is %d", len(p.text), plugin.MaxDeltaBytes)
			}
		}
		if got.String() != want[i].String() {
			t.Errorf("got %d bytes of %s, want the %d that came", got.Len(), kind, want[i].Len())
		}
	}
}
