package llm

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
)

// Counts are totals of tokens; nil is not told.
type Counts struct{ Input, Output, CacheRead, CacheWrite, Reasoning *Number }

// add replaces the counts that c tells. Those of the prompt stay where a later event tells 0 of them.
func (c Counts) add(to *events.Usage) {
	for _, n := range []struct {
		told  *Number
		to    *int64
		grows bool
	}{
		{c.Input, &to.Input, false},
		{c.Output, &to.Output, true},
		{c.CacheRead, &to.CacheRead, false},
		{c.CacheWrite, &to.CacheWrite, false},
		{c.Reasoning, &to.Reasoning, true},
	} {
		if n.told != nil && (*n.told > 0 || n.grows) {
			*n.to = int64(*n.told)
		}
	}
}

// usage has the counts of all wires, by all names that they have.
type usage struct {
	PromptTokens     *Number `json:"prompt_tokens"`
	InputTokens      *Number `json:"input_tokens"`
	CompletionTokens *Number `json:"completion_tokens"`
	OutputTokens     *Number `json:"output_tokens"`
	TotalTokens      *Number `json:"total_tokens"`

	CachedTokens             *Number `json:"cached_tokens"`
	PromptCacheHitTokens     *Number `json:"prompt_cache_hit_tokens"`
	CacheReadInputTokens     *Number `json:"cache_read_input_tokens"`
	CacheCreationInputTokens *Number `json:"cache_creation_input_tokens"`
	ReasoningTokens          *Number `json:"reasoning_tokens"`

	PromptTokensDetails     tokenDetails `json:"prompt_tokens_details"`
	InputTokensDetails      tokenDetails `json:"input_tokens_details"`
	CompletionTokensDetails tokenDetails `json:"completion_tokens_details"`
	OutputTokensDetails     tokenDetails `json:"output_tokens_details"`
}

type tokenDetails struct {
	CachedTokens     *Number `json:"cached_tokens"`
	CacheWriteTokens *Number `json:"cache_write_tokens"`
	ReasoningTokens  *Number `json:"reasoning_tokens"`
	ThinkingTokens   *Number `json:"thinking_tokens"`
}

// CountsOf reads a usage of any wire. inside says whether the wire counts cached tokens in those of the prompt; a total
// decides it where there is one, and whether the reasoning is in the output. What is no usage tells nothing.
func CountsOf(raw json.RawMessage, inside bool) Counts {
	var u usage
	if !IsSet(raw) || json.Unmarshal(raw, &u) != nil && u == (usage{}) {
		return Counts{}
	}
	c := Counts{
		Input:      largest(u.PromptTokens, u.InputTokens),
		Output:     largest(u.CompletionTokens, u.OutputTokens),
		CacheRead:  largest(u.PromptTokensDetails.CachedTokens, u.InputTokensDetails.CachedTokens, u.CacheReadInputTokens, u.PromptCacheHitTokens, u.CachedTokens),
		CacheWrite: largest(u.PromptTokensDetails.CacheWriteTokens, u.InputTokensDetails.CacheWriteTokens, u.CacheCreationInputTokens),
		Reasoning: largest(u.CompletionTokensDetails.ReasoningTokens, u.OutputTokensDetails.ReasoningTokens, u.CompletionTokensDetails.ThinkingTokens,
			u.OutputTokensDetails.ThinkingTokens, u.ReasoningTokens),
	}
	in, out, cached, thought := value(c.Input), value(c.Output), value(c.CacheRead)+value(c.CacheWrite), value(c.Reasoning)
	switch {
	case c.Input == nil:
		return c
	case in+out+cached == 0: // of no prompt
		return Counts{}
	}
	if rest := value(u.TotalTokens) - in - out; u.TotalTokens != nil {
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
func largest(list ...*Number) (most *Number) {
	for _, n := range list {
		if most == nil || value(n) > *most {
			most = n
		}
	}
	return most
}

func value(n *Number) Number {
	if n == nil {
		return 0
	}
	return *n
}

// UsageIn is the usage in an event that has it in another place than its wire has: in a choice, or in a vendor's own field. It
// is nil without one.
func UsageIn(event []byte) json.RawMessage {
	const depth = 4
	if !bytes.Contains(event, []byte(`"usage"`)) {
		return nil
	}
	return usageIn(event, depth)
}

func usageIn(raw json.RawMessage, depth int) json.RawMessage {
	var list []json.RawMessage
	if depth > 0 && json.Unmarshal(raw, &list) != nil {
		var members map[string]json.RawMessage
		if json.Unmarshal(raw, &members) != nil {
			return nil
		}
		if IsSet(members["usage"]) {
			return members["usage"]
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			list = append(list, members[name])
		}
	}
	for _, one := range list {
		if usage := usageIn(one, depth-1); usage != nil {
			return usage
		}
	}
	return nil
}
