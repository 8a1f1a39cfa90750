package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

type statefulPlugin struct{ plugin.Stateful }

func (statefulPlugin) Register(*plugin.Registrar) error { return nil }

type readyPlugin struct{ plugin.SessionReadyNotifier }

func (readyPlugin) Register(*plugin.Registrar) error { return nil }

type selectiveFactory struct{ plugin.Factory }

func (selectiveFactory) Wants(plugin.BuildContext) bool { return true }

type extendingFactory struct{ plugin.Factory }

func (extendingFactory) Extensions() map[string]any { return nil }

type revisedFactory struct{ plugin.Factory }

func (revisedFactory) Revision(plugin.BuildContext) string { return "" }

// TestDeclareRefuses has plugins that register one thing each which a program of its own cannot have. The error names
// it.
func TestDeclareRefuses(t *testing.T) {
	t.Parallel()
	of := func(p plugin.Plugin) plugin.Factory {
		return plugin.New("p", func(plugin.BuildContext) (plugin.Plugin, error) { return p, nil })
	}
	plain := plugin.Func("p", func(*plugin.Registrar) error { return nil })
	registering := func(register func(*plugin.Registrar)) plugin.Factory {
		return plugin.Func("p", func(r *plugin.Registrar) error { register(r); return nil })
	}
	for want, f := range map[string]plugin.Factory{
		"a prompt function": registering(func(r *plugin.Registrar) {
			r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) { return nil, nil })
		}),
		"a context transform":               registering(func(r *plugin.Registrar) { r.TransformContext(0, nil) }),
		"a compactor":                       registering(func(r *plugin.Registrar) { r.Compact(0, nil) }),
		"a stream hook":                     registering(func(r *plugin.Registrar) { r.Stream(nil) }),
		"a stream end hook":                 registering(func(r *plugin.Registrar) { r.StreamEnd(nil) }),
		"a response hook":                   registering(func(r *plugin.Registrar) { r.Response(nil) }),
		"a config mutator":                  registering(func(r *plugin.Registrar) { r.MutateConfig(nil) }),
		"a catalogue function":              registering(func(r *plugin.Registrar) { r.Catalog(nil) }),
		"a monitor":                         registering(func(r *plugin.Registrar) { r.Monitor(events.MonitorSpec{}) }),
		"a tool result projector":           registering(func(r *plugin.Registrar) { r.ProjectToolResult(nil) }),
		"a protocol":                        registering(func(r *plugin.Registrar) { r.Protocol(nil) }),
		"a driver":                          registering(func(r *plugin.Registrar) { r.Driver(nil) }),
		"an authorization of calls":         registering(func(r *plugin.Registrar) { r.AuthorizeToolCall(nil) }),
		"a code executor":                   registering(func(r *plugin.Registrar) { r.CodeExecutor(nil) }),
		"a prose projector":                 registering(func(r *plugin.Registrar) { r.ProjectProse(nil) }),
		"a tool source":                     registering(func(r *plugin.Registrar) { r.Source("s", nil) }),
		"an action":                         registering(addAction),
		"a state in the session":            of(statefulPlugin{}),
		"a function for the complete stack": of(readyPlugin{}),
		"a selection of sessions":           selectiveFactory{plain},
		"extensions":                        extendingFactory{plain},
		"revisions":                         revisedFactory{plain},
		"a stream hook, a stream end hook":  registering(func(r *plugin.Registrar) { r.StreamEnd(nil); r.Stream(nil) }),
	} {
		if _, err := plugin.Declare(f); !errors.Is(err, plugin.ErrRegistration) || !strings.HasSuffix(err.Error(), ": it has "+want) {
			t.Errorf("got %v, want that it has %s", err, want)
		}
	}
}

// TestDeclareRefusesFields has a tool that uses one field after the other: a manifest has the field, or the tool is
// refused and the error names it.
func TestDeclareRefusesFields(t *testing.T) {
	t.Parallel()
	moves := []string{"Name", "Description", "Effects", "Timeout", "Serial", "Portable", "Source", "Schema"}
	used := map[string]any{
		"Retry": plugin.Retry{Attempts: 2}, "Level": events.AvailSearchable, "Examples": []json.RawMessage{json.RawMessage("{}")}, "Name": "other",
		"Effects": events.EffectsNone, "Timeout": time.Second, "Grace": time.Second, "Serial": true, "Portable": true,
		"Source": "s", "Namespace": "n", "Description": "d", "Aliases": []string{"a"},
		"Schema": &jsonschema.Schema{Type: "object"}, "Output": &jsonschema.Schema{Type: "object"},
		"Holder": func(events.SessionID, events.EffectID) (string, string) { return "", "" }, "Recorded": func(plugin.Call) {}, "Abandoned": func(plugin.Call) {}, "Stays": true, "Where": func() plugin.Where { return plugin.WhereHere },
	}
	for i := range reflect.TypeFor[plugin.Tool]().NumField() {
		tool, name := plugin.Tool{Name: "add"}, reflect.TypeFor[plugin.Tool]().Field(i).Name
		reflect.ValueOf(&tool).Elem().Field(i).Set(reflect.ValueOf(used[name])) // panics for a new field: add it above
		_, err := plugin.Declare(plugin.Func("p", func(r *plugin.Registrar) error {
			plugin.AddTool(r, tool, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
			return nil
		}))
		if slices.Contains(moves, name) != (err == nil) || err != nil && !strings.HasSuffix(err.Error(), ": it has "+name) {
			t.Errorf("%s: got %v, want that it moves: %t", name, err, slices.Contains(moves, name))
		}
	}
}

func addAction(r *plugin.Registrar) {
	plugin.AddAction(r, plugin.ActionDef{Name: "a"}, func(context.Context, plugin.ActionContext, struct{}) (string, error) { return "", nil })
}

// TestDeclare lists tools, and hooks in their order.
func TestDeclare(t *testing.T) {
	t.Parallel()
	var order []string
	d, err := plugin.Declare(plugin.Func("p", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "add"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
		for _, name := range []string{"b", "a"} {
			r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
				order = append(order, name)
				return nil, nil
			})
		}
		r.BeforeModelCall(func(context.Context, plugin.ModelContext) ([]plugin.Directive, error) { return nil, nil })
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return nil, nil })
		r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) { return nil, nil })
		r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) { return nil, nil })
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) { return nil, nil })
		r.Lifecycle(func(context.Context, plugin.Lifecycle) error { return nil })
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range d.BeforeTurn {
		_, _ = fn(t.Context(), plugin.TurnContext{})
	}
	if _, found := d.Tools.Find("add"); !found || strings.Join(order, "") != "ba" || len(d.BeforeModelCall) != 1 || len(d.BeforeToolCall) != 1 ||
		len(d.AfterToolCall) != 1 || len(d.Checkpoint) != 1 || len(d.AfterTurn) != 1 || len(d.Lifecycle) != 1 {
		t.Errorf("got %+v, order %v", d, order)
	}
}
