package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// keepingSystem wraps a decision that moves the conversation with one rule: a caller without [api.RightConfigure]
// must not remove a system message from it, nor move one.
func keepingSystem(ctx context.Context, d decideFunc) decideFunc {
	return func(s *projector.State) ([]events.Event, error) {
		list, err := d(s)
		if err != nil || len(list) == 0 || api.Allows(ctx, api.RightConfigure, s) {
			return list, err
		}
		before, err := systemMessages(s)
		if err != nil || len(before) == 0 {
			return list, err
		}
		moved := s.Clone()
		for i := range list {
			moved.ApplyUncommitted(&list[i], s.UpdatedAt)
		}
		moved.CommittedUnproven()
		after, err := systemMessages(moved)
		if err == nil && !slices.Equal(before, after) {
			err = fmt.Errorf("%w: it takes messages of the system out of the conversation, which needs the right %q", api.ErrForbidden, api.RightConfigure)
		}
		return list, err
	}
}

// systemMessages are the nodes of the system messages in the current frame.
func systemMessages(s *projector.State) ([]events.NodeID, error) {
	view, err := s.View()
	if err != nil {
		return nil, err
	}
	var list []events.NodeID
	for _, n := range view.Nodes {
		if n.Kind == events.NodeMessage && n.Message.Role == events.RoleSystem {
			list = append(list, n.ID)
		}
	}
	return list, nil
}
