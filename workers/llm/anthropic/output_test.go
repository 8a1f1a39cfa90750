package anthropic_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
)

// TestOutputAndChoice requests every output and every choice of tools.
func TestOutputAndChoice(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"properties":{"n":{"const":9007199254740993}},"type":"object"}`)
	for name, c := range map[string]struct {
		output         llm.Output
		choice         llm.ToolChoice
		toolless       bool
		config, chosen string // as sent; empty when nothing is
		thinks         bool
	}{
		"zero":     {config: `{"effort":"high"}`, thinks: true},
		"schema":   {output: llm.Output{Name: "count", Schema: schema}, config: `{"effort":"high","format":{"schema":` + string(schema) + `,"type":"json_schema"}}`, thinks: true},
		"none":     {choice: llm.ToolChoice{None: true}, config: `{"effort":"high"}`, chosen: `{"type":"none"}`, thinks: true},
		"required": {choice: llm.ToolChoice{Required: true}, config: `{"effort":"high"}`, chosen: `{"type":"any"}`},
		"named":    {choice: llm.ToolChoice{Tool: "f"}, config: `{"effort":"high"}`, chosen: `{"name":"f","type":"tool"}`},
		"no_tools": {choice: llm.ToolChoice{None: true}, toolless: true, config: `{"effort":"high"}`, thinks: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, http.StatusOK, sse(begin, finish("end_turn"), stop))
			req := request()
			req.Effort, req.Output, req.ToolChoice = "high", c.output, c.choice
			if !c.toolless {
				req.Tools = []llm.Tool{{Name: "f"}}
			}
			_, err := b.Complete(t.Context(), req, nil)
			runtest.NoError(t, err)
			var sent struct {
				OutputConfig json.RawMessage `json:"output_config"`
				ToolChoice   json.RawMessage `json:"tool_choice"`
				Thinking     json.RawMessage
			}
			runtest.NoError(t, json.Unmarshal([]byte(b.body), &sent))
			runtest.Equal(t, "output_config", string(sent.OutputConfig), c.config)
			runtest.Equal(t, "tool_choice", string(sent.ToolChoice), c.chosen)
			if got := len(sent.Thinking) > 0; got != c.thinks {
				t.Errorf("thinking: got %s", sent.Thinking)
			}
		})
	}
	for name, output := range map[string]llm.Output{"object without a schema": {JSON: true}, "schema that is no object": {Schema: json.RawMessage(`[1]`)}} {
		b := setup(t, http.StatusOK, sse(begin, finish("end_turn"), stop))
		req := request()
		req.Output = output
		_, err := b.Complete(t.Context(), req, nil)
		if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindRequest || b.body != "" {
			t.Errorf("%s: got %v after sending %q, want it refused", name, err, b.body)
		}
	}
}
