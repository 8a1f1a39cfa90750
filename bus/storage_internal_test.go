package bus

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
)

func TestRefusalsLast(t *testing.T) {
	t.Parallel()
	const since = time.Hour
	began := time.Now()
	var s refusals
	s.add("full", refusal{err: events.ErrStorage, full: true, at: began, reconnects: 1})
	for range silentAppends {
		s.add("silent", refusal{err: events.ErrOutcomeUnknown, at: began, reconnects: 1})
	}
	for _, c := range []struct {
		name       string
		after      time.Duration
		reconnects uint64
		want       []string
	}{
		{"at once", 0, 1, []string{"full", "silent"}},
		{"later", since, 1, []string{"full"}},
		{"over another connection", since, 2, nil},
	} {
		if got := slices.Sorted(maps.Keys(s.current(began.Add(c.after), c.reconnects))); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
