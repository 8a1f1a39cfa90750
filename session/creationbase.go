package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
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

// rewind replaces the base by its state at the sequence of the request.
func (o *creation) rewind(ctx context.Context) (err error) {
	o.now = o.base
	if last := o.base.Seq; o.req.At > last {
		return &events.FieldError{Field: "at", Reason: fmt.Sprintf("is %d, the history of %s ends at %d", o.req.At, o.req.From, last), Err: events.ErrInvalid}
	}
	o.base, err = o.h.StateAt(api.WithSession(ctx, o.req.From), o.req.From, o.req.At)
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
