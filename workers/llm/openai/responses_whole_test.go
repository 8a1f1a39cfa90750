package openai_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestResponsesWholeTexts: an event with a whole text gives what no delta gave, once, for each kind of text.
func TestResponsesWholeTexts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ event, item, content, member, want string }{
		{"output_text", `"type":"message"`, `"content":[{"type":"output_text","text":"one"},{"type":"output_text","text":"two"}]`, "text", "text onetwo"},
		{"refusal", `"type":"message"`, `"content":[{"type":"refusal","refusal":"one"},{"type":"refusal","refusal":"two"}]`, "refusal", "text onetwo"},
		{"reasoning_text", `"type":"reasoning"`, `"content":[{"type":"reasoning_text","text":"one"},{"type":"reasoning_text","text":"two"}]`, "text", "reasoning onetwo"},
		{"reasoning_summary_text", `"type":"reasoning"`, `"summary":[{"type":"summary_text","text":"onetwo"}]`, "text", "reasoning onetwo"},
		{"function_call_arguments", `"type":"function_call","call_id":"a","name":"f"`, `"arguments":"onetwo"`, "arguments", "f onetwo"},
	} {
		begin := itemOf("added", 0, "i", c.item)
		whole := deltaOf(c.event+".done", 0, "i", fmt.Sprintf(`%q:"onetwo"`, c.member))
		first := deltaOf(c.event+".done", 0, "i", fmt.Sprintf(`%q:"one"`, c.member))
		deltas := []string{deltaOf(c.event+".delta", 0, "i", `"delta":"one"`), deltaOf(c.event+".delta", 0, "i", `"delta":"two"`)}
		end, completed := itemOf("done", 0, "i", c.item+","+c.content), completedWith(`{"id":"i",`+c.item+","+c.content+"}")
		for name, events := range map[string][]string{
			"alone":        {begin, whole, completedWith("")},
			"deltas":       {begin, deltas[0], deltas[1], whole, completedWith("")},
			"all":          {begin, deltas[0], deltas[1], whole, end, completed},
			"item":         {begin, whole, end, completedWith("")},
			"rest_of_item": {begin, first, end, completed},
			"rest":         {begin, deltas[0], whole, completedWith("")},
			"response":     {begin, whole, completed},
			"item_alone":   {end, completedWith("")},
		} {
			if c.event == "function_call_arguments" && (name == "rest" || name == "rest_of_item") {
				continue // arguments are whole, or there are none
			}
			res, err := setupResponses(t, http.StatusOK, sse(events...)).Complete(t.Context(), request(), nil)
			var got []string
			for _, p := range res.Parts {
				got = append(got, strings.TrimSpace(p.Tool+" "+string(p.Args)))
				if p.Kind != "tool_call" {
					got[len(got)-1] = string(p.Kind) + " " + p.Text
				}
			}
			if strings.Join(got, "|") != c.want || err != nil {
				t.Errorf("%s %s: got %q and %v, want %q", c.event, name, got, err, c.want)
			}
		}
	}
}
