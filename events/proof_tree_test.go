package events_test

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events/proof"
)

// root is MTH of RFC 6962, section 2.1, for hashes of leaves.
func root(leaves []proof.Hash) proof.Hash {
	if len(leaves) == 1 {
		return leaves[0]
	}
	k := 1
	for 2*k < len(leaves) {
		k *= 2
	}
	left, right := root(leaves[:k]), root(leaves[k:])
	return sha256.Sum256(append(append([]byte{1}, left[:]...), right[:]...))
}

func leaf(i int) proof.Hash { return sha256.Sum256(fmt.Append([]byte{0}, i)) }

func TestLongTreeRoot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var tree proof.Tree
		var leaves []proof.Hash
		for i := range rapid.IntRange(1, 300).Draw(t, "size") {
			leaves = append(leaves, leaf(i))
			if got, want := tree.Root(leaf(i)), root(leaves); got != want {
				t.Fatalf("root of %d: got %s, want %s", i+1, got, want)
			}
			before := tree.Clone()
			tree.Append(leaf(i))
			if rapid.Bool().Draw(t, "keep") {
				tree.Keep(rapid.IntRange(0, 5).Draw(t, "n"))
			}
			if err := tree.Check(); err != nil || tree.Size() != int64(i+1) {
				t.Fatalf("size: got %d, %v, want %d", tree.Size(), err, i+1)
			}
			if got, want := before.Root(leaf(i)), root(leaves); got != want {
				t.Fatalf("the tree before changed: got %s, want %s", got, want)
			}
		}
	})
}
