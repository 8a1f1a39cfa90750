package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// TestManifestRefused: invalid descriptions of tools are refused.
func TestManifestRefused(t *testing.T) {
	t.Parallel()
	args := &jsonschema.Schema{Type: "object", Required: []string{"to"}}
	long := json.RawMessage(`{"to":"` + strings.Repeat("x", events.MaxExampleBytes) + `"}`)
	for name, tool := range map[string]plugin.Tool{
		"namespace":         {Namespace: "a b"},
		"empty alias":       {Aliases: []string{""}},
		"output":            {Output: &jsonschema.Schema{Ref: "#"}},
		"example":           {Examples: []json.RawMessage{json.RawMessage(`{"from":1}`)}},
		"example is broken": {Examples: []json.RawMessage{json.RawMessage(`{`)}},
		"long example":      {Examples: []json.RawMessage{long}},
	} {
		tool.Name, tool.Schema = "t", args
		if err := addTool(tool); err == nil {
			t.Errorf("%s: got none, want it refused", name)
		}
	}
}

// TestManifestLimits: a tool may have as many aliases and examples as the limits say, and no more.
func TestManifestLimits(t *testing.T) {
	t.Parallel()
	tool := func(aliases, examples int) plugin.Tool {
		return plugin.Tool{
			Name: "t", Aliases: slices.Repeat([]string{"a"}, aliases),
			Examples: slices.Repeat([]json.RawMessage{json.RawMessage(`{"to":"x"}`)}, examples),
			Schema:   &jsonschema.Schema{Type: "object", Required: []string{"to"}},
		}
	}
	if err := addTool(tool(events.MaxAliases, events.MaxExamples)); err != nil {
		t.Errorf("at the limits: got %v, want none", err)
	}
	if err := addTool(tool(events.MaxAliases+1, 0)); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("aliases: got %v, want ErrTooLarge", err)
	}
	if err := addTool(tool(0, events.MaxExamples+1)); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("examples: got %v, want ErrTooLarge", err)
	}
}

func addTool(tool plugin.Tool) error {
	return plugin.NewTools().Add(tool, func(context.Context, plugin.Call, json.RawMessage) (plugin.Result, error) {
		return plugin.Result{}, nil
	})
}
