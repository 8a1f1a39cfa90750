package rate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/session/plugin/wire"
)

// TestLimitsOfAPlugin floods with many calls of one plugin: the limits of the plugin hold, and another plugin has its own.
func TestLimitsOfAPlugin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := &NewPlugin().Traffic
		outputs, bytes, callbacks := 0, 0, 0
		for range 1000 {
			one := NewCall()
			for one.outputs.Tokens() >= 1 {
				if one.Output(all, 1) == nil {
					outputs++
				}
			}
			if one.Callback(all) == nil {
				callbacks++
			}
		}
		time.Sleep(time.Minute) //nolint:forbidigo // in a bubble
		for range 1500 {
			if NewCall().Output(all, wire.MaxOutputBytes) == nil {
				bytes += wire.MaxOutputBytes
			}
		}
		if outputs != wire.RateBurst*wire.PluginOutputs || bytes != wire.RateBurst*wire.PluginOutputBytes || callbacks != wire.RateBurst*wire.PluginCallbacks {
			t.Errorf("got %d outputs, %d bytes, %d callbacks, want twice the limit of a second", outputs, bytes, callbacks)
		}
		if err := NewCall().Output(&NewPlugin().Traffic, 1); err != nil {
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
			a, admitted := NewCall(), 0
			for range 5000 {
				if a.Answer(size) == nil {
					admitted++
				}
			}
			if admitted != most {
				t.Errorf("answers of %d bytes: got %d, want %d", size, admitted, most)
			}
			time.Sleep(time.Second) //nolint:forbidigo // in a bubble
			if err := a.Answer(size); err != nil {
				t.Errorf("a second later: %v", err)
			}
		})
	}
	a := NewCall()
	for range wire.MaxOutcomeBytes/wire.MaxInlineBytes + 1 {
		if err := a.Answer(piece); err != nil {
			t.Fatalf("pieces of the largest outcome: %v", err)
		}
	}
}
