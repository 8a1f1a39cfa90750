package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestPluginsAreEscaped prints plugins whose texts act on a terminal.
func TestPluginsAreEscaped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	list := []api.ExternalPlugin{{Name: "notes", Version: "1" + hostile, Instances: []api.PluginInstance{{ID: "i1", Machine: "m" + hostile, Current: true}}}}
	runtest.NoError(t, (&pluginsCmd{}).show(&streams{Out: &out}, list))
	for _, r := range out.String() {
		if r != '\n' && unicode.In(r, unicode.Cc, unicode.Cf) {
			t.Fatalf("got U+%04X in %q", r, out.String())
		}
	}
	if got := strings.Count(out.String(), "\n"); got != 2 {
		t.Errorf("lines: got %d in %q, want a title and one", got, out.String())
	}
}

// TestPluginsShown has the state of each instance in its line, and a plugin without one makes the command fail.
func TestPluginsShown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	list := []api.ExternalPlugin{
		{Name: "notes", Version: "2", Instances: []api.PluginInstance{
			{ID: "i1", Machine: "m1", Current: true, Running: 1, Calls: 7, Failures: 3, SilentMS: 400},
			{ID: "i2", Machine: "m2", Current: true, Draining: true},
			{ID: "i3", Machine: "m3"},
		}},
		{Name: "other"},
	}
	err := (&pluginsCmd{}).show(&streams{Out: &out}, list)
	if err == nil || !strings.Contains(err.Error(), "plugin other: the log of the node") {
		t.Errorf("got %v, want that other has no program, and where to look", err)
	}
	for i, want := range []string{
		"PLUGIN VERSION INSTANCE MACHINE STATE RUNNING ENDED FAILED HEARD", "notes 2 i1 m1 ready 1 7 3 0.4 s ago",
		"notes 2 i2 m2 draining 0 0 0 0.0 s ago", "notes another i3 m3 other_version 0 0 0 0.0 s ago", "other not registered none",
	} {
		if got := strings.Join(strings.Fields(strings.Split(out.String(), "\n")[i]), " "); got != want {
			t.Errorf("line %d: got %q, want %q", i, got, want)
		}
	}
}
