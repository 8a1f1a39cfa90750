package llm

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Counts are totals of tokens; nil is not told.
type Counts struct{ Input, Output, CacheRead, CacheWrite, Reasoning *Number }

// add replaces the counts that c tells. Those of the prompt stay where a later event tells 0 of them.
func (c Counts) add(to *events.Usage) {
	set := func(told *Number, to *int64, least Number) {
		if told != nil && *told >= least {
			*to = int64(*told)
		}
	}
	set(c.Input, &to.Input, 1)
	set(c.Output, &to.Output, 0)
	set(c.CacheRead, &to.CacheRead, 1)
	set(c.CacheWrite, &to.CacheWrite, 1)
	set(c.Reasoning, &to.Reasoning, 0)
}

// CountsOf reads a usage of any wire. inside says whether the wire counts cached tokens in those of the prompt; a total
// decides it where there is one, and whether the reasoning is in the output. What is no usage tells nothing.
func CountsOf(raw json.RawMessage, inside bool) Counts {
	u := []Members{MembersOf(raw)}
	for name, details := range u[0] {
		if strings.HasSuffix(name, "_tokens_details") {
			u = append(u, MembersOf(details))
		}
	}
	total := largest(u, "total_tokens")
	c := Counts{
		Input:      largest(u, "prompt_tokens", "input_tokens"),
		Output:     largest(u, "completion_tokens", "output_tokens"),
		CacheRead:  largest(u, "cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"),
		CacheWrite: largest(u, "cache_write_tokens", "cache_creation_input_tokens"),
		Reasoning:  largest(u, "reasoning_tokens", "thinking_tokens"),
	}
	in, out, cached, thought := c.Input.Value(), c.Output.Value(), c.CacheRead.Value()+c.CacheWrite.Value(), c.Reasoning.Value()
	switch {
	case c.Input == nil:
		return c
	case in+out+cached == 0: // of no prompt
		return Counts{}
	}
	if rest := total.Value() - in - out; total != nil {
		switch rest {
		case 0:
			inside = true
		case thought, cached, cached + thought:
			inside = rest != cached && rest != cached+thought
			if rest != cached {
				out += thought
			}
		}
	}
	if c.Output != nil {
		c.Output = &out
	}
	if inside {
		in = max(in-cached, 0)
		c.Input = &in
	}
	return c
}

// largest is the largest count of one thing under its names: gateways tell 0 under some.
func largest(u []Members, names ...string) (most *Number) {
	for _, counts := range u {
		for _, name := range names {
			if n := counts.Number(name); most == nil || n.Value() > *most {
				most = n
			}
		}
	}
	return most
}

// UsageIn is the usage in an event that has it in another place than its wire has: in a choice, or in a vendor's own field. It
// is nil without one.
func UsageIn(event []byte) json.RawMessage {
	const depth = 4
	within := []json.RawMessage{event}
	for n := 0; n < depth && bytes.Contains(event, []byte(`"usage"`)); n++ {
		var inner []json.RawMessage
		for _, raw := range within {
			members := MembersOf(raw)
			if IsSet(members["usage"]) {
				return members["usage"]
			}
			var list []json.RawMessage
			_ = json.Unmarshal(raw, &list) // an object is none
			inner = append(inner, list...)
			for _, name := range slices.Sorted(maps.Keys(members)) {
				inner = append(inner, members[name])
			}
		}
		within = inner
	}
	return nil
}
