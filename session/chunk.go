package session

import (
	"context"

	"github.com/lash-go/lash/events"
)

const (
	// nodesPerCommit bounds the nodes that one commit of a creation carries.
	nodesPerCommit = 128
	// chunkExtra bounds what several nodes of one event have beside their bodies.
	chunkExtra = 48 << 10
	// chunkBytes bounds the event, of which what surrounds the nodes is left out.
	chunkBytes = events.MaxEventBytes - 1<<10
	// refBytes is what the reference to a body takes. No smaller body is moved out of an event.
	refBytes = 80
)

// chunks splits nodes into events of at most nodesPerCommit nodes and a size that fits, bodies spilled.
func (h *Host) chunks(ctx context.Context, nodes []events.NewNode) ([]*events.GraphAppended, error) {
	var list []*events.GraphAppended
	for len(nodes) > 0 {
		n, bodies, small, extra := 0, 0, 0, 0
		for n < len(nodes) && n < nodesPerCommit && (n == 0 || bodies < InlineTotal) {
			large, little, more, err := nodeBytes(&nodes[n])
			if err != nil {
				return nil, err
			}
			if n > 0 && small+extra+little+more > chunkExtra {
				break
			}
			bodies, small, extra, n = bodies+large, small+little, extra+more, n+1
		}
		all := max(min(InlineTotal, chunkBytes-extra), small)
		p, err := SpillAbove(ctx, h.b, &events.GraphAppended{Nodes: nodes[:n]}, min(InlineBytes, all), all)
		if err != nil {
			return nil, err
		}
		list = append(list, p.(*events.GraphAppended))
		nodes = nodes[n:]
	}
	return list, nil
}

// nodeBytes is the size of those of a node's bodies that are worth a blob, of the others, and of all else that an
// event has of the node where the first ones are in blobs.
func nodeBytes(n *events.NewNode) (large, small, extra int, err error) {
	data, err := events.EncodePayload(n)
	if err != nil {
		return 0, 0, 0, err
	}
	extra = len(data)
	_, list := bodiesOf(&events.GraphAppended{Nodes: []events.NewNode{*n}})
	for i := range list {
		switch size := list[i].size(); {
		case size > refBytes:
			large, extra = large+size, extra-size+refBytes
		default:
			small, extra = small+size, extra-size
		}
	}
	return large, small, extra, nil
}
