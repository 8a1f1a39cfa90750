package api

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// ToolState is the session's tools, with the level at which each is offered.
type ToolState struct {
	Generation int64              `msgpack:"g,omitempty"`
	Tools      []events.ToolEntry `msgpack:"t,omitempty"` // sorted by name
	LeftOut    []LeftOutTool      `msgpack:"l,omitempty"` // that the answering node leaves out. A request has none
	Contracts  [][]byte           `msgpack:"c,omitempty"` // texts of the tools' contracts, one for each, which their entries lose on the way. A request has none
}

// maxPacked limits the contracts in an answer, which has the tools, too.
const maxPacked = MaxRequestBytes / 4

// Pack puts the tools' contracts beside them, as many as an answer holds. The others are in the store.
func (s *ToolState) Pack() {
	s.Contracts = make([][]byte, len(s.Tools))
	bytes := 0
	for i := range s.Tools {
		text := s.Tools[i].Look().Text()
		if bytes += len(text); bytes > maxPacked {
			break
		}
		s.Contracts[i] = text
	}
}

// Unpack is the inverse of Pack.
func (s *ToolState) Unpack() error {
	for i := range min(len(s.Tools), len(s.Contracts)) {
		if text := s.Contracts[i]; len(text) > 0 {
			if err := s.Tools[i].ReadContract(text); err != nil {
				return err
			}
		}
	}
	return nil
}

// LeftOutTool is a tool that sessions do not have, although its source has it.
type LeftOutTool struct {
	Source string `msgpack:"s" json:"source"`
	Name   string `msgpack:"n,omitempty" json:"name,omitempty" jsonschema:"as the source has it; absent: all tools of the source"`
	Reason string `msgpack:"r" json:"reason"`
}

// ToolSource is a source of tools that a session can have in addition to those of its plugins.
type ToolSource struct {
	Name  string `msgpack:"n" json:"name"`
	Added bool   `msgpack:"a,omitempty" json:"added,omitempty" jsonschema:"true: the session has it"`
	Known bool   `msgpack:"k,omitempty" json:"known,omitempty" jsonschema:"true: the answering node can add it"`
}

// SetAvailability overrides a tool's level; "" removes the override. An unknown name is [ErrUnknownTool].
func (s *ToolState) SetAvailability(name string, level events.Override) error {
	i := slices.IndexFunc(s.Tools, func(t events.ToolEntry) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("%w: %q", ErrUnknownTool, name)
	}
	s.Tools = slices.Clone(s.Tools)
	s.Tools[i].Override = level
	return nil
}
