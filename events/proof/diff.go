package proof

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"

	"github.com/lash-go/lash/events"
)

// signedLeaves are the leaves that the verified heads name. All heads verify by themselves, so this does not depend on
// where they are now.
type signedLeaves struct {
	leaf  map[int64]Hash // by sequence
	place map[Hash]int64 // the same, by leaf
	in    map[Hash]int   // index of the commit that has the leaf now
	known []int64        // sequences in leaf, sorted
	last  int64          // size of the largest head
}

// settle compares the commits with those that the verified heads name.
func (a *Auditor) settle() {
	if len(a.heads) == 0 {
		return
	}
	w := a.signedLeaves()
	for i := range a.commits {
		leaf := a.commits[i].leaf
		seq, signed := w.place[leaf]
		if _, again := w.in[leaf]; signed && (!again || int64(i+1) == seq) { // of two copies the one in place
			w.in[leaf] = i
		}
	}
	var seqs []int64
	var which []int
	for i := range a.commits {
		if at, ok := w.in[a.commits[i].leaf]; ok && at == i {
			seqs, which = append(seqs, w.place[a.commits[i].leaf]), append(which, i)
		}
	}
	seq, i := int64(1), 0
	assumed := make(map[int64]int) // indexes of commits with sequences that no head names
	for _, anchor := range rising(seqs) {
		a.gap(w, seq, seqs[anchor], i, which[anchor], assumed)
		seq, i = seqs[anchor]+1, which[anchor]+1
	}
	if i > 0 {
		a.report.Proven = a.commits[i-1].seq
	}
	if seq <= w.last {
		a.gap(w, seq, w.last+1, i, min(len(a.commits), i+int(w.last-seq)+1), assumed)
	}
	for _, c := range a.commits[i:] {
		if at, ok := w.place[c.leaf]; ok {
			a.fault(FaultMoved, &c, fmt.Sprintf("it was signed with sequence %d: it was moved, or repeated", at))
		}
	}
	a.checkEdge(w, assumed)
}

func (a *Auditor) signedLeaves() *signedLeaves {
	w := &signedLeaves{leaf: make(map[int64]Hash), place: make(map[Hash]int64), in: make(map[Hash]int)}
	for _, h := range a.heads {
		for k, leaf := range append(split(h.tree.Leaves), h.at.leaf) {
			seq := h.tree.Before + int64(k) + 1
			if other, ok := w.leaf[seq]; ok && other != leaf {
				a.fault(FaultConflicting, h.at, "its head and another one are of two different histories")
				continue
			}
			w.leaf[seq], w.place[leaf] = leaf, seq
		}
		if int64(h.Size) > w.last {
			w.last, a.report.Last = int64(h.Size), h.Head
		}
	}
	a.report.Heads = int64(len(a.heads))
	w.known = slices.Sorted(maps.Keys(w.leaf))
	return w
}

// gap reports the differences between two commits that are in place: the signed ones have sequences from..to-1, the
// actual ones indexes begin..end-1.
func (a *Auditor) gap(w *signedLeaves, from, to int64, begin, end int, assumed map[int64]int) {
	low, _ := slices.BinarySearch(w.known, from)
	high, _ := slices.BinarySearch(w.known, to)
	unknown := to - from - int64(high-low)
	var missing []int64
	for _, seq := range w.known[low:high] {
		if _, there := w.in[w.leaf[seq]]; !there {
			missing = append(missing, seq)
		}
	}
	var others []*commit
	for i := begin; i < end; i++ {
		c := &a.commits[i]
		if seq, signed := w.place[c.leaf]; signed {
			a.fault(FaultMoved, c, fmt.Sprintf("it was signed with sequence %d: it was moved, or repeated", seq))
			continue
		}
		others = append(others, c)
		if seq := from + int64(i-begin); unknown > 0 && int64(end-begin) == to-from {
			if _, known := w.leaf[seq]; !known {
				assumed[seq] = i
				others = others[:len(others)-1]
			}
		}
	}
	if unknown > 0 && int64(end-begin) != to-from {
		if int64(len(others)) != unknown {
			a.faultRange(others, unknown, from)
			return
		}
		for seq := from; seq < to; seq++ { // the known ones are missing, and the others are in order: the edge decides
			if _, known := w.leaf[seq]; !known {
				assumed[seq] = int(others[0].seq) - 1
				others = others[1:]
			}
		}
	}
	a.pair(missing, others, begin)
}

