package plugin_test

import (
	"context"
	"encoding/json"
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
		"aliases":           {Aliases: make([]string, events.MaxAliases+1)},
		"empty alias":       {Aliases: []string{""}},
		"output":            {Output: &jsonschema.Schema{Ref: "#"}},
		"example":           {Examples: []json.RawMessage{json.RawMessage(`{"from":1}`)}},
		"example is broken": {Examples: []json.RawMessage{json.RawMessage(`{`)}},
		"long example":      {Examples: []json.RawMessage{long}},
		"examples":          {Examples: make([]json.RawMessage, events.MaxExamples+1)},
	} {
		tool.Name, tool.Schema = "t", args
		err := plugin.NewTools().Add(tool, func(context.Context, plugin.Call, json.RawMessage) (plugin.Result, error) {
			return plugin.Result{}, nil
		})
		if err == nil {
			t.Errorf("%s: got none, want it refused", name)
		}
	}
}
