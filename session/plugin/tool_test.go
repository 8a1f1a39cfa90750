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

type addition struct {
	A    int    `json:"a" jsonschema:"first summand"`
	B    int    `json:"b"`
	Note string `json:"note,omitempty"`
}

func add(_ context.Context, _ plugin.Call, in addition) (int, error) { return in.A + in.B, nil }

// runTool checks the arguments and runs the tool as a worker does.
func runTool(t *testing.T, tools *plugin.Tools, name, args string) (plugin.Result, error) {
	t.Helper()
	tool, ok := tools.Find(name)
	if !ok {
		t.Fatalf("tool %s: not found", name)
	}
	checked, err := tool.Check([]byte(args))
	if err != nil {
		return plugin.Result{}, err
	}
	return tool.Handler(t.Context(), plugin.Call{}, checked)
}

// TestIntegersOfModels calls tools with numbers that are integers of JSON Schema (2020-12, 6.1.1: "any number with a zero fractional part"),
// and with others, which the schema refuses.
func TestIntegersOfModels(t *testing.T) {
	t.Parallel()
	type deep struct {
		N    int64              `json:"n"`
		List []int              `json:"list,omitempty"`
		X    float64            `json:"x,omitempty"`
		Sub  *struct{ N uint8 } `json:"sub,omitempty"`
	}
	tools := plugin.NewTools()
	plugin.AddTool(tools, plugin.Tool{Name: "show"}, func(_ context.Context, _ plugin.Call, in deep) (deep, error) { return in, nil })
	for args, want := range map[string]string{
		`{"n":2.0}`: `{"n":2}`, `{"n":2e0}`: `{"n":2}`, `{"n":-3.00,"list":[1,2.0]}`: `{"n":-3,"list":[1,2]}`, `{"n":1,"sub":{"N":7.0}}`: `{"n":1,"sub":{"N":7}}`,
		`{"n":2.0,"x":1.5}`: `{"n":2,"x":1.5}`, `{"n":9007199254740993}`: `{"n":9007199254740993}`,
		`{"n":2.5}`: "", `{"n":1e300}`: "", `{"n":"2.0"}`: "", `{"n":1,"sub":{"N":300.0}}`: "",
	} {
		r, err := runTool(t, tools, "show", args)
		if r.Text != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %s, %v, want %q", args, r.Text, err, want)
		}
	}
}

