package plugin_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// listed are a stack's tools, as a copy.
func listed(entry *plugin.CatalogEntry) []string {
	var list []string
	for _, t := range entry.Tools {
		list = append(list, fmt.Sprint(t.Name, " ", t.Availability, t.Override))
	}
	return list
}

// TestSessionsShareTools: sessions with the same tools have one list. A session with others, a contributor that writes to
// its input, and an override of a host change the list of no other session.
func TestSessionsShareTools(t *testing.T) {
	t.Parallel()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Factories: []plugin.Factory{
		plugin.OfDriver("p", plugin.DriverFunc(func(plugin.PreambleInput) plugin.Preamble { return plugin.Preamble{} })),
		plugin.Func("tools", func(r *plugin.Registrar) error {
			for _, name := range []string{"b", "a", "c"} {
				tool(r, name)
			}
			return nil
		}),
		levels{},
	}})
	if err != nil {
		t.Fatal(err)
	}
	stack := func(in plugin.BuildContext) *plugin.CatalogEntry {
		t.Helper()
		in.Config.Protocol = "p"
		s, err := builder.BuildStack(t.Context(), in, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		entry, err := s.Catalog(&projector.Catalog{Tools: []events.ToolEntry{{Name: "a", Override: "off"}}})
		if err != nil {
			t.Fatal(err)
		}
		return entry
	}
	first := stack(plugin.BuildContext{Session: "s1"})
	want := []string{"a ", "b ", "c "}
	if got := listed(first); !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	same := func(what string, a, b *plugin.CatalogEntry, want bool) {
		t.Helper()
		if got := &a.Tools[0] == &b.Tools[0]; got != want {
			t.Errorf("%s: got one list %t, want %t", what, got, want)
		}
	}
	same("the same tools", first, stack(plugin.BuildContext{Session: "s2"}), true)
	hidden := stack(plugin.BuildContext{Session: "s3", Access: events.ToolAccess{Hidden: []string{"a"}}})
	same("a hidden tool", first, hidden, false)
	leveled := stack(plugin.BuildContext{Session: "s4", Labels: map[string]string{"levels": "yes"}})
	same("another level", first, leveled, false)
	same("the same levels", leveled, stack(plugin.BuildContext{Session: "s5", Labels: map[string]string{"levels": "yes"}}), true)
	for _, c := range []struct {
		entry *plugin.CatalogEntry
		want  []string
	}{{first, want}, {hidden, want[1:]}, {leveled, []string{"a searchable", "b ", "c "}}} {
		if got := listed(c.entry); !slices.Equal(got, c.want) {
			t.Errorf("at the end: got %q, want %q", got, c.want)
		}
	}
}

// levels sets the level of the tool a in the sessions with its label, and writes to its input.
type levels struct{}

func (levels) ID() string { return "levels" }

func (levels) Wants(in plugin.BuildContext) bool { return in.Labels["levels"] != "" }

func (l levels) Build(plugin.BuildContext) (plugin.Plugin, error) { return l, nil }

func (levels) Register(r *plugin.Registrar) error {
	r.Catalog(func(in plugin.CatalogContext) (plugin.CatalogContribution, error) {
		for i := range in.Tools {
			in.Tools[i].Availability = events.AvailOff
		}
		return plugin.CatalogContribution{Levels: map[string]events.Availability{"a": events.AvailSearchable}}, nil
	})
	return nil
}
