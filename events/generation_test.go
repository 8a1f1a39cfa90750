package events_test

import (
	"testing"

	"github.com/lash-go/lash/events"
)

// TestGenerationOver: a turn requests less and more output than its session allows.
func TestGenerationOver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ session, turn, want int64 }{{0, 0, 0}, {500, 0, 500}, {0, 700, 700}, {500, 200, 200}, {500, 200_000, 500}} {
		got := events.Generation{MaxOutputTokens: tc.turn, Effort: "low"}.Over(events.Config{MaxOutputTokens: tc.session, Effort: "high"})
		if got.MaxOutputTokens != tc.want || got.Effort != "low" {
			t.Errorf("%+v: got limit %d and effort %s, want %d and low", tc, got.MaxOutputTokens, got.Effort, tc.want)
		}
	}
}
