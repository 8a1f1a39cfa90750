package turn_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/turn"
)

// TestParseToolEffect parses what [turn.ToolEffect] builds, and nothing else.
func TestParseToolEffect(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := events.TurnID(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`).Draw(t, "turn"))
		iteration, call := rapid.Int64Min(0).Draw(t, "iteration"), rapid.Int64Min(0).Draw(t, "call")
		effect := turn.ToolEffect(id, iteration, call)
		if gotTurn, i, c, ok := turn.ParseToolEffect(effect); gotTurn != id || i != iteration || c != call || !ok {
			t.Errorf("%s: got %s, %d, %d, %v", effect, gotTurn, i, c, ok)
		}
		for _, other := range []events.EffectID{effect + "/0", effect + "/", "/" + effect, turn.ModelEffect(id, iteration)} {
			if got, _, _, ok := turn.ParseToolEffect(other); ok {
				t.Errorf("%s: got turn %s, want none", other, got)
			}
		}
		if got := turn.OfEffect(turn.ModelEffect(id, iteration)); got != id || turn.OfEffect(effect+"/0") != id {
			t.Errorf("got the turn %s, want %s", got, id)
		}
	})
	for _, bad := range []events.EffectID{"", "t", "t/", "t/1", "t/1/", "t//1", "/1/1", "t/-1/1", "t/1/-1", "t/01/1", "t/1/+1", "t/1/x", "t/99999999999999999999/1"} {
		if got, i, c, ok := turn.ParseToolEffect(bad); ok || got != "" || i != 0 || c != 0 {
			t.Errorf("%q: got %s, %d, %d, %v, want none", bad, got, i, c, ok)
		}
	}
}
