package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/internal/nodes"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// AppendNodes appends nodes, all or none. A required ancestor that is no longer on the active path gives
// [*api.StaleBranchError]. This guards against a change of branch only; other requests may append below the ancestor
// meanwhile. The protocol checks the nodes before the append, once, without a lock.
func (h *Host) AppendNodes(ctx context.Context, id events.SessionID, req api.AppendNodesRequest) (result api.AppendedNodes, err error) {
	ctx, reqMeta, err := api.TakeRequest(ctx, &req)
	if err != nil {
		return api.AppendedNodes{}, fmt.Errorf("append nodes: %w", err)
	}
	req.IdempotencyKey = cmp.Or(req.IdempotencyKey, reqMeta.Key)
	reqMeta.Key = req.IdempotencyKey
	meta, err := h.keyedMetaByID(ctx, requestContent{operation.AppendNodes.Name, "append nodes", &req}, reqMeta)
	if err != nil {
		return api.AppendedNodes{}, err
	}
	mustCall, err := h.checkPlugins()
	if err != nil {
		return api.AppendedNodes{}, fmt.Errorf("append nodes: %w", err)
	}
	checked := !mustCall // by the protocol
	err = decideWithPlugins(func() (_ bool, err error) {
		if !checked {
			checked, err = h.protocolAppend(ctx, id, req, meta)
		}
		return false, err
	}, func() (unchecked bool, err error) {
		err = h.decideUntilAppended(ctx, id, decideOptions{meta: meta, repeatHints: true}, func(s *projector.State) (list []events.Event, err error) {
			unchecked = false
			result, err = earlierAppend(s, req)
			if err != nil || result.IDs != nil {
				return nil, err
			}
			if unchecked = !checked; unchecked { // the cached state refused what this one accepts: the protocol has not checked the nodes
				return nil, nil
			}
			if list, result, err = appendNodes(s, req); err == nil {
				err = h.quota.CheckStored(ctx, s.Owner)
			}
			return list, err
		})
		return unchecked, err
	})
	if err != nil {
		return api.AppendedNodes{}, err
	}
	return result, nil
}

// earlierAppend returns the refusal of an append, or the result of an earlier append of the same request.
func earlierAppend(s *projector.State, req api.AppendNodesRequest) (api.AppendedNodes, error) {
	if req.IdempotencyKey != "" {
		ids, err := s.Appended(req.IdempotencyKey)
		if err != nil {
			return api.AppendedNodes{}, err
		}
		if len(ids) > 0 {
			return api.AppendedNodes{IDs: ids, Leaf: ids[len(ids)-1]}, nil
		}
	}
	if err := check.Open(s); err != nil {
		return api.AppendedNodes{}, err
	}
	if req.RequiresAncestor != "" {
		on, err := s.OnPath(req.RequiresAncestor)
		if err == nil && !on {
			err = &api.StaleBranchError{Required: req.RequiresAncestor, Leaf: s.Leaf}
		}
		return api.AppendedNodes{}, err
	}
	return api.AppendedNodes{}, nil
}

// protocolAppend passes the nodes to the protocol, unless the cached state already refuses their append.
func (h *Host) protocolAppend(ctx context.Context, id events.SessionID, req api.AppendNodesRequest, meta commitMeta) (checked bool, err error) {
	needed := false
	s, err := h.cached(ctx, id, func(s *projector.State) error {
		_, different := meta.committedAt(ctx, s)
		old, err := earlierAppend(s, req)
		needed = different == nil && err == nil && old.IDs == nil
		return nil
	})
	if err != nil || !needed {
		return false, err
	}
	p, _, release, err := h.stacks.Open(ctx, s)
	if err != nil {
		return false, err
	}
	defer release()
	whole, err := h.wholeNodes(ctx, req.Nodes)
	if err != nil {
		return false, err
	}
	return true, p.Protocol().AppendNodes(ctx, plugin.ProtocolSession{Session: id}, whole)
}

