package external

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/rate"
)

// TestOutputAboveTheLimits prints much in one call at once. The limits of the call admit a part, the offset of what
// follows shows the gap, and a call of the same plugin beside it loses nothing.
func TestOutputAboveTheLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size int
		want int // outputs at once
	}{
		"many":  {1, wire.RateBurst * wire.MaxOutputsPerSecond},
		"large": {wire.MaxOutputBytes, min(wire.RateBurst*wire.MaxOutputsPerSecond, wire.RateBurst*wire.OutputBytesPerSecond/wire.MaxOutputBytes)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, err := New(Config{Plugins: []Plugin{{Name: "notes"}}})
				if err != nil {
					t.Fatal(err)
				}
				var flood, calm []int64 // offsets
				call := func(list *[]int64) *instanceCall {
					return &instanceCall{p: p, plugin: "notes", limits: rate.NewCall(), call: plugin.Call{Run: plugin.Running{Output: func(_ string, offset int64, _ string) { *list = append(*list, offset) }}}}
				}
				a, b := call(&flood), call(&calm)
				text := strings.Repeat("x", c.size)
				for n := range 1000 {
					a.printed(&wire.Output{Offset: int64(n * c.size), Text: text})
				}
				for n := range wire.OutputsPerSecond {
					b.printed(&wire.Output{Offset: int64(n * c.size), Text: text})
				}
				if len(flood) != c.want || len(calm) != wire.OutputsPerSecond {
					t.Errorf("outputs: got %d of the flood and %d beside it, want %d and %d", len(flood), len(calm), c.want, wire.OutputsPerSecond)
				}
				time.Sleep(time.Second) //nolint:forbidigo // in a bubble
				a.printed(&wire.Output{Offset: int64(1000 * c.size), Text: text})
				if last := flood[len(flood)-1]; last != int64(1000*c.size) {
					t.Errorf("a second later: got offset %d, want the one that was printed", last)
				}
			})
		})
	}
}
