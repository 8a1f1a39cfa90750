package proof

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
)

// diff reports how commits differ from the signed ones, whose first has sequence first.
func (a *Auditor) diff(first int64, signed []Hash, actual []commit) {
	place := make(map[Hash]int, len(signed))
	for i, leaf := range signed {
		place[leaf] = i
	}
	in := make(map[Hash]bool, len(actual))
	var at []int    // places of the actual commits that were signed
	var which []int // their indexes
	for i := range actual {
		if p, ok := place[actual[i].leaf]; ok && !in[actual[i].leaf] {
			in[actual[i].leaf] = true
			at, which = append(at, p), append(which, i)
		}
	}
	i, p := 0, 0
	for _, anchor := range append(rising(at), -1) {
		nextActual, nextSigned := len(actual), len(signed)
		if anchor >= 0 {
			nextActual, nextSigned = which[anchor], at[anchor]
		}
		before := events.CommitID("")
		if i > 0 {
			before = actual[i-1].id
		}
		a.gap(first+int64(p), signed[p:nextSigned], actual[i:nextActual], place, in, before)
		i, p = nextActual+1, nextSigned+1
	}
}

// gap reports the differences between two commits that are in place.
func (a *Auditor) gap(first int64, signed []Hash, actual []commit, place map[Hash]int, in map[Hash]bool, before events.CommitID) {
	var missing []events.Seq
	for i, leaf := range signed {
		if !in[leaf] {
			missing = append(missing, events.Seq(first+int64(i)))
			a.missed[leaf] = first + int64(i)
		}
	}
	for i := range actual {
		c := &actual[i]
		switch _, known := place[c.leaf]; {
		case known:
			a.fault(FaultMoved, c, "it was signed at another place: it was moved, or repeated")
		case len(missing) > 0:
			a.fault(FaultAltered, c, fmt.Sprintf("it is not the commit that was signed with sequence %d", missing[0]))
			missing = missing[1:]
		default:
			a.fault(FaultInserted, c, "it is not among the commits that were signed")
		}
	}
	for _, seq := range missing {
		problem := "the commit that was signed with this sequence is missing"
		if before != "" {
			problem += "; it was after commit " + string(before)
		}
		a.found = append(a.found, Finding{Fault: FaultRemoved, Seq: seq, Problem: problem})
		a.named[0] = true // positions after it differ
	}
}

// rising returns the indexes of a longest rising subsequence of different numbers.
func rising(list []int) []int {
	var ends []int // ends[n]: index of the smallest last element of a subsequence of n+1
	before := make([]int, len(list))
	for i, v := range list {
		n, _ := slices.BinarySearchFunc(ends, v, func(e, v int) int { return list[e] - v })
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
