package internal_test

import (
	"errors"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/toolset"
)

func known() []events.ToolEntry {
	return []events.ToolEntry{
		{Name: "read", Source: "files", Effects: events.EffectsNone}, {Name: "write", Source: "files", Effects: events.EffectsNonIdempotent},
	}
}

// TestDeclared takes the level from the request, and what the tool does from its source.
func TestDeclared(t *testing.T) {
	t.Parallel()
	off := events.Overridden(events.AvailOff)
	got, err := toolset.Declared(known(), []events.ToolEntry{{Name: "write", Source: "files", Effects: events.EffectsNone, Override: off}})
	if err != nil || len(got) != 1 || got[0].Effects != events.EffectsNonIdempotent || got[0].Override != off {
		t.Errorf("got %+v, %v, want the declared effects and the level of the request", got, err)
	}
	for name, c := range map[string]struct {
		tool events.ToolEntry
		want error
	}{
		"source": {events.ToolEntry{Name: "read", Source: "shell"}, api.ErrUnknownSource},
		"tool":   {events.ToolEntry{Name: "delete", Source: "files"}, api.ErrUnknownTool},
	} {
		if _, err := toolset.Declared(known(), []events.ToolEntry{c.tool}); !errors.Is(err, c.want) {
			t.Errorf("unknown %s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestWithRestOff switches off the tools that a request leaves out.
func TestWithRestOff(t *testing.T) {
	t.Parallel()
	all := known()
	got := toolset.WithRestOff(all, all[:1])
	if len(got) != 2 || got[0].Name != "read" || got[0].Override == got[1].Override || got[1].Name != "write" || got[1].Override != events.Overridden(events.AvailOff) {
		t.Errorf("got %+v, want read as it was and write off", got)
	}
	if all[1].Override != "" {
		t.Errorf("the known tools changed: got %+v", all[1])
	}
}
