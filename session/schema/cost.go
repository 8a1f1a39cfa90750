package schema

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// check refuses references to nothing, recursion that consumes nothing of the
// value, and schemas of which too many are applied to one place of a value.
func (g *graph) check() error {
	for at, n := range g.nodes {
		for i, ref := range n.here {
			to, err := url.PathUnescape(ref)
			if err != nil || g.nodes[to] == nil {
				return fmt.Errorf("%s: $ref %q: there is no such schema", clip(at), clip(ref))
			}
			n.here[i] = to
		}
	}
	closed := make(map[string]map[string]float64)
	for at := range g.nodes {
		if _, err := g.same(at, closed, make(map[string]bool)); err != nil {
			return err
		}
	}
	return g.visits(closed)
}

// same is how often each schema is applied to the value that the one at a place is applied to.
func (g *graph) same(at string, known map[string]map[string]float64, open map[string]bool) (map[string]float64, error) {
	if count, ok := known[at]; ok {
		return count, nil
	}
	if open[at] {
		return nil, fmt.Errorf("%s: refers to itself for the same value, without end", clip(at))
	}
	open[at] = true
	defer delete(open, at)
	count, total := map[string]float64{at: 1}, 1.0
	for _, next := range g.nodes[at].here {
		inner, err := g.same(next, known, open)
		if err != nil {
			return nil, err
		}
		for place, n := range inner {
			count[place] += n
			total += n
		}
		if total > MaxVisits {
			return nil, tooMany(at)
		}
	}
	known[at] = count
	return count, nil
}

func tooMany(at string) error {
	return fmt.Errorf("%s: applies more than %d schemas to one place of a value", clip(at), MaxVisits)
}

// applied is how often each schema is applied to one place of a value.
type applied map[string]float64

// key tells one from another.
func (a applied) key() string {
	places := slices.Sorted(maps.Keys(a))
	var b strings.Builder
	for _, at := range places {
		fmt.Fprintf(&b, "%s %g\n", at, a[at])
	}
	return b.String()
}

// visits goes down a value in every way that the schema knows of, and looks at
// what is applied to each place. Where a schema that recurs is reached in more
// than one way, that grows with every step.
func (g *graph) visits(same map[string]map[string]float64) error {
	first := applied{"#": 1}
	seen, todo := map[string]bool{first.key(): true}, []applied{first}
	for len(todo) > 0 {
		all, total := make(applied), 0.0
		for at, times := range todo[0] {
			for place, n := range same[at] {
				all[place] += times * n
				total += times * n
			}
			if total > MaxVisits {
				return tooMany(at)
			}
		}
		todo = todo[1:]
		for _, next := range g.down(all) {
			if key := next.key(); !seen[key] {
				seen[key] = true
				todo = append(todo, next)
			}
		}
		if len(seen) > 4*MaxNodes {
			return fmt.Errorf("has more than %d ways to apply its schemas", 4*MaxNodes)
		}
	}
	return nil
}

// down is what is applied to each member of a value, where these are applied to the value.
func (g *graph) down(all applied) map[string]applied {
	members := map[string]applied{"*": {}}
	for place := range all {
		for member := range g.nodes[place].below {
			members[member] = make(applied)
		}
	}
	for member, next := range members {
		for place, times := range all {
			for _, to := range g.nodes[place].below[member] {
				next[to] += times
			}
			if member == "*" {
				continue
			}
			for _, to := range g.nodes[place].below["*"] {
				next[to] += times
			}
		}
		if len(next) == 0 {
			delete(members, member)
		}
	}
	return members
}