// TestAddToolSchema: the schema comes from the argument type.
func TestAddToolSchema(t *testing.T) {
	t.Parallel()
	tools := plugin.NewTools()
	plugin.AddTool(tools, plugin.Tool{Name: "add", Description: "adds", Effects: events.EffectsNone, Source: "math"}, add)
	got := tools.Entries()[0]
	var schema struct {
		Type       string
		Required   []string
		Properties map[string]struct{ Type, Description string }
	}
	if err := json.Unmarshal(got.Look().Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Type != "object" || !slices.Equal(schema.Required, []string{"a", "b"}) || schema.Properties["a"].Type != "integer" ||
		schema.Properties["a"].Description != "first summand" || schema.Properties["note"].Type != "string" {
		t.Errorf("schema: got %s", got.Look().Schema)
	}
	got.Contract = events.BlobRef{}
	want := events.ToolEntry{Name: "add", Description: "adds", Effects: events.EffectsNone, Source: "math"}
	if encode(t, got) != encode(t, want) {
		t.Errorf("entry: got %+v, want %+v", got, want)
	}
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestArguments checks arguments against the schema. Arguments that are no JSON count as {}.
func TestArguments(t *testing.T) {
	t.Parallel()
	tools := plugin.NewTools()
	plugin.AddTool(tools, plugin.Tool{Name: "add"}, add)
	plugin.AddTool(tools, plugin.Tool{Name: "none"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "ran", nil })
	tests := []struct {
		name, tool, args string
		want             string // text; empty if the arguments are refused
	}{
		{"valid", "add", `{"a":1,"b":2}`, "3"},
		{"spaces", "add", " {\n\"a\": 1, \"b\": 2}\n", "3"},
		{"optional", "add", `{"a":1,"b":2,"note":"x"}`, "3"},
		{"missing", "add", `{"a":1}`, ""},
		{"wrong_type", "add", `{"a":1,"b":"2"}`, ""},
		{"fraction", "add", `{"a":1,"b":2.5}`, ""},
		{"unknown", "add", `{"a":1,"b":2,"c":3}`, ""},
		{"other_case", "add", `{"A":1,"B":2}`, ""},
		{"null", "add", `null`, ""},
		{"list", "add", `[1,2]`, ""},
		{"malformed", "add", `{"a":1,`, ""},
		{"trailing", "add", `{"a":1,"b":2} and`, ""},
		{"nothing", "add", ``, ""},
		{"malformed_without_needs", "none", `{"a":`, "ran"},
		{"nothing_without_needs", "none", ``, "ran"},
		{"invalid_utf8", "none", "\xff", "ran"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := runTool(t, tools, tt.tool, tt.args)
			if tt.want != "" {
				if err != nil || got.Text != tt.want {
					t.Errorf("got %q, %v, want %q", got.Text, err, tt.want)
				}
				return
			}
			failure, ok := errors.AsType[*plugin.Failure](err)
			if !ok || failure.Class != plugin.ClassInvalidRequest || failure.Code != plugin.CodeInvalidArgs || failure.Message == "" || failure.Safe {
				t.Errorf("got %q, %#v, want %s", got.Text, err, plugin.CodeInvalidArgs)
			}
		})
	}
}

// TestResults: results become text.
func TestResults(t *testing.T) {
	t.Parallel()
	tools := plugin.NewTools()
	problem := &plugin.Failure{Class: plugin.ClassExternal, Code: "e1", Message: "no"}
	plugin.AddTool(tools, plugin.Tool{Name: "text"}, func(context.Context, plugin.Call, struct{}) (string, error) { return `as "it" is`, nil })
	plugin.AddTool(tools, plugin.Tool{Name: "value"}, func(context.Context, plugin.Call, struct{}) (map[string]int, error) {
		return map[string]int{"b": 2, "a": 1}, nil
	})
	plugin.AddTool(tools, plugin.Tool{Name: "unfit"}, func(context.Context, plugin.Call, struct{}) (chan int, error) { return nil, nil })
	plugin.AddTool(tools, plugin.Tool{Name: "error"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "x", problem })
	for name, want := range map[string]string{"text": `as "it" is`, "value": `{"a":1,"b":2}`} {
		if got, err := runTool(t, tools, name, "{}"); err != nil || got.Text != want {
			t.Errorf("%s: got %q, %v, want %q", name, got.Text, err, want)
		}
	}
	if _, err := runTool(t, tools, "unfit", "{}"); err == nil {
		t.Error("unfit: got nil, want an error")
	}
	if got, err := runTool(t, tools, "error", "{}"); !errors.Is(err, error(problem)) || got.Text != "" {
		t.Errorf("error: got %q, %v, want %v", got.Text, err, problem)
	}
}

// TestAdd: invalid tools are refused, and the entries are sorted.
func TestAdd(t *testing.T) {
	t.Parallel()
	raw := func(_ context.Context, _ plugin.Call, args json.RawMessage) (plugin.Result, error) {
		return plugin.Result{Text: string(args)}, nil
	}
	tools := plugin.NewTools()
	for _, name := range []string{"m", "z", "a"} {
		if err := tools.Add(plugin.Tool{Name: name}, raw); err != nil {
			t.Fatal(err)
		}
	}
	broken := &jsonschema.Schema{Ref: "#/nowhere"}
	tests := []struct {
		name string
		add  func() error
		want error // nil accepts any error
	}{
		{"duplicate", func() error { return tools.Add(plugin.Tool{Name: "a"}, raw) }, nil},
		{"duplicate_named", func() error { return tools.AddNamed(plugin.Tool{Name: "a"}, raw) }, nil},
		{"name", func() error { return tools.Add(plugin.Tool{Name: "a b"}, raw) }, events.ErrInvalidID},
		{"no_name", func() error { return tools.Add(plugin.Tool{}, raw) }, events.ErrInvalidID},
		{"long_name", func() error { return tools.Add(plugin.Tool{Name: strings.Repeat("a", 65)}, raw) }, events.ErrInvalidID},
		{"schema", func() error { return tools.Add(plugin.Tool{Name: "b", Schema: broken}, raw) }, nil},
	}
	for _, tt := range tests {
		if err := tt.add(); err == nil || (tt.want != nil && !errors.Is(err, tt.want)) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
	}
	if err := tools.AddNamed(plugin.Tool{Name: "b/c.d"}, raw); err != nil {
		t.Errorf("recorded name: got %v, want nil", err)
	}
	var names []string
	for _, e := range tools.Entries() {
		names = append(names, e.Name)
	}
	if want := []string{"a", "b/c.d", "m", "z"}; !slices.Equal(names, want) {
		t.Errorf("entries: got %v, want %v", names, want)
	}
	if got, err := runTool(t, tools, "m", `{"any": [1]}`); err != nil || got.Text != `{"any": [1]}` {
		t.Errorf("raw arguments: got %q, %v, want them as they came", got.Text, err)
	}
	if _, ok := tools.Find("none"); ok {
		t.Error("tool none: got one, want none")
	}
}

// TestAddToolPanics: AddTool panics on an invalid declaration.
func TestAddToolPanics(t *testing.T) {
	t.Parallel()
	for name, register := range map[string]func(*plugin.Tools){
		"duplicate": func(tools *plugin.Tools) {
			plugin.AddTool(tools, plugin.Tool{Name: "add"}, add)
			plugin.AddTool(tools, plugin.Tool{Name: "add"}, add)
		},
		"name": func(tools *plugin.Tools) { plugin.AddTool(tools, plugin.Tool{Name: "a.b"}, add) },
		"arguments": func(tools *plugin.Tools) {
			plugin.AddTool(tools, plugin.Tool{Name: "f"}, func(context.Context, plugin.Call, struct{ F func() }) (string, error) { return "", nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("got no panic, want one")
				}
			}()
			register(plugin.NewTools())
		})
	}
}
