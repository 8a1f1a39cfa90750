package integration

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
)

// entry is one line of the test catalogue (host specification, section 13).
// What is expected is the specification's, not the code's.
type entry struct {
	id, given, when, then string
	run                   func(*testing.T)
}

// expected lists the ids of sections 13.1 to 13.10.
var expected = slices.Concat(ids("G", 21), ids("F", 13), ids("L", 19), ids("T", 30), ids("C", 14),
	ids("P", 32), ids("X", 23), ids("K", 18), ids("M", 13), ids("D", 8), ids("S", 22))

func ids(family string, n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%s%02d", family, i+1))
	}
	return list
}

// entries lists the catalogue.
func entries() []entry {
	return slices.Concat(graphEntries(), graphRaces(), turnEntries(), stopEntries(), faultEntries(), taskEntries(), monitorEntries(),
		frameEntries(), lifecycleEntries(), checkpointEntries(), pluginEntries(), pluginEntries2(), turnEntries2(), childEntries(),
		toolEntries(), completionEntries(), traceEntries(), codeEntries(), scaleEntries(), scaleEntries2())
}

// TestCatalogue runs the catalogue, each entry on a server of its own.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	for _, e := range entries() {
		t.Run(e.id, func(t *testing.T) {
			t.Parallel()
			t.Logf("given %s, when %s, then %s", e.given, e.when, e.then)
			e.run(t)
		})
	}
}

// TestCatalogueComplete fails for an id without a test and for a test without an id.
func TestCatalogueComplete(t *testing.T) {
	t.Parallel()
	var have []string
	for _, e := range entries() {
		if !regexp.MustCompile(`^[GFLTCPXKMDS]\d\d$`).MatchString(e.id) || e.given == "" || e.when == "" || e.then == "" || e.run == nil {
			t.Errorf("entry %+v: got an incomplete one", e)
		}
		have = append(have, e.id)
	}
	slices.Sort(have)
	want := slices.Sorted(slices.Values(expected))
	if !slices.Equal(have, want) {
		t.Errorf("ids: got %v, want %v", have, want)
	}
}