// pair reports the signed commits that are missing, and the others that stand there.
func (a *Auditor) pair(missing []int64, others []*commit, begin int) {
	for _, c := range others {
		if len(missing) == 0 {
			a.fault(FaultInserted, c, "it is not among the commits that were signed")
			continue
		}
		a.fault(FaultAltered, c, fmt.Sprintf("it is not the commit that was signed with sequence %d", missing[0]))
		missing = missing[1:]
	}
	for _, seq := range missing {
		problem := "the commit that was signed with this sequence is missing"
		if begin > 0 {
			problem += "; it was after commit " + string(a.commits[begin-1].id)
		}
		a.found = append(a.found, Finding{Fault: FaultRemoved, Seq: events.Seq(seq), Problem: problem})
	}
}

// faultRange reports that something is wrong in a range of commits, in place of n from a sequence on.
func (a *Auditor) faultRange(list []*commit, n, from int64) {
	if len(list) == 0 {
		a.found = append(a.found, Finding{Fault: FaultRemoved, Seq: events.Seq(from), Problem: fmt.Sprintf("%d signed commits are missing", n)})
		return
	}
	first, last := list[0], list[len(list)-1]
	a.found = append(a.found, Finding{
		Fault: FaultAltered, Seq: first.seq, Upto: last.seq, ID: first.id,
		Problem: fmt.Sprintf("at least one of the commits %d (%s) to %d (%s) is not the one that was signed", first.seq, first.id, last.seq, last.id),
	})
}

// checkEdge compares the commits that no head names one by one with the edge of the largest head. They are from before
// the first head, or from a segment whose own head is gone.
func (a *Auditor) checkEdge(w *signedLeaves, assumed map[int64]int) {
	largest := a.heads[0]
	for _, h := range a.heads {
		if h.Size > largest.Size {
			largest = h
		}
	}
	if int64(len(w.leaf)+len(assumed)) < largest.tree.Before {
		return // commits are missing, which is reported
	}
	rest, at := largest.tree.Edge, int64(0)
	for bit := bits.Len64(uint64(largest.tree.Before)) - 1; bit >= 0; bit-- {
		size := int64(1) << bit
		if largest.tree.Before&size == 0 {
			continue
		}
		var edge []byte
		var within []*commit
		for k := range size {
			leaf, known := w.leaf[at+k+1]
			if !known {
				c := &a.commits[assumed[at+k+1]]
				leaf = c.leaf
				within = append(within, c)
			}
			edge = extend(edge, k, leaf[:])
		}
		switch same := slices.Equal(edge, rest[:hashBytes]); {
		case !same && len(within) > 0:
			a.faultRange(within, int64(len(within)), at+1)
		case !same:
			a.fault(FaultConflicting, largest.at, "its head and another one are of two different histories")
		}
		rest = rest[hashBytes:]
		at += size
	}
}

// rising returns the indexes of a longest rising subsequence of different numbers.
func rising(list []int64) []int {
	var ends []int // ends[n]: index of the smallest last element of a subsequence of n+1
	before := make([]int, len(list))
	for i, v := range list {
		n, _ := slices.BinarySearchFunc(ends, v, func(e int, v int64) int { return int(list[e] - v) })
		before[i] = -1
		if n > 0 {
			before[i] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, i)
		} else {
			ends[n] = i
		}
	}
	result := slices.Clone(ends)
	for n := len(result) - 2; n >= 0; n-- {
		result[n] = before[result[n+1]]
	}
	return result
}
