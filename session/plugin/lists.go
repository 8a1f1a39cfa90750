package plugin

import (
	"maps"
	"slices"
	"sync"

	"github.com/lash-go/lash/events"
)

// maxLists is the number of lists of tools that a builder keeps. Sessions with other tools than those of the last lists
// have lists of their own.
const maxLists = 8

// lists are the lists of tools that a builder's stacks made last, so that sessions with the same tools share one list. A
// shared list never changes: catalogues, events and states of all these sessions have it.
type lists struct {
	mu   sync.Mutex
	last [][]events.ToolEntry // newest first
}

// size is the length of the newest list.
func (l *lists) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.last) == 0 {
		return 0
	}
	return len(l.last[0])
}

// of is the list of the offered tools with the levels that contributors set.
func (l *lists) of(offered map[string]*BoundTool, levels map[string]events.Availability) []events.ToolEntry {
	l.mu.Lock()
	known := l.last // replaced, never changed
	l.mu.Unlock()
	for _, list := range known {
		if isListOf(list, offered, levels) {
			return list
		}
	}
	list := entriesOf(offered, levels)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = slices.Concat([][]events.ToolEntry{list}, l.last[:min(len(l.last), maxLists-1)])
	return list
}

func isListOf(list []events.ToolEntry, offered map[string]*BoundTool, levels map[string]events.Availability) bool {
	if len(list) != len(offered) {
		return false
	}
	for i := range list {
		tool, ok := offered[list[i].Name]
		if !ok {
			return false
		}
		if !withLevels(&tool.entry, levels).Equal(&list[i]) {
			return false
		}
	}
	return true
}

func entriesOf(offered map[string]*BoundTool, levels map[string]events.Availability) []events.ToolEntry {
	list := make([]events.ToolEntry, 0, len(offered))
	for _, name := range slices.Sorted(maps.Keys(offered)) {
		list = append(list, *withLevels(&offered[name].entry, levels))
	}
	return list
}

// withLevels is the entry with the level that a contributor set, and the entry itself where none did.
func withLevels(entry *events.ToolEntry, levels map[string]events.Availability) *events.ToolEntry {
	level, ok := levels[entry.Name]
	if !ok {
		return entry
	}
	changed := *entry
	changed.Availability = level
	return &changed
}
