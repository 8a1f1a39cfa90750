package integration

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// TestForks forks a stack for a session, for a child, and with another
// catalogue (host specification 4.5).
func TestForks(t *testing.T) {
	t.Parallel()
	from := stackOf(t, tallyFactory())
	defer from.Close()
	must(t, "restore", from.Restore([]projector.PluginState{{Plugin: "tally", Version: "1", Revision: 7, State: []byte("3")}}), nil)
	extra, another := plugin.NewTools(), plugin.NewTools()
	simple(extra, "extra")
	simple(another, "another")
	must(t, "overlay", from.SetOverlay(plugin.Overlay{Tools: []*plugin.Tools{extra}}), nil)
	tools := func(s *plugin.Session) []string {
		t.Helper()
		entry, err := s.Catalog(&projector.Catalog{})
		must(t, "catalogue", err, nil)
		return toolNames(entry)
	}
	forked := func(s *plugin.Session, err error) *plugin.Session {
		t.Helper()
		must(t, "fork", err, nil)
		t.Cleanup(s.Close)
		list, err := s.Snapshot()
		must(t, "snapshot", err, nil)
		last := list[len(list)-1]
		equal(t, "state of "+string(s.ID()), string(last.State), "3")
		equal(t, "revision of "+string(s.ID()), last.Revision, 7)
		return s
	}
	same := forked(from.Fork(t.Context(), plugin.BuildContext{Session: "same"}))
	equalLists(t, "tools of a fork", tools(same), []string{"count", "extra", "other"})
	child := forked(from.Fork(t.Context(), plugin.BuildContext{
		Session: "child", Parent: "s1", Access: events.ToolAccess{Hidden: []string{"other", "extra"}}, Subagent: events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5},
	}))
	equalLists(t, "tools of a child", tools(child), []string{"count"})
	equal(t, "its authority", child.Subagent().Capability, "explore")
	other := forked(from.ForkWithCatalog(t.Context(), plugin.BuildContext{Session: "other"}, plugin.Overlay{Tools: []*plugin.Tools{another}, WithoutBase: true}))
	equalLists(t, "tools with another catalogue", tools(other), []string{"another"})
	equalLists(t, "tools of what was forked", tools(from), []string{"count", "extra", "other"})

	_, err := from.ForkWithCatalog(t.Context(), plugin.BuildContext{Session: "broken"}, plugin.Overlay{Tools: []*plugin.Tools{nil}})
	must(t, "a catalogue that cannot be composed", err, plugin.ErrRegistration)
	forked(from.Fork(t.Context(), plugin.BuildContext{Session: "broken"})) // what failed left nothing behind
}
