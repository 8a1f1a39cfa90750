package projector_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestCatalogInParts folds a catalogue that one event does not hold: its parts are the whole, and each fits.
func TestCatalogInParts(t *testing.T) {
	t.Parallel()
	for n, description := range map[int]int{0: 0, 1: 200 << 10, 30: 30 << 10, 3000: 100} {
		all := &events.ToolStateApplied{Generation: 7}
		for i := range n {
			all.Tools = append(all.Tools, events.ToolEntry{
				Name: fmt.Sprintf("t%05d", i), Description: strings.Repeat("d", description), Contract: events.BlobRef{Digest: strings.Repeat("a", 64), Size: 5}, Source: "s",
			})
		}
		h := begin(t).add("", &events.ToolStateApplied{Generation: 6, Tools: []events.ToolEntry{{Name: "old"}}})
		parts := all.Parts()
		for _, p := range parts {
			if data, err := events.EncodePayload(p); err != nil || len(data) > events.MaxEventBytes {
				t.Errorf("%d tools: got a part of %d bytes, %v", n, len(data), err)
			}
			h.add("", p)
		}
		if got := h.Catalog.Tools; len(got) != n || n > 0 && !reflect.DeepEqual(got, all.Tools) || h.Catalog.Generation != 7 || (n > 1) != (len(parts) > 1) {
			t.Errorf("%d tools: got %d of generation %d from %d parts", n, len(got), h.Catalog.Generation, len(parts))
		}
	}
}

// TestCatalogWithoutItsFirstPart folds a part of a catalogue whose first part is redacted: it follows no other catalogue.
func TestCatalogWithoutItsFirstPart(t *testing.T) {
	t.Parallel()
	h := begin(t).add("", &events.ToolStateApplied{Generation: 6, Tools: []events.ToolEntry{{Name: "old"}}})
	h.add("", &events.ToolStateApplied{Generation: 7, Tools: []events.ToolEntry{{Name: "z"}}, Continues: true})
	if got := h.Catalog.Tools; len(got) != 1 || got[0].Name != "z" {
		t.Errorf("got %+v, want the tools of that generation", got)
	}
}
