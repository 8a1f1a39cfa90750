package external

import (
	"testing"

	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/rate"
)

// TestOffsets prints at any offset. Those that clients could not add the length of the text to are dropped.
func TestOffsets(t *testing.T) {
	t.Parallel()
	p, err := New(Config{Plugins: []Plugin{{Name: "notes"}}})
	if err != nil {
		t.Fatal(err)
	}
	for offset, shown := range map[int64]bool{0: true, 7: true, wire.MaxOutputOffset: true, wire.MaxOutputOffset + 1: false, 1<<63 - 1: false, -1: false, -1 << 63: false} {
		got := false
		o := &instanceCall{p: p, plugin: "notes", limits: rate.NewCall()}
		o.call.Run.Output = func(string, int64, string) { got = true }
		o.printed(&wire.Output{Offset: offset, Text: "x"})
		if got != shown {
			t.Errorf("offset %d: got it shown: %t, want %t", offset, got, shown)
		}
	}
}
