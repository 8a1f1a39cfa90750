package plugin_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// panicPlace panics at one place.
type panicPlace string

func (r panicPlace) at(where string) {
	if string(r) == where {
		panic("ouch")
	}
}

type panickingFactory struct{ panicPlace }

func (f panickingFactory) ID() string { return "rude" }

func (f panickingFactory) Wants(plugin.BuildContext) bool { f.at("wants"); return true }

func (f panickingFactory) Extensions() map[string]any { f.at("extensions"); return nil }

func (f panickingFactory) Build(plugin.BuildContext) (plugin.Plugin, error) {
	f.at("build")
	return panickingPlugin(f), nil
}

type panickingPlugin struct{ panicPlace }

func (p panickingPlugin) Register(r *plugin.Registrar) error {
	p.at("register")
	r.Protocol(panickingProtocol{panicPlace: p.panicPlace})
	r.Driver(panickingProtocol{panicPlace: p.panicPlace})
	r.ProjectProse(func(string) string { p.at("prose"); return "projected" })
	r.Lifecycle(func(context.Context, plugin.Lifecycle) error { p.at("lifecycle"); return nil })
	return nil
}

func (p panickingPlugin) SessionReady(context.Context, *plugin.Stack) error {
	p.at("ready")
	return nil
}

func (p panickingPlugin) Revision() uint64 { p.at("revision"); return 1 }

func (p panickingPlugin) Version() string { p.at("version"); return "1" }

func (p panickingPlugin) Snapshot(*plugin.SnapshotWriter) ([]byte, error) {
	p.at("snapshot")
	return nil, nil
}

func (p panickingPlugin) Restore(plugin.Meta, plugin.SnapshotReader) error {
	p.at("restore")
	return nil
}

type panickingProtocol struct {
	plugin.BaseProtocol
	panicPlace
}

func (p panickingProtocol) Preamble(plugin.PreambleInput) plugin.Preamble {
	p.at("preamble")
	return plugin.Preamble{}
}

func (p panickingProtocol) Restore(context.Context, plugin.ProtocolSession, *projector.State) error {
	p.at("protocol")
	return nil
}

// TestPanics: panics outside of turn hooks become errors.
func TestPanics(t *testing.T) {
	t.Parallel()
	var warned []string
	build := func(where string) (*plugin.Stack, error) {
		builder, err := plugin.NewBuilder(plugin.BuilderConfig{
			Factories: []plugin.Factory{panickingFactory{panicPlace(where)}}, Warn: func(_, point string, _ error) { warned = append(warned, point) },
		})
		if err != nil {
			t.Fatal(err)
		}
		return builder.BuildStack(t.Context(), plugin.BuildContext{Session: "s"}, []projector.PluginState{})
	}
	for _, where := range []string{"wants", "extensions", "build", "register", "ready", "revision", "version", "restore"} {
		_, err := build(where)
		panicked(t, where, err)
	}
	for where, use := range map[string]func(*plugin.Stack) error{
		"snapshot": func(s *plugin.Stack) error { _, err := s.Snapshot(); return err },
		"preamble": func(s *plugin.Stack) error { _, err := s.Catalog(&projector.Catalog{}); return err },
		"protocol": func(s *plugin.Stack) error { return s.Protocol().Restore(t.Context(), plugin.ProtocolSession{}, nil) },
	} {
		s, err := build(where)
		if err != nil {
			t.Fatal(err)
		}
		panicked(t, where, use(s))
	}
	for where, use := range map[string]func(*plugin.Stack) string{
		"prose": func(s *plugin.Stack) string { return s.ProjectProse("as it is") },
		"lifecycle": func(s *plugin.Stack) string {
			s.NotifyLifecycle(t.Context(), plugin.Lifecycle{Kind: "lifecycle"})
			return "as it is"
		},
	} {
		s, err := build(where)
		if err != nil {
			t.Fatal(err)
		}
		warned = nil
		if got := use(s); got != "as it is" || len(warned) != 1 || warned[0] != where {
			t.Errorf("%s: got %q and warnings of %v, want one and nothing changed", where, got, warned)
		}
	}
}

func panicked(t *testing.T, what string, err error) {
	t.Helper()
	var failed *plugin.HookError
	if !errors.As(err, &failed) || !failed.Panic || failed.Plugin != "rude" {
		t.Errorf("%s: got %v, want a panic of plugin rude", what, err)
	}
}

// TestOwnContext: a hook that changes its input changes neither the next hook's input nor the caller's.
func TestOwnContext(t *testing.T) {
	t.Parallel()
	scribbles := func(id string) plugin.Factory {
		return plugin.Func(id, func(r *plugin.Registrar) error {
			r.BeforeTurn(func(_ context.Context, in plugin.TurnContext) ([]plugin.Directive, error) {
				text := in.Input.Parts[0].Text
				in.Input.Parts[0].Text = "scribble"
				return []plugin.Directive{plugin.Trace(text, nil)}, nil
			})
			r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
				args := string(in.Args)
				in.Args[0] = 'x'
				return []plugin.Directive{plugin.Trace(args, nil)}, nil
			})
			r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
				seen := string(in.Args) + in.Result.Attachments[0].Text
				in.Args[0], in.Result.Attachments[0].Text = 'x', "scribble"
				return []plugin.Directive{plugin.Trace(seen, nil)}, nil
			})
			return nil
		})
	}
	s := stack(t, scribbles("one"), scribbles("two"))
	parts := []events.Part{{Kind: events.PartText, Text: "go"}}
	args := json.RawMessage(`{}`)
	check := func(want string, list []plugin.Owned[plugin.Directive], err error) {
		t.Helper()
		if err != nil || len(list) != 2 || list[0].Value.Name != want || list[1].Value.Name != want {
			t.Errorf("hooks: got %+v, %v, want both to see %s", list, err, want)
		}
		if parts[0].Text != "go" || string(args) != "{}" {
			t.Errorf("who asks: got %v and %s, want go and {}", parts, args)
		}
	}
	list, err := s.BeforeTurn(t.Context(), plugin.TurnContext{Input: events.TurnInput{Parts: parts}})
	check("go", list, err)
	list, err = s.BeforeToolCall(t.Context(), plugin.ToolContext{Args: args})
	check("{}", list, err)
	list, err = s.AfterToolCall(t.Context(), plugin.ToolResultContext{Args: args, Result: plugin.Result{Attachments: parts}})
	check("{}go", list, err)
}
