package main

import (
	"testing"

	"github.com/lash-go/lash/events"
)

// TestMCPResults judges outcomes of calls by the number of their runs.
func TestMCPResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		turn    events.TurnID // an even one calls once, an odd one look
		outcome events.Outcome
		runs    int
		broken  bool
		doubled bool
		unknown int
	}{
		"once":                 {"t0", events.OutcomeSuccess, 1, false, false, 0},
		"once_without_run":     {"t0", events.OutcomeSuccess, 0, true, false, 0},
		"once_twice":           {"t2", events.OutcomeSuccess, 2, false, true, 0},
		"once_lost":            {"t0", events.OutcomeLost, 1, false, false, 1},
		"once_lost_early":      {"t0", events.OutcomeLost, 0, false, false, 1},
		"once_lost_twice":      {"t0", events.OutcomeLost, 2, false, true, 0},
		"once_refused":         {"t0", events.OutcomeFailure, 0, false, false, 0},
		"once_refused_and_ran": {"t0", events.OutcomeFailure, 1, false, true, 0},
		"look":                 {"t1", events.OutcomeSuccess, 3, false, false, 0},
		"look_without_run":     {"t1", events.OutcomeSuccess, 0, true, false, 0},
		"look_lost":            {"t1", events.OutcomeLost, 1, true, false, 0},
		"look_refused":         {"t1", events.OutcomeFailure, 3, false, false, 0},
	} {
		s, found, r := &asking{id: "mcp-0"}, findings{}, &Report{}
		tool := map[byte]string{0: "once", 1: "look"}[(c.turn[1]-'0')%2]
		err := s.result(c.turn, c.outcome, map[string]int{tool + " mcp-0/" + string(c.turn): c.runs}, &found, r)
		if (err != nil) != c.broken || (len(found.doubled) > 0) != c.doubled || found.unknown != c.unknown || r.MCPCalls != 1 {
			t.Errorf("%s: got %v and %+v", name, err, found)
		}
	}
}
