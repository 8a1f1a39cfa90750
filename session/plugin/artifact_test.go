package plugin_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// artifactPlugin saves a configurable number of artifacts.
type artifactPlugin struct {
	plugin.State[int]
}

func (h *artifactPlugin) Register(*plugin.Registrar) error { return nil }

func (h *artifactPlugin) Snapshot(w *plugin.SnapshotWriter) ([]byte, error) {
	for i := range h.Load() {
		w.Write(strconv.Itoa(i), []byte("small"))
	}
	return []byte("{}"), nil
}

// TestManyArtifacts: more artifacts than one event can store are refused. The old state stays, and the next state
// that fits is saved.
func TestManyArtifacts(t *testing.T) {
	t.Parallel()
	h := &artifactPlugin{}
	s := stack(t, plugin.New("hoarder", func(plugin.BuildContext) (plugin.Plugin, error) { return h, nil }))
	h.Update(func(n *int) { *n = 10_000 })
	if list, err := s.Unsaved(); len(list) != 0 || !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("too many: got %d states, %v, want none and ErrTooLarge", len(list), err)
	}
	h.Update(func(n *int) { *n = 100 })
	list, err := s.Unsaved()
	if len(list) != 1 || err != nil {
		t.Errorf("fewer: got %d states, %v, want one", len(list), err)
	}
}
