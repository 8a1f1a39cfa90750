package plugin

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestListsAreFew: sessions with ever other tools leave the last few lists in memory.
func TestListsAreFew(t *testing.T) {
	t.Parallel()
	var l lists
	of := func(i int) []events.ToolEntry {
		name := fmt.Sprint("t", i)
		return l.of(map[string]*BoundTool{name: {entry: events.ToolEntry{Name: name}}}, nil)
	}
	first := of(0)
	for i := range 3 * maxLists {
		of(i)
		if len(l.last) > maxLists {
			t.Fatalf("got %d lists, want at most %d", len(l.last), maxLists)
		}
	}
	if again := of(0); again[0].Name != "t0" || &again[0] == &first[0] {
		t.Errorf("the oldest list: got %+v, want it made again", again)
	}
}

// TestListIsOfItsTools: a list is used again only for tools that are equal in each field.
func TestListIsOfItsTools(t *testing.T) {
	t.Parallel()
	for field, entry := range map[string]events.ToolEntry{
		"description": {Description: "x"}, "contract": {Contract: events.BlobRef{Digest: "x", Size: 1}}, "effects": {Effects: events.EffectsIdempotent}, "source": {Source: "x"},
		"availability": {Availability: events.AvailOff}, "override": {Override: "off"}, "orphan": {Orphan: true}, "serial": {Serial: true},
		"namespace": {Namespace: "x"}, "aliases": {Aliases: []string{"x"}},
	} {
		var l lists
		of := func(e events.ToolEntry) *events.ToolEntry {
			e.Name = "a"
			return &l.of(map[string]*BoundTool{"a": {entry: e}}, nil)[0]
		}
		plain := of(events.ToolEntry{})
		if of(entry) == plain || of(events.ToolEntry{}) != plain {
			t.Errorf("%s: got one list for a tool with and without it, want two", field)
		}
	}
}
