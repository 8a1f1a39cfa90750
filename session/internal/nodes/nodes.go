package nodes

import (
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Heal moves a leaf that names no node to the newest message.
func Heal(s *projector.State) ([]events.Event, events.NodeID, error) {
	leaf, orphaned, err := s.Orphaned()
	if err != nil || !orphaned {
		return nil, leaf, err
	}
	return []events.Event{events.Of("", &events.GraphBranched{Leaf: leaf})}, leaf, nil
}

// New gives every node its id. It leaves transient messages out. The ids of inputs that wait are taken.
func New(s *projector.State, list []api.AppendNode) ([]events.NewNode, error) {
	taken := make(map[events.NodeID]bool)
	for i := range s.Inputs { // their nodes are still to come
		taken[projector.InputNode(s.Inputs[i].ID)] = true
	}
	return NewBeside(s, list, taken)
}

// NewBeside is [New] with a set of ids that are taken, to which it adds the new ones.
func NewBeside(s *projector.State, list []api.AppendNode, taken map[events.NodeID]bool) ([]events.NewNode, error) {
	nodes := make([]events.NewNode, 0, len(list))
	for i := range list {
		if list[i].Transient {
			continue
		}
		n, err := newNode(s, &list[i], taken)
		if err != nil {
			return nil, fmt.Errorf("nodes[%d]: %w", i, err)
		}
		taken[n.ID] = true
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func newNode(s *projector.State, a *api.AppendNode, taken map[events.NodeID]bool) (events.NewNode, error) {
	if a.Message == nil {
		n := events.NewNode{ID: a.ID, Kind: a.Kind, Type: a.Type, Body: a.Body}
		if n.ID == "" {
			n.ID = events.NodeID(string(a.Kind) + ":" + ulid.Make().String())
		}
		free, err := s.FreeID(n.ID, taken)
		if err == nil && free != n.ID {
			err = &events.FieldError{Field: "id", Reason: fmt.Sprintf("%q is taken", n.ID), Err: events.ErrInvalid}
		}
		return n, err
	}
	m := *a.Message
	if m.ID == "" {
		m.ID = events.MessageID("m" + ulid.Make().String())
	}
	id, err := s.FreeID(events.NodeID(m.ID), taken)
	return events.NewNode{ID: id, Kind: events.NodeMessage, Message: m}, err
}
