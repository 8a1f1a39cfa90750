package catalogue

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
)

// entry is one rule of the runtime: what is given, what happens, and what must follow. Its subtest has the id and the name.
type entry struct {
	id, name, given, when, then string
	run                         func(*testing.T)
}

// expected lists the ids, by family: graph, frames, lifecycle, turns, checkpoints, plugins, tools (X), tasks (K),
// monitors, direct completions and traces (D), scale.
var expected = slices.Concat(ids("G", 21), ids("F", 13), ids("L", 20), ids("T", 33), ids("C", 14),
	ids("P", 36), ids("X", 29), ids("K", 18), ids("M", 14), ids("D", 8), ids("S", 22))

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
		frameEntries(), lifecycleEntries(), checkpointEntries(), pluginEntries(), pluginLifecycleEntries(), turnHookEntries(), childEntries(),
		toolEntries(), completionEntries(), traceEntries(), codeEntries(), ownershipEntries(), observerEntries(), bodyEntries(), environmentEntries(), timeEntries(), capabilityEntries())
}

// TestCatalogue runs the catalogue, each entry on a server of its own.
func TestCatalogue(t *testing.T) {
	t.Parallel()
	for _, e := range entries() {
		t.Run(e.id+" "+e.name, func(t *testing.T) {
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
		if !regexp.MustCompile(`^[GFLTCPXKMDS]\d\d$`).MatchString(e.id) || e.name == "" || e.given == "" || e.when == "" || e.then == "" || e.run == nil {
			t.Errorf("entry %+v: got an incomplete one", e)
		}
		have = append(have, e.id)
	}
	slices.Sort(have)
	want := slices.Sorted(slices.Values(expected))
	runtest.EqualLists(t, "ids", have, want)
}
