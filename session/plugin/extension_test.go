package plugin_test

import (
	"context"
	"slices"
	"testing"

	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// extending is a factory with extensions.
type extending struct {
	plugin.Factory
	list map[string]any
}

func (e extending) Extensions() map[string]any { return e.list }

// TestExtensions: every plugin gets the extensions of all factories in stack order, including those of later
// factories.
func TestExtensions(t *testing.T) {
	t.Parallel()
	none := func(*plugin.Registrar) error { return nil }
	var first, offered []any
	reader := plugin.New("reader", func(in plugin.BuildContext) (plugin.Plugin, error) {
		first = in.Extensions["words"]
		return emptyPlugin{}, nil
	})
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Factories: []plugin.Factory{
		reader,
		extending{plugin.Func("a", func(r *plugin.Registrar) error {
			r.Catalog(func(in plugin.CatalogContext) (plugin.CatalogContribution, error) {
				offered = in.Extensions["words"]
				return plugin.CatalogContribution{}, nil
			})
			return nil
		}), map[string]any{"words": "from a", "other": 1}},
		extending{plugin.Func("b", none), map[string]any{"words": "from b"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := builder.BuildStack(context.Background(), plugin.BuildContext{Session: "s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Catalog(&projector.Catalog{}); err != nil {
		t.Fatal(err)
	}
	for who, got := range map[string][]any{"a plugin that is built": first, "a catalogue": offered} {
		if !slices.Equal(got, []any{"from a", "from b"}) {
			t.Errorf("%s: got %v, want both in order", who, got)
		}
	}
}

type emptyPlugin struct{}

func (emptyPlugin) Register(r *plugin.Registrar) error {
	r.Protocol(silent{})
	r.Driver(silent{})
	return nil
}
