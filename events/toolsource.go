package events

import (
	"fmt"
	"slices"
)

// MaxToolSources limits the number of a session's tool sources.
const MaxToolSources = 64

// ToolSourcesApplied replaces the tool sources of a session. It has their names only: plugins register sources by
// name, and [ToolStateApplied] has the tools.
type ToolSourcesApplied struct {
	Sources []string `msgpack:"s,omitempty"` // names, in the order of addition; if two sources have a tool of the same name, the first wins
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
			return invalid("sources", fmt.Sprintf("%q occurs twice", name))
		}
	}
	return nil
}
