package call

import (
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/blob"
)

// maxHookBytes bounds what the hooks of one point may record inside the log, in bytes.
const maxHookBytes = 128 << 10

// maxInlineBytes leaves room in an event for the references to bodies outside the log.
const maxInlineBytes = events.MaxEventBytes - 16<<10

// tooLarge reports a payload of hooks that no event could carry, even with its
// bodies outside the log, or whose bodies are more than may be kept there.
func tooLarge(p events.Payload) error {
	data, err := events.EncodePayload(p)
	bodies := blob.Size(p)
	fixed := len(data) - bodies
	switch {
	case err != nil:
		return err
	case fixed > maxHookBytes || fixed+min(bodies, blob.InlineTotal) > maxInlineBytes:
		return fmt.Errorf("plugins recorded %d bytes at one point, limit is %d: %w", len(data), maxHookBytes, events.ErrTooLarge)
	case bodies > events.MaxBlobBytes:
		return fmt.Errorf("plugins recorded bodies of %d bytes at one point, limit is %d: %w", bodies, events.MaxBlobBytes, events.ErrTooLarge)
	}
	return nil
}

// appended is the event that records messages of hooks, to measure it.
func appended(list []events.Message) *events.GraphAppended {
	p := &events.GraphAppended{Nodes: make([]events.NewNode, len(list))}
	for i := range list {
		p.Nodes[i] = events.NewNode{ID: events.NodeID(list[i].ID), Kind: events.NodeMessage, Message: list[i]}
	}
	return p
}
