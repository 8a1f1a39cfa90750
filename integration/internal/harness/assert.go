package harness

import (
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// EqualSettings compares what turns of two sessions can do: configuration, plugin states, tool sources, overlay, extensions and tools.
func EqualSettings(t *testing.T, what string, got, want *projector.State) {
	t.Helper()
	runtest.DeepEqual(t, what+": configuration", got.Config, want.Config)
	runtest.DeepEqual(t, what+": plugin states", got.Plugins, want.Plugins)
	runtest.DeepEqual(t, what+": tool sources", got.ToolSources, want.ToolSources)
	runtest.DeepEqual(t, what+": overlay", got.Overlay.SessionOverlaid, want.Overlay.SessionOverlaid)
	runtest.DeepEqual(t, what+": extensions", got.Extensions, want.Extensions)
	runtest.DeepEqual(t, what+": tools", got.Catalog.Tools, want.Catalog.Tools)
}
