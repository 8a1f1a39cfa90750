package call

import (
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestTooLarge has messages of hooks that no body outside the log can hold.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	say := func(bytes int) []events.Message {
		return []events.Message{{ID: "m", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: strings.Repeat("x", bytes)}}}}
	}
	if err := tooLarge(appended(say(events.MaxBlobBytes))); err != nil {
		t.Errorf("got %v, want none at the limit", err)
	}
	if err := tooLarge(appended(say(events.MaxBlobBytes + 1))); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("got %v, want %v above the limit", err, events.ErrTooLarge)
	}
}
