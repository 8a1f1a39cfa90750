package decision

import (
	"testing"

	"github.com/lash-go/lash/events"
)

// TestEveryKindHasASource checks the table of kinds: a new kind is an input or a decision, and not an input by omission.
func TestEveryKindHasASource(t *testing.T) {
	t.Parallel()
	for _, kind := range events.Kinds() {
		if sources[kind] == 0 {
			t.Errorf("kind %s: has no row in sources, in fact.go: say whether it is given or decided", kind)
		}
	}
	if len(sources) != len(events.Kinds()) {
		t.Errorf("rows: got %d, want one for each of %d kinds", len(sources), len(events.Kinds()))
	}
}
