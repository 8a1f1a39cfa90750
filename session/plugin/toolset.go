package plugin

import "encoding/json"

// SchemaText is the JSON of the schema of the arguments. The caller must not change it.
func (r *BoundTool) SchemaText() json.RawMessage { return r.entry.Look().Schema }

// With returns a copy of the set whose tools differ by what change does to each.
func (t *Tools) With(change func(*BoundTool)) *Tools {
	set := &Tools{byName: make(map[string]*BoundTool, len(t.byName)), entries: t.entries}
	for name, tool := range t.byName {
		clone := *tool
		change(&clone)
		set.byName[name] = &clone
	}
	return set
}