// wholeNodes are the nodes with the bodies that their messages refer to, as the protocol receives them.
func (h *Host) wholeNodes(ctx context.Context, list []api.AppendNode) ([]api.AppendNode, error) {
	list = slices.Clone(list)
	for i := range list {
		if list[i].Message == nil {
			continue
		}
		whole, err := blob.Fill(ctx, h.b, []events.Message{*list[i].Message})
		if errors.Is(err, bus.ErrNotFound) {
			err = &events.FieldError{Field: "message.parts.blob", Reason: "names a body that does not exist", Err: events.ErrInvalid}
		}
		if err != nil {
			return nil, fmt.Errorf("nodes[%d]: %w", i, err)
		}
		list[i].Message = &whole[0]
	}
	return list, nil
}

func appendNodes(s *projector.State, req api.AppendNodesRequest) ([]events.Event, api.AppendedNodes, error) {
	heal, leaf, err := nodes.Heal(s)
	if err != nil {
		return nil, api.AppendedNodes{}, err
	}
	added, err := nodes.New(s, req.Nodes)
	if err != nil {
		return nil, api.AppendedNodes{}, err
	}
	result := api.AppendedNodes{IDs: []events.NodeID{}, Leaf: leaf}
	if len(added) == 0 {
		return nil, result, nil
	}
	for i := range added {
		result.IDs = append(result.IDs, added[i].ID)
	}
	result.Leaf = added[len(added)-1].ID
	return append(heal, events.Of("", &events.GraphAppended{Nodes: added, Key: req.IdempotencyKey})), result, nil
}

// BranchTo moves the leaf to a node, or before the first node when node is empty. It deletes nothing. A running turn
// refuses it with [api.ErrTurnRunning].
func (h *Host) BranchTo(ctx context.Context, id events.SessionID, node events.NodeID) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	return h.decideByKey(ctx, id, requestContent{operation.BranchTo.Name, "branch", &node}, reqMeta, keepingSystem(ctx, func(s *projector.State) ([]events.Event, error) {
		if err := check.Branchable(s); err != nil {
			return nil, err
		}
		if node != "" {
			n, err := s.Node(node)
			if err != nil {
				return nil, err
			}
			if n == nil {
				return nil, fmt.Errorf("branch to %s: %w", node, api.ErrUnknownNode)
			}
		}
		if s.Leaf == node {
			return nil, nil
		}
		return []events.Event{events.Of("", &events.GraphBranched{Leaf: node})}, nil
	}))
}

// Rewrite makes the active path's messages equal to target. It keeps the common prefix and appends the rest as a new
// branch. No stored node changes.
func (h *Host) Rewrite(ctx context.Context, id events.SessionID, target []api.RewriteMessage) error {
	var wanted []events.Message
	for _, m := range target {
		if !m.Transient {
			wanted = append(wanted, m.Message)
		}
	}
	ctx, reqMeta, err := api.TakeRequest(ctx, api.RewriteRequest(target))
	if err == nil {
		_, err = h.checkPlugins()
	}
	if err != nil {
		return fmt.Errorf("rewrite: %w", err)
	}
	return h.decideByKey(ctx, id, requestContent{operation.Rewrite.Name, "rewrite", &wanted}, reqMeta, keepingSystem(ctx, func(s *projector.State) ([]events.Event, error) {
		if err := check.Branchable(s); err != nil {
			return nil, err
		}
		leaf, branch, rest, err := s.Rewrite(wanted)
		if err != nil {
			return nil, err
		}
		var list []events.Event
		if branch {
			list = append(list, events.Of("", &events.GraphBranched{Leaf: leaf}))
		}
		wantedNodes := make([]api.AppendNode, len(rest))
		for i := range rest {
			wantedNodes[i].Message = &rest[i]
		}
		added, err := nodes.New(s, wantedNodes)
		if err == nil && len(added) > 0 {
			list = append(list, events.Of("", &events.GraphAppended{Nodes: added}))
		}
		return list, err
	}))
}
