package servicetest

import (
	"context"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Plugin is the plugin of the service's sessions, in addition to the standard protocol: a tool "gated" that needs an
// approval, a tool "later" whose result comes from outside, a compactor, an action "greet", and a
// tool "lent" of source "shelf" that overlays may name.
func Plugin() plugin.Factory { return reporting{tools()} }

// reporting is a factory that reports instances in other processes.
type reporting struct{ plugin.Factory }

// Report implements [plugin.Reporting].
func (reporting) Report() api.ExternalPlugin { return elsewhere() }

func elsewhere() api.ExternalPlugin {
	return api.ExternalPlugin{
		Name: "notes", Version: "1", Hash: "ab", Tools: []string{"write"}, Hooks: []string{"guard"},
		Instances: []api.PluginInstance{{ID: "i1", Machine: "m", Current: true, Draining: true, Running: 1, Calls: 3, Failures: 2, SilentMS: 4}},
	}
}

func tools() plugin.Factory {
	return plugin.Func("servicetest", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "gated", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
			return "open", nil
		})
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "gated" {
				return nil, nil
			}
			return []plugin.Directive{plugin.Ask("really?")}, nil
		})
		r.Compact(0, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
			summary := &events.Message{Role: events.RoleUser, Parts: text("in short")}
			return plugin.Compaction{Nodes: []api.AppendNode{{Message: summary}}}, nil
		})
		plugin.AddAction(r, plugin.ActionDef{Name: "greet"}, func(_ context.Context, _ plugin.ActionContext, in struct{ Name string }) (string, error) {
			return "hello " + in.Name, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
			c.CompletionKey()
			return plugin.Result{Pending: true}, nil
		})
		more := plugin.NewTools()
		plugin.AddTool(more, plugin.Tool{Name: "extra"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "extra", nil })
		r.Source("more", func(context.Context) (*plugin.Tools, error) { return more, nil })
		same := plugin.NewTools()
		plugin.AddTool(same, plugin.Tool{Name: "extra"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "the same", nil })
		r.Source("same", func(context.Context) (*plugin.Tools, error) { return same, nil })
		lent := plugin.NewTools()
		plugin.AddTool(lent, plugin.Tool{Name: "lent", Source: "shelf"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "a book", nil })
		return r.Reserve(lent)
	})
}

// Reply is the model's reply to the last message of its prompt: "call X" calls tool X, "hang" blocks until the call
// is cancelled, and any other text is repeated.
func Reply(last events.Message) (parts []events.Part, hang bool) {
	said := last.Text()
	if tool, ok := strings.CutPrefix(said, "call "); ok {
		return []events.Part{{Kind: events.PartToolCall, Call: "c1", Tool: tool, Args: []byte(`{}`)}}, false
	}
	for _, p := range last.Parts {
		if p.Kind == events.PartToolResult {
			said = p.Text
		}
	}
	return text("you said " + said), said == "hang"
}

func text(s string) []events.Part { return []events.Part{{Kind: events.PartText, Text: s}} }
