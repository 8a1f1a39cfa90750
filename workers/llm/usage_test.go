package llm_test

import (
	"encoding/json"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
)

// TestCounts reads the usage of any wire: input, output, cache reads, cache writes and reasoning.
func TestCounts(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][5]llm.Number{
		`{"prompt_tokens":100,"completion_tokens":5}`:                                                                                                                     {100, 5, -1, -1, -1},
		`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":40}}`:                                                                        {60, 5, 40, -1, -1},
		`{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":40}}`:                                                     {60, 5, 40, -1, -1},
		`{"prompt_tokens":60,"completion_tokens":25,"total_tokens":125,"cache_read_input_tokens":40,"cache_creation_input_tokens":0}`:                                     {60, 25, 40, 0, -1},
		`{"prompt_tokens":60,"completion_tokens":25,"total_tokens":135,"cache_read_input_tokens":40,"cache_creation_input_tokens":10}`:                                    {60, 25, 40, 10, -1},
		`{"prompt_tokens":100,"completion_tokens":18,"total_tokens":125,"completion_tokens_details":{"reasoning_tokens":7},"prompt_tokens_details":{"cached_tokens":40}}`: {60, 25, 40, -1, 7},
		`{"input_tokens":"10","output_tokens":2.0}`:                                                                                                                       {10, 2, -1, -1, -1},
		`{"prompt_tokens":9,"completion_tokens":1,"prompt_cache_hit_tokens":4}`:                                                                                           {5, 1, 4, -1, -1},
		`{"prompt_tokens":0,"input_tokens":100,"completion_tokens":0,"output_tokens":5}`:                                                                                  {100, 5, -1, -1, -1},
		`{"prompt_tokens":9,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0},"prompt_cache_hit_tokens":4}`:                                               {5, 1, 4, -1, -1},
		`{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`:                                                                                                      {-1, -1, -1, -1, -1},
		`[1]`: {-1, -1, -1, -1, -1}, `null`: {-1, -1, -1, -1, -1}, `{}`: {-1, -1, -1, -1, -1},
	} {
		c := llm.CountsOf(json.RawMessage(raw), true)
		for i, n := range []*llm.Number{c.Input, c.Output, c.CacheRead, c.CacheWrite, c.Reasoning} {
			if got := valueOf(n); got != want[i] {
				t.Errorf("%s: count %d: got %d, want %d; -1 is not told", raw, i, got, want[i])
			}
		}
	}
	for event, want := range map[string]string{
		`{"choices":[{"usage":{"a":1}}]}`: `{"a":1}`, `{"x_groq":{"usage":{"a":1}}}`: `{"a":1}`, `{"choices":[{"delta":{"usage":{"a":1}}}]}`: `{"a":1}`,
		`{"choices":[{"delta":{"content":"{\"usage\":1}"}}]}`: "", `{"usage":null}`: "",
	} {
		runtest.Equal(t, event, string(llm.UsageIn([]byte(event))), want)
	}
}

func valueOf(n *llm.Number) llm.Number {
	if n == nil {
		return -1
	}
	return *n
}
