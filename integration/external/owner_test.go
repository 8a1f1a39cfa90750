package external

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external"
)

// TestToolsHaveOwners registers tools of two plugins under each kind of the operator's lists, in both orders.
func TestToolsHaveOwners(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		notes, other []string // lists
		tool         string   // of both plugins
		owner        string   // empty: the first one
		refused      string   // part of the message to the other one
	}{
		"no_list":           {nil, nil, "write", "", "is a tool of plugin"},
		"one_list":          {[]string{"write"}, nil, "write", "notes", "give tool write to plugin notes"},
		"pattern":           {[]string{"w*e"}, nil, "write", "notes", "give tool write to plugin notes"},
		"not_the_pattern":   {[]string{"write", "wri*"}, nil, "wrote", "other", "do not list tool wrote: the plugin may register write, wri*"},
		"list_of_the_other": {nil, []string{"look", "write"}, "write", "other", "give tool write to plugin other"},
		"two_lists":         {[]string{"write"}, []string{"look"}, "write", "notes", "give tool write to plugin notes"},
		"in_both":           {[]string{"write"}, []string{"*"}, "write", "", "is a tool of plugin"},
	} {
		for _, order := range [][]string{{"notes", "other"}, {"other", "notes"}} {
			t.Run(name+"_"+order[0]+"_first", func(t *testing.T) {
				t.Parallel()
				s := start(t)
				s.config.Plugins = []external.Plugin{{Name: "notes", Tools: c.notes}, {Name: "other", Tools: c.other}}
				s.node()
				owner := c.owner
				if owner == "" {
					owner = order[0]
				}
				for _, plugin := range order {
					answer := s.client().request(plugin, "register", registration("1", c.tool))
					if plugin == owner {
						if answer.Error != nil {
							t.Errorf("%s: got %v, want it accepted", plugin, answer.Error)
						}
						continue
					}
					code := wire.CodeForbidden
					if c.owner == "" {
						code = wire.CodeConflict
					}
					if answer.Error == nil || answer.Error.Code != code || answer.Error.Field != "manifest.tools[0].name" || !strings.Contains(answer.Error.Message, c.refused) {
						t.Errorf("%s: got %+v, want %s: %s", plugin, answer.Error, code, c.refused)
					}
				}
			})
		}
	}
}

// TestOwnerOfRegisteredTool gives a tool to a plugin after another one has registered it. The next node does not take over
// the other's manifest, and the owner registers the tool.
func TestOwnerOfRegisteredTool(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.config.Plugins = []external.Plugin{{Name: "notes"}, {Name: "other"}}
	kill := s.node()
	if answer := s.client().request("other", "register", registration("1", "write")); answer.Error != nil {
		t.Fatalf("got %v, want it accepted", answer.Error)
	}
	s.first.Stop()
	kill()
	s.config.Plugins, s.first = []external.Plugin{{Name: "notes", Tools: []string{"write"}}, {Name: "other"}}, nil
	s.node()
	runtest.DeepEqual(t, "tools of other", s.first.Status()[1].Tools, []string{})
	if answer := s.client().request("notes", "register", registration("1", "write")); answer.Error != nil {
		t.Errorf("got %v, want it accepted", answer.Error)
	}
}
