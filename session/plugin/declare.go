package plugin

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/lash-go/lash/events"
)

// Declared are the tools and hooks of a plugin that can run as a program of its own.
type Declared struct {
	Tools           *Tools
	BeforeTurn      []HookFunc[TurnContext]
	BeforeModelCall []HookFunc[ModelContext]
	BeforeToolCall  []HookFunc[ToolContext]
	AfterToolCall   []HookFunc[ToolResultContext]
	Checkpoint      []HookFunc[CheckpointContext]
	AfterTurn       []HookFunc[TurnResultContext]
	Lifecycle       []LifecycleFunc
}

// Declare lists what a factory's plugin registers, without options and without a session. Errors: [ErrRegistration],
// for a plugin that needs more of a node than tools and hooks; the text names all of it.
func Declare(f Factory) (*Declared, error) {
	s := &Stack{c: newContributions(0)}
	if err := s.register(f, BuildContext{}); err != nil {
		return nil, err
	}
	if bound := s.boundToNode(f); len(bound) > 0 {
		return nil, fmt.Errorf("%w: plugin %s can run in a node only: it has %s", ErrRegistration, f.ID(), strings.Join(bound, ", "))
	}
	c := &s.c
	c.tools.entries = entriesOf(c.tools.byName, nil)
	c.sorted()
	for _, entry := range c.tools.Entries() {
		tool, _ := c.tools.Find(entry.Name)
		if fields := nodeFields(&tool.Tool); len(fields) > 0 {
			return nil, fmt.Errorf("%w: tool %s can run in a node only: it has %s", ErrRegistration, tool.Name, strings.Join(fields, ", "))
		}
	}
	return &Declared{
		Tools: c.tools, BeforeTurn: values(c.beforeTurn), BeforeModelCall: values(c.beforeModel), BeforeToolCall: values(c.beforeTool), AfterToolCall: values(c.afterTool),
		Checkpoint: values(c.checkpoint), AfterTurn: values(c.afterTurn), Lifecycle: values(c.lifecycle),
	}, nil
}

// nodeFields are the fields of a tool that a manifest does not have, and that the tool uses.
func nodeFields(t *Tool) (list []string) {
	v := reflect.ValueOf(t).Elem()
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Name; {
		case v.Field(i).IsZero():
		case name == "Name", name == "Description", name == "Effects", name == "Timeout", name == "Serial", name == "Schema":
		case name == "Portable": // each node can send the call
		case name == "Source": // the name of the external plugin replaces it
		case name == "Level" && t.Level == events.AvailShowcased, name == "Retry" && t.Retry.Attempts <= 1:
		default:
			list = append(list, name)
		}
	}
	return list
}

func values[T any](list []Owned[T]) []T {
	var plain []T
	for _, o := range list {
		plain = append(plain, o.Value)
	}
	return plain
}

// movable reports whether [Declared] has a field of contributions.
func movable(field string) bool {
	switch field {
	case "tools", "owners", "beforeTurn", "beforeModel", "beforeTool", "afterTool", "checkpoint", "afterTurn", "lifecycle":
		return true
	}
	return false
}

// boundNames are the names for authors of the other fields.
func boundNames() map[string]string {
	return map[string]string{
		"sources": "a tool source", "prompt": "a prompt function", "transforms": "a context transform", "compactors": "a compactor",
		"streams": "a stream hook", "streamEnds": "a stream end hook", "responses": "a response hook", "mutators": "a config mutator",
		"catalog": "a catalogue function", "actions": "an action", "monitors": "a monitor", "projector": "a tool result projector",
		"protocol": "a protocol", "driver": "a driver", "executor": "a code executor", "authorize": "an authorization of calls", "proseProject": "a prose projector",
		"reserved": "a reserved tool",
	}
}

// boundToNode names what a plugin has that works in a node only.
func (s *Stack) boundToNode(f Factory) (list []string) {
	c, names := reflect.ValueOf(s.c), boundNames()
	for i := range c.NumField() {
		name, v := c.Type().Field(i).Name, c.Field(i)
		empty := v.IsZero() || v.Kind() == reflect.Map && v.Len() == 0
		if !movable(name) && !empty {
			list = append(list, names[name])
		}
	}
	has := func(is bool, what string) {
		if is {
			list = append(list, what)
		}
	}
	for _, m := range s.plugins {
		_, stateful := m.plugin.(Stateful)
		_, ready := m.plugin.(SessionReadyNotifier)
		has(stateful, "a state in the session")
		has(ready, "a function for the complete stack")
	}
	_, selective := f.(Selective)
	_, extending := f.(Extending)
	_, revised := f.(Revised)
	has(selective, "a selection of sessions")
	has(extending, "extensions")
	has(revised, "revisions")
	return list
}
