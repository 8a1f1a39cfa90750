package catalogue

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// TestForkedStackHasPluginState forks a stack for a session, for a child, and with another tool catalogue. Each copy has the state
// of the plugins. The tools of the original stay.
func TestForkedStackHasPluginState(t *testing.T) {
	t.Parallel()
	from := stackOf(t, tallyFactory())
	defer from.Close()
	harness.WantError(t, "restore", from.Restore([]projector.PluginState{{Plugin: "tally", Version: "1", Revision: 7, State: []byte("3")}}), nil)
	extra, another := plugin.NewTools(), plugin.NewTools()
	harness.NamedTools(extra, "extra")
	harness.NamedTools(another, "another")
	harness.WantError(t, "overlay", from.SetOverlay(plugin.Overlay{Tools: []*plugin.Tools{extra}}), nil)
	tools := func(s *plugin.Stack) []string {
		t.Helper()
		entry, err := s.Catalog(&projector.Catalog{})
		harness.WantError(t, "catalogue", err, nil)
		return toolNames(entry)
	}
	forked := func(s *plugin.Stack, err error) *plugin.Stack {
		t.Helper()
		harness.WantError(t, "fork", err, nil)
		t.Cleanup(s.Close)
		list, err := s.Snapshot()
		harness.WantError(t, "snapshot", err, nil)
		last := list[len(list)-1]
		harness.Equal(t, "state of "+string(s.ID()), string(last.State), "3")
		harness.Equal(t, "revision of "+string(s.ID()), last.Revision, 7)
		return s
	}
	same := forked(from.Fork(t.Context(), plugin.BuildContext{Session: "same"}))
	harness.EqualLists(t, "tools of a fork", tools(same), []string{"count", "extra", "other"})
	child := forked(from.Fork(t.Context(), plugin.BuildContext{
		Session: "child", Parent: "s1", Access: events.ToolAccess{Hidden: []string{"other", "extra"}}, Subagent: events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5},
	}))
	harness.EqualLists(t, "tools of a child", tools(child), []string{"count"})
	harness.Equal(t, "its authority", child.Subagent().Capability, "explore")
	other := forked(from.ForkWithCatalog(t.Context(), plugin.BuildContext{Session: "other"}, plugin.Overlay{Tools: []*plugin.Tools{another}, WithoutBase: true}))
	harness.EqualLists(t, "tools with another catalogue", tools(other), []string{"another"})
	harness.EqualLists(t, "tools of what was forked", tools(from), []string{"count", "extra", "other"})

	_, err := from.ForkWithCatalog(t.Context(), plugin.BuildContext{Session: "broken"}, plugin.Overlay{Tools: []*plugin.Tools{nil}})
	harness.WantError(t, "a catalogue that cannot be composed", err, plugin.ErrRegistration)
	forked(from.Fork(t.Context(), plugin.BuildContext{Session: "broken"})) // the failure left nothing behind
}
