package blob

import (
	"context"

	"github.com/lash-go/lash/events"
)

const (
	// nodesPerCommit bounds the nodes in one commit of a creation.
	nodesPerCommit = 128
	// chunkExtra bounds the bytes of several nodes in one event without their bodies.
	chunkExtra = 48 << 10
	// chunkBytes bounds the nodes of an event. The rest of the event has 1 KiB.
	chunkBytes = events.MaxEventBytes - 1<<10
	// refBytes is the size of a reference. A body of at most this size stays in its event.
	refBytes = 80
)

// Chunks splits nodes into events of at most 128 nodes that fit in a commit, and spills their bodies.
func Chunks(ctx context.Context, blobs Store, nodes []events.NewNode) ([]*events.GraphAppended, error) {
	var list []*events.GraphAppended
	for len(nodes) > 0 {
		n, bodies, small, extra := 0, 0, 0, 0
		for n < len(nodes) && n < nodesPerCommit && (n == 0 || bodies < inlineTotal) {
			large, little, more, err := nodeBytes(&nodes[n])
			if err != nil {
				return nil, err
			}
			if n > 0 && small+extra+little+more > chunkExtra {
				break
			}
			bodies, small, extra, n = bodies+large, small+little, extra+more, n+1
		}
		all := max(min(inlineTotal, chunkBytes-extra), small)
		p, err := SpillAbove(ctx, blobs, &events.GraphAppended{Nodes: nodes[:n]}, min(InlineBytes, all), all)
		if err != nil {
			return nil, err
		}
		list = append(list, p.(*events.GraphAppended))
		nodes = nodes[n:]
	}
	return list, nil
}

// nodeBytes is the size of a node's bodies that are larger than a reference, of its other bodies, and of the
// rest of the node in an event that has references in place of the large bodies.
func nodeBytes(n *events.NewNode) (large, small, extra int, err error) {
	data, err := events.EncodePayload(n)
	if err != nil {
		return 0, 0, 0, err
	}
	extra = len(data)
	_, list := fieldsOf(&events.GraphAppended{Nodes: []events.NewNode{*n}}, true)
	for i := range list.all {
		switch size := list.all[i].size(); {
		case size > refBytes:
			large, extra = large+size, extra-size+refBytes
		default:
			small, extra = small+size, extra-size
		}
	}
	return large, small, extra, nil
}
