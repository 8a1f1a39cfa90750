package proof

import (
	"fmt"
	"math/bits"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/lash-go/lash/events"
)

// Hash is a hash of the tree.
type Hash = tlog.Hash

const hashBytes = tlog.HashSize

// Tree is what appending to a session's tree needs, and a head: its right edge without the last leaves, and those
// leaves. A copy that is appended to, as the original is, needs [Tree.Clone].
type Tree struct {
	Before int64  `msgpack:"b,omitempty"` // number of leaves that Edge covers
	Edge   []byte `msgpack:"e,omitempty"` // hashes of the largest complete subtrees of those, from the left
	Leaves []byte `msgpack:"l,omitempty"` // hashes of the leaves after those
}

// IsZero reports whether the tree has no leaf.
func (t Tree) IsZero() bool { return t.Size() == 0 }

// Size is the number of leaves.
func (t *Tree) Size() int64 { return t.Before + int64(len(t.Leaves)/hashBytes) }

// Check returns [events.ErrInvalid] where the sizes do not fit each other.
func (t *Tree) Check() error {
	if t.Before < 0 || len(t.Leaves)%hashBytes != 0 || len(t.Edge) != hashBytes*bits.OnesCount64(uint64(t.Before)) {
		return fmt.Errorf("%w: tree of %d leaves with an edge of %d bytes and leaves of %d", events.ErrInvalid, t.Before, len(t.Edge), len(t.Leaves))
	}
	return nil
}

// Append adds a leaf.
func (t *Tree) Append(leaf Hash) {
	t.Leaves = append(t.Leaves, leaf[:]...)
}

// Clone returns a copy that can be appended to. It shares the memory of the tree so far, which never changes.
func (t *Tree) Clone() Tree {
	return Tree{Before: t.Before, Edge: t.Edge, Leaves: slices.Clip(t.Leaves)}
}

// Keep moves all but the last n leaves to the edge.
func (t *Tree) Keep(n int) {
	surplus := len(t.Leaves) - n*hashBytes
	if surplus <= 0 {
		return
	}
	t.Edge = extend(t.Edge, t.Before, t.Leaves[:surplus])
	t.Before += int64(surplus / hashBytes)
	t.Leaves = t.Leaves[surplus:]
}

// Root is the root of the tree with one more leaf.
func (t *Tree) Root(leaf Hash) Hash {
	edge := extend(t.Edge, t.Before, t.Leaves)
	return rootOf(extend(edge, t.Size(), leaf[:]))
}

// extend returns the edge of a tree of size leaves with more leaves. It shares no memory with the old one.
func extend(edge []byte, size int64, leaves []byte) []byte {
	edge = append(make([]byte, 0, len(edge)+hashBytes+64), edge...)
	for ; len(leaves) > 0; leaves = leaves[hashBytes:] {
		hash := Hash(leaves[:hashBytes])
		for n := size; n&1 == 1; n >>= 1 {
			last := len(edge) - hashBytes
			hash = tlog.NodeHash(Hash(edge[last:]), hash)
			edge = edge[:last]
		}
		edge = append(edge, hash[:]...)
		size++
	}
	return edge
}

// rootOf is the root of a tree with that edge, which is not empty.
func rootOf(edge []byte) Hash {
	last := len(edge) - hashBytes
	hash := Hash(edge[last:])
	for last > 0 {
		last -= hashBytes
		hash = tlog.NodeHash(Hash(edge[last:last+hashBytes]), hash)
	}
	return hash
}

// of is the tree that a head extends.
func of(head *events.AuditHeadSigned) Tree {
	return Tree{Before: head.Before, Edge: head.Edge, Leaves: head.Leaves}
}
