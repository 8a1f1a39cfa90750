package external

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
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
					return &instanceCall{p: p, plugin: "notes", limits: callTraffic(), call: plugin.Call{}.WithOutput(func(_ string, offset int64, _ string) { *list = append(*list, offset) })}
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
				time.Sleep(time.Second)
				a.printed(&wire.Output{Offset: int64(1000 * c.size), Text: text})
				if last := flood[len(flood)-1]; last != int64(1000*c.size) {
					t.Errorf("a second later: got offset %d, want the one that was printed", last)
				}
			})
		})
	}
}

// TestLimitsOfAPlugin floods with many calls of one plugin: the limits of the plugin hold, and another plugin has its own.
func TestLimitsOfAPlugin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Plugins: []Plugin{{Name: "notes"}, {Name: "two"}}})
		if err != nil {
			t.Fatal(err)
		}
		all := &p.byName["notes"].limits.traffic
		outputs, bytes, callbacks := 0, 0, 0
		for range 1000 {
			one := callTraffic()
			for one.outputs.Tokens() >= 1 {
				if one.output(all, 1) == nil {
					outputs++
				}
			}
			if one.callback(all) == nil {
				callbacks++
			}
		}
		time.Sleep(time.Minute)
		for range 1500 {
			if callTraffic().output(all, wire.MaxOutputBytes) == nil {
				bytes += wire.MaxOutputBytes
			}
		}
		if outputs != wire.RateBurst*wire.PluginOutputs || bytes != wire.RateBurst*wire.PluginOutputBytes || callbacks != wire.RateBurst*wire.PluginCallbacks {
			t.Errorf("got %d outputs, %d bytes, %d callbacks, want twice the limit of a second", outputs, bytes, callbacks)
		}
		if err := callTraffic().output(&p.byName["two"].limits.traffic, 1); err != nil {
			t.Errorf("another plugin: got %v, want none", err)
		}
	})
}

// TestAnswersAboveTheLimits sends answers of one call at once: the limits admit the pieces of the largest outcome and what a call sends
// beside them, and drop a flood of any size of messages. A second later they admit more.
func TestAnswersAboveTheLimits(t *testing.T) {
	t.Parallel()
	const piece = wire.MaxInlineBytes*4/3 + 64 // as base64
	for size, most := range map[int]int{1: wire.RateBurst * wire.AnswersPerSecond, 1000 << 10: wire.RateBurst * wire.AnswerBytesPerSecond / (1000 << 10)} {
		synctest.Test(t, func(t *testing.T) {
			a, admitted := callTraffic(), 0
			for range 5000 {
				if a.answer(size) == nil {
					admitted++
				}
			}
			if admitted != most {
				t.Errorf("answers of %d bytes: got %d, want %d", size, admitted, most)
			}
			time.Sleep(time.Second)
			if err := a.answer(size); err != nil {
				t.Errorf("a second later: %v", err)
			}
		})
	}
	a := callTraffic()
	for range wire.MaxOutcomeBytes/wire.MaxInlineBytes + 1 {
		if err := a.answer(piece); err != nil {
			t.Fatalf("pieces of the largest outcome: %v", err)
		}
	}
}
