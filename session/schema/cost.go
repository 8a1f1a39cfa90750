package schema

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// check refuses unknown references, recursion on the same value, and schemas of which too many, or whose patterns are too
// long, apply to one location of a value.
func (g *graph) check() error {
	for at, n := range g.nodes {
		for i, ref := range n.here {
			to, ok := g.place(ref)
			if !ok {
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

// place is the place of the schema that a reference names.
func (g *graph) place(ref string) (at string, ok bool) {
	at, err := url.PathUnescape(ref)
	return at, err == nil && g.nodes[at] != nil
}

// same counts how often each schema applies to the value to which the schema at a location applies.
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
		if total > maxVisits {
			return nil, tooMany(at)
		}
	}
	known[at] = count
	return count, nil
}

func tooMany(at string) error {
	return fmt.Errorf("%s: applies more than %d schemas to one place of a value", clip(at), maxVisits)
}

// applied counts how often each schema applies to one location of a value.
type applied map[string]float64

// key identifies the counts.
func (a applied) key() string {
	places := slices.Sorted(maps.Keys(a))
	var b strings.Builder
	for _, at := range places {
		fmt.Fprintf(&b, "%s %g\n", at, a[at])
	}
	return b.String()
}

// visits walks down a value along all paths that the schema knows, and counts the schemas that apply to each
// location. If several paths lead to a recursive schema, the counts grow with every step.
func (g *graph) visits(same map[string]map[string]float64) error {
	first := applied{"#": 1}
	seen, todo := map[string]bool{first.key(): true}, []applied{first}
	for len(todo) > 0 {
		all, total, pattern := make(applied), 0.0, 0.0
		for at, times := range todo[0] {
			for place, n := range same[at] {
				all[place] += times * n
				total += times * n
				pattern += times * n * g.nodes[place].pattern
			}
			switch {
			case total > maxVisits:
				return tooMany(at)
			case pattern > maxPattern:
				return tooLong(at)
			}
		}
		todo = todo[1:]
		for _, next := range g.down(all) {
			if key := next.key(); !seen[key] {
				seen[key] = true
				todo = append(todo, next)
			}
		}
		if len(seen) > 4*maxNodes {
			return fmt.Errorf("has more than %d ways to apply its schemas", 4*maxNodes)
		}
	}
	return nil
}

// down counts the schemas that apply to each member of a value to which these schemas apply.
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
