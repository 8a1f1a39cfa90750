package main

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/exchange"
	"github.com/lash-go/lash/session/plugin"
)

// recordedPlugin is the id of the plugin that serves recorded results.
const recordedPlugin = "recorded"

// recordedResults serves recorded results by tool and arguments.
type recordedResults struct {
	tools map[string]events.ToolEntry

	mu      sync.Mutex
	results map[string][]events.ToolResult // by [callKey], in the order of the history
	next    map[string]int
	served  int64
	missed  int64
}

// canonical is JSON with sorted keys and no spaces; other bytes stay.
func canonical(args []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(args))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(args)
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return string(args)
	}
	return string(sorted)
}

func callKey(tool string, args []byte) string { return tool + " " + canonical(args) }

// read takes the results of all calls of a history that returned.
func (r *recordedResults) read(d *exchange.Document) {
	open := make(map[string][]string) // keys of calls by turn and id, without results yet
	for i := range d.Entries {
		n := d.Entries[i].Node
		if n == nil || n.Kind != events.NodeMessage {
			continue
		}
		for j := range n.Message.Parts {
			p := &n.Message.Parts[j]
			at := string(d.Entries[i].Turn) + " " + string(p.Call)
			switch {
			case p.Kind == events.PartToolCall:
				open[at] = append(open[at], callKey(p.Tool, p.Args))
			case p.Kind == events.PartToolResult && len(open[at]) > 0:
				key := open[at][0]
				open[at] = open[at][1:]
				if p.Outcome == events.OutcomeSuccess || p.Outcome == events.OutcomeFailure {
					r.results[key] = append(r.results[key], events.ToolResult{Outcome: p.Outcome, Text: p.Text})
				}
			}
		}
	}
}

// take is the next recorded result of a call: each once, then the last one again.
func (r *recordedResults) take(tool string, args []byte) plugin.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := callKey(tool, args)
	list := r.results[key]
	if len(list) == 0 {
		r.missed++
		return plugin.Result{
			Outcome: events.OutcomeFailure, Code: "not_recorded",
			Text: "[failed] The recording has no result of " + tool + " for these arguments, and no tool runs.",
		}
	}
	r.served++
	at := min(r.next[key], len(list)-1)
	r.next[key]++
	return plugin.Result{Outcome: list[at].Outcome, Text: list[at].Text}
}

// factory makes the plugin: it has the recorded tools, but those of the other plugins, and answers every call.
func (r *recordedResults) factory(others []string) plugin.Factory {
	return plugin.Func(recordedPlugin, func(reg *plugin.Registrar) error {
		set := plugin.NewTools()
		for name, entry := range r.tools {
			if entry.Orphan || !entry.Callable() || contains(others, entry.Source) {
				continue
			}
			tool := plugin.Tool{Name: name, Description: entry.Description, Effects: events.EffectsNone}
			var schema jsonschema.Schema
			if text := entry.Look().Schema; bytes.HasPrefix(text, []byte("{\"")) && json.Unmarshal(text, &schema) == nil { // a provider wants an object
				tool.Schema = &schema
			}
			err := set.AddNamed(tool, func(_ context.Context, _ plugin.Call, args json.RawMessage) (plugin.Result, error) {
				return r.take(name, args), nil
			})
			if err != nil {
				return err
			}
		}
		reg.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if entry, ok := r.tools[in.Tool]; ok && !contains(others, entry.Source) {
				return nil, nil // the tool above
			}
			return []plugin.Directive{plugin.ShortCircuit(r.take(in.Tool, in.Args))}, nil
		})
		return reg.Tools(set)
	})
}

func contains(list []string, name string) bool {
	for _, one := range list {
		if one == name && name != "" {
			return true
		}
	}
	return false
}
