package plugin_test

import (
	"errors"
	"strconv"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
)

// hoarder saves as many artifacts as it is told to.
type hoarder struct {
	plugin.State[int]
}

func (h *hoarder) Register(*plugin.Registrar) error { return nil }

func (h *hoarder) Snapshot(w *plugin.SnapshotWriter) ([]byte, error) {
	for i := range h.Load() {
		w.Write(strconv.Itoa(i), []byte("small"))
	}
	return []byte("{}"), nil
}

// TestManyArtifacts refuses more artifacts than one event holds: the state before stays, and the next one that fits is saved.
func TestManyArtifacts(t *testing.T) {
	t.Parallel()
	h := &hoarder{}
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
