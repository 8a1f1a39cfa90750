package plugin_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// exampleStack builds the stack of a session, as the runtime does: the plugin, and a protocol that adds nothing to prompts.
func exampleStack(factory plugin.Factory, options plugin.Options, snapshot []projector.PluginState) *plugin.Stack {
	protocol := plugin.OfDriver("plain", plugin.DriverFunc(func(plugin.PreambleInput) plugin.Preamble { return plugin.Preamble{} }))
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{protocol}, Factories: []plugin.Factory{factory}})
	if err != nil {
		panic(err)
	}
	in := plugin.BuildContext{Session: "example", Config: events.Config{Protocol: "plain"}, Options: options}
	stack, err := builder.BuildStack(context.Background(), in, snapshot)
	if err != nil {
		panic(err)
	}
	return stack
}

// callTool checks the arguments and runs the tool, as a worker does.
func callTool(stack *plugin.Stack, name, args string) (plugin.Result, error) {
	tool, ok := stack.Tools().Find(name)
	if !ok {
		return plugin.Result{}, fmt.Errorf("no tool %s", name)
	}
	checked, err := tool.Check([]byte(args))
	if err != nil {
		return plugin.Result{}, err
	}
	return tool.Handler(context.Background(), plugin.Call{Session: stack.ID()}, checked)
}

// A typed tool: the JSON schema comes from the struct, and the result becomes the text that the model reads.
func ExampleAddTool() {
	type weatherArgs struct {
		City string `json:"city" jsonschema:"name of the city"`
	}
	type weather struct {
		City    string `json:"city"`
		Celsius int    `json:"celsius"`
	}
	factory := plugin.Func("weather", func(r *plugin.Registrar) error {
		tool := plugin.Tool{Name: "weather", Description: "The weather now.", Effects: events.EffectsNone}
		plugin.AddTool(r, tool, func(_ context.Context, _ plugin.Call, in weatherArgs) (weather, error) {
			if in.City == "Atlantis" {
				return weather{}, &plugin.Failure{Class: plugin.ClassExternal, Code: "no_station", Message: "no station in " + in.City}
			}
			return weather{City: in.City, Celsius: 21}, nil
		})
		return nil
	})

	stack := exampleStack(factory, nil, nil)
	defer stack.Close()
	result, err := callTool(stack, "weather", `{"city":"Oslo"}`)
	fmt.Println(result.Text, err)
	_, err = callTool(stack, "weather", `{"city":"Atlantis"}`)
	fmt.Println(err)
	_, err = callTool(stack, "weather", `{}`)
	fmt.Println(err != nil)
	// Output:
	// {"city":"Oslo","celsius":21} <nil>
	// no station in Atlantis
	// true
}

// Hooks return directives. This plugin adds a message before each turn, and lets a person approve calls of one tool.
func ExampleRegistrar_BeforeToolCall() {
	factory := plugin.Func("careful", func(r *plugin.Registrar) error {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "Prefer reading to writing."))}, nil
		})
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			switch in.Tool {
			case "delete":
				return []plugin.Directive{plugin.Ask("Delete the file?")}, nil
			case "format_disk":
				return []plugin.Directive{plugin.Abort("forbidden", "this session must not format disks")}, nil
			}
			return nil, nil
		})
		return nil
	})

	stack := exampleStack(factory, nil, nil)
	defer stack.Close()
	directives, err := stack.BeforeTurn(context.Background(), plugin.TurnContext{Session: stack.ID()})
	fmt.Println(directives[0].Plugin, directives[0].Value.Kind, err)
	for _, tool := range []string{"read", "delete", "format_disk"} {
		directives, err := stack.BeforeToolCall(context.Background(), plugin.ToolContext{Tool: tool, Args: json.RawMessage(`{}`)})
		fmt.Print(tool, ":")
		for _, d := range directives {
			fmt.Printf(" %s %q", d.Value.Kind, d.Value.Message)
		}
		fmt.Println("", err)
	}
	// Output:
	// careful enqueue_messages <nil>
	// read: <nil>
	// delete: ask_approval "Delete the file?" <nil>
	// format_disk: abort_turn "this session must not format disks" <nil>
}

// Options come from the session's creator, with the plugin's defaults for sessions without.
func ExampleWithOptions() {
	type searchOptions struct {
		Limit int `json:"limit"`
	}
	factory := plugin.WithOptions("search", searchOptions{Limit: 10}, func(_ plugin.BuildContext, o searchOptions) (plugin.Plugin, error) {
		return registerFunc(func(r *plugin.Registrar) error {
			plugin.AddTool(r, plugin.Tool{Name: "limit", Effects: events.EffectsNone},
				func(context.Context, plugin.Call, struct{}) (int, error) { return o.Limit, nil })
			return nil
		}), nil
	})

	own, err := plugin.OptionsOf("search", searchOptions{Limit: 3})
	if err != nil {
		panic(err)
	}
	for _, options := range []plugin.Options{nil, own} {
		stack := exampleStack(factory, options, nil)
		result, err := callTool(stack, "limit", `{}`)
		fmt.Println(result.Text, err)
		stack.Close()
	}
	// Output:
	// 10 <nil>
	// 3 <nil>
}

// registerFunc is a plugin without state.
type registerFunc func(*plugin.Registrar) error

func (f registerFunc) Register(r *plugin.Registrar) error { return f(r) }

// notes is a plugin with a state: it embeds [plugin.State].
type notes struct {
	plugin.State[[]string]
}

func (n *notes) Register(r *plugin.Registrar) error {
	plugin.AddTool(r, plugin.Tool{Name: "note", Effects: events.EffectsIdempotent},
		func(_ context.Context, _ plugin.Call, in struct{ Text string }) (string, error) {
			n.Update(func(list *[]string) { *list = append(*list, in.Text) })
			return fmt.Sprintf("%d notes", len(n.Load())), nil
		})
	return nil
}

// The state is part of the session's history: another node continues with it.
func ExampleState() {
	factory := plugin.New("notes", func(plugin.BuildContext) (plugin.Plugin, error) { return new(notes), nil })

	first := exampleStack(factory, nil, nil)
	result, err := callTool(first, "note", `{"Text":"buy milk"}`)
	fmt.Println(result.Text, err)
	saved, err := first.Unsaved() // the runtime records these events with the call's result
	fmt.Println(string(saved[0].(*events.PluginStateSaved).State), err)
	snapshot, err := first.Snapshot()
	if err != nil {
		panic(err)
	}
	first.Close()

	second := exampleStack(factory, nil, snapshot)
	defer second.Close()
	result, err = callTool(second, "note", `{"Text":"call Ada"}`)
	fmt.Println(result.Text, err)
	// Output:
	// 1 notes <nil>
	// ["buy milk"] <nil>
	// 2 notes <nil>
}
