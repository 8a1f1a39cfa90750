package integration

import (
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

// expected lists the ids of tasks and monitors, and those of the graph and of turns that concern hosts and
// workers alone. The others need hooks, protocols or child sessions: T13, T26, T27, T29, T30.
// T23 has no counterpart: every commit of a turn is needed, so none may fail.
var expected = []string{
	"G01", "G02", "G03", "G04", "G05", "G06", "G07", "G08", "G09", "G10", "G11",
	"G12", "G13", "G14", "G15", "G16", "G17", "G18", "G19", "G20", "G21",
	"T01", "T02", "T03", "T04", "T05", "T06", "T07", "T08", "T09", "T10", "T11", "T12",
	"T14", "T15", "T16", "T17", "T18", "T19", "T20", "T21", "T22", "T24", "T25", "T28",
	"K1", "K2", "K3", "K4", "K5", "K6", "K7", "K8", "K9", "K10", "K11", "K12", "K13", "K14", "K15", "K16", "K17", "K18",
	"M1", "M2", "M3", "M4", "M5", "M6", "M7", "M8", "M9", "M10", "M11", "M12", "M13",
}

// entries lists the catalogue.
func entries() []entry {
	return slices.Concat(graphEntries(), graphRaces(), turnEntries(), stopEntries(), faultEntries(), taskEntries(), monitorEntries())
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
	var ids []string
	for _, e := range entries() {
		if !regexp.MustCompile(`^([GT]\d\d|[KM]\d{1,2})$`).MatchString(e.id) || e.given == "" || e.when == "" || e.then == "" || e.run == nil {
			t.Errorf("entry %+v: got an incomplete one", e)
		}
		ids = append(ids, e.id)
	}
	want := slices.Clone(expected)
	slices.Sort(ids)
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("ids: got %v, want %v", ids, want)
	}
}
