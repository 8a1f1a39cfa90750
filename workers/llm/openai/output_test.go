package openai_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/openai"
)

// TestOutputAndChoice requests every output and every choice of tools.
func TestOutputAndChoice(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"const":9007199254740993}}}`)
	for name, c := range map[string]struct {
		output         llm.Output
		choice         llm.ToolChoice
		toolless       bool
		format, chosen string // as sent; empty when nothing is
	}{
		"zero":     {},
		"object":   {output: llm.Output{JSON: true}, format: `{"type":"json_object"}`},
		"schema":   {output: llm.Output{Name: "count", Schema: schema}, format: `{"json_schema":{"name":"count","schema":` + string(schema) + `,"strict":false},"type":"json_schema"}`},
		"strict":   {output: llm.Output{Name: "count", Schema: schema, Strict: true}, format: `{"json_schema":{"name":"count","schema":` + string(schema) + `,"strict":true},"type":"json_schema"}`},
		"none":     {choice: llm.ToolChoice{None: true}, chosen: `"none"`},
		"required": {choice: llm.ToolChoice{Required: true}, chosen: `"required"`},
		"named":    {choice: llm.ToolChoice{Tool: "f"}, chosen: `{"function":{"name":"f"},"type":"function"}`},
		"no_tools": {choice: llm.ToolChoice{None: true}, toolless: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent struct {
				ResponseFormat json.RawMessage `json:"response_format"`
				ToolChoice     json.RawMessage `json:"tool_choice"`
			}
			client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
				runtest.WantError(t, "decode", json.NewDecoder(r.Body).Decode(&sent), nil)
				return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader(sse("[DONE]")))}, nil
			})}
			req := request()
			req.Output, req.ToolChoice = c.output, c.choice
			if !c.toolless {
				req.Tools = []llm.Tool{{Name: "f"}}
			}
			_, err := open(t, openai.Config{APIKey: key, HTTPClient: client}).Complete(t.Context(), req, nil)
			runtest.NoError(t, err)
			runtest.Equal(t, "response_format", string(sent.ResponseFormat), c.format)
			runtest.Equal(t, "tool_choice", string(sent.ToolChoice), c.chosen)
		})
	}
	req := request()
	req.Output = llm.Output{Name: "count", Schema: json.RawMessage(`[1]`)}
	_, err := open(t, openai.Config{APIKey: key, BaseURL: "http://127.0.0.1:1"}).Complete(t.Context(), req, nil)
	if e, ok := errors.AsType[*llm.Error](err); !ok || e.Kind != llm.KindRequest || e.Status != 0 {
		t.Errorf("schema that is no object: got %v, want it refused", err)
	}
}
