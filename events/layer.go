package events

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of the layers of a configuration or a turn.
const (
	MaxLayers      = 32
	MaxLayersBytes = 32 << 10 // titles and contents together
)

// LayerOp is what a layer does to its slot.
type LayerOp string

// Operations.
const (
	LayerAdd     LayerOp = "add"     // appends to the slot
	LayerReplace LayerOp = "replace" // replaces the slot's content
	LayerClear   LayerOp = "clear"   // empties the slot
)

// PromptLayer changes one slot of the prompt's template. Layers apply in order: first contributions of plugins, then
// the configuration's layers, then the turn's layers.
type PromptLayer struct {
	Slot    Slot    `msgpack:"s"`
	Op      LayerOp `msgpack:"o"`
	Title   string  `msgpack:"t,omitempty"` // heading of the content; empty means none
	Content string  `msgpack:"c,omitempty"` // of add and replace
}

// check refuses an unknown slot. The error is a [*FieldError] of the field.
func (s Slot) check(field string) error {
	switch s {
	case SlotIntro, SlotExecution, SlotGuidance, SlotProjectInstructions, SlotRuntimeContext, SlotEnvironment:
		return nil
	}
	return invalid(field, fmt.Sprintf("unknown %q", s))
}

func validateLayers(field string, list []PromptLayer) error {
	if len(list) > MaxLayers {
		return &FieldError{Field: field, Reason: fmt.Sprintf("has %d layers, limit is %d", len(list), MaxLayers), Err: ErrTooLarge}
	}
	size := 0
	for i := range list {
		l, at := &list[i], fmt.Sprintf("%s[%d]", field, i)
		if err := l.Slot.check(at + ".slot"); err != nil {
			return err
		}
		switch l.Op {
		case LayerAdd, LayerReplace:
			if strings.TrimSpace(l.Content) == "" {
				return invalid(at+".content", "is blank")
			}
		case LayerClear:
			if l.Content != "" || l.Title != "" {
				return invalid(at+".content", "must be empty where the slot is cleared")
			}
		default:
			return invalid(at+".op", fmt.Sprintf("unknown %q", l.Op))
		}
		size += len(l.Title) + len(l.Content)
	}
	if size > MaxLayersBytes {
		return tooLarge(field, size, MaxLayersBytes)
	}
	return nil
}

// Over returns the configuration with the fields that the turn's input sets.
func (in *TurnInput) Over(c Config) Config {
	c = in.Generation.Over(c)
	c.Layers = slices.Concat(c.Layers, in.Layers)
	return c
}
