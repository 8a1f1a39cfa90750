package watch

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// TestPrinting accepts the output of the newest attempt of a call, in order, until the call has a result.
func TestPrinting(t *testing.T) {
	t.Parallel()
	var p printing
	for _, c := range []struct {
		name       string
		call       events.EffectID
		start, att int64
		n          int64
		want       bool
	}{
		{"first", "t1/0/0", 5, 1, 1, true},
		{"twice", "t1/0/0", 5, 1, 1, false},
		{"after_a_gap", "t1/0/0", 5, 1, 4, true},
		{"before", "t1/0/0", 5, 1, 3, false},
		{"other_call", "t1/0/1", 3, 1, 1, true},
		{"newer_attempt", "t1/0/0", 9, 2, 1, true},
		{"older_attempt", "t1/0/0", 5, 1, 9, false},
	} {
		d := api.Delta{Call: c.start, Attempt: c.att, N: c.n, Output: api.ToolOutput{Call: c.call, Text: "x"}}
		runtest.Equal(t, c.name, p.accept(&d), c.want)
	}
	p.end("t1/0/0")
	for call, want := range map[events.EffectID]bool{"t1/0/0": false, "t1/0/0/3": false, "t1/0/1": true, "t1/0/01": true} {
		d := api.Delta{Call: 99, N: 1, Output: api.ToolOutput{Call: call, Text: "x"}}
		if got := p.accept(&d); got != want {
			t.Errorf("output of %s after the result of t1/0/0: got %v, want %v", call, got, want)
		}
	}
}
