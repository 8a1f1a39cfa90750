package events

import (
	"fmt"
	"slices"
)

// MaxToolSources is how many tool sources a session has at most.
const MaxToolSources = 64

// ToolSourcesApplied replaces the tool sources that a session has beside the
// tools of its plugins. What a source offers is no part of it: plugins of nodes
// register sources under their names, and [ToolStateApplied] has the tools.
type ToolSourcesApplied struct {
	Sources []string `msgpack:"s,omitempty"` // names, in the order in which they were added; of two tools of one name that of the first counts
}

// Validate implements [Payload].
func (p *ToolSourcesApplied) Validate() error {
	if len(p.Sources) > MaxToolSources {
		return &FieldError{Field: "sources", Reason: fmt.Sprintf("are %d, limit is %d", len(p.Sources), MaxToolSources), Err: ErrTooLarge}
	}
	for i, name := range p.Sources {
		if err := CheckToken("sources", name); err != nil {
			return err
		}
		if slices.Contains(p.Sources[:i], name) {
			return invalid("sources", fmt.Sprintf("%q stands twice", name))
		}
	}
	return nil
}
