package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/internal/nodes"
)

// reduceToPath reduces the base to the part that the request copies.
func (o *creation) reduceToPath(ctx context.Context) (err error) {
	if !o.req.PathOnly || o.base == nil {
		return nil
	}
	if o.base.Branched {
		err = follow.Complete(ctx, o.h.b, o.base)
	}
	if err == nil {
		o.base, err = o.base.PathOnly()
	}
	return err
}

// loadCopied loads the session that the request copies, as it is, or as it was at the sequence of the request. Of a session that has lost
// its last commits that is what is left. A caller that may not reach every session does not come to it: see [api.Authorize].
func (o *creation) loadCopied(ctx context.Context) (err error) {
	from, stateAt := o.req.From, o.h.StateAt
	o.base, err = o.h.reader.Open(ctx, from)
	if lost, ok := errors.AsType[*events.LostError](err); ok && lost.From > 1 {
		stateAt = o.h.reader.RemainingAt
		o.base, err = stateAt(ctx, from, lost.From-1)
	}
	if err != nil || o.req.At == 0 {
		return err
	}
	if o.now = o.base; o.req.At > o.now.Seq {
		return &events.FieldError{Field: "at", Reason: fmt.Sprintf("is %d, the history of %s ends at %d", o.req.At, from, o.now.Seq), Err: events.ErrInvalid}
	}
	o.base, err = stateAt(ctx, from, o.req.At)
	return err
}

// storeBase stores the blobs that the first commit will name. A creator that stops before that commit leaves blobs
// without a reference.
func (o *creation) storeBase(ctx context.Context, opened *events.SessionOpened, s *projector.State) error {
	if o.base == nil {
		return nil
	}
	ref, body, err := follow.SaveBase(ctx, o.h.b, o.base)
	if err != nil {
		return err
	}
	opened.Base = ref
	return s.AttachBase(ref, body)
}

// newNodes returns the nodes that follow the base, with ids that the base does not have.
func (o *creation) newNodes(ctx context.Context) ([]events.NewNode, error) {
	graph := projector.New(o.id)
	if o.base != nil && len(o.req.Nodes) > 0 {
		graph = o.base
		if err := follow.Complete(ctx, o.h.b, graph); err != nil {
			return nil, err
		}
	}
	return nodes.NewBeside(graph, o.req.Nodes, make(map[events.NodeID]bool))
}
