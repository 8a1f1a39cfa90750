package main

import (
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/playback"
)

// rowPlan plays one turn, t0000, that calls a tool twice.
func rowPlan(t *testing.T) *playback.Plan {
	t.Helper()
	name := t.TempDir() + "/row.jsonl"
	runtest.NoError(t, writeRow(name, 2))
	all, err := readChats([]string{name})
	runtest.NoError(t, err)
	return planned(t, all)
}

func planned(t *testing.T, all *chats) *playback.Plan {
	t.Helper()
	plan, err := all.plan(sessionOf(3, 0))
	runtest.NoError(t, err)
	plan.MayLose = map[string]bool{"count": true}
	return plan
}

// TestRepeatedEffectsAreCounted compares ledgers with a history: worker a has the turn, and b from sequence 10 on.
func TestRepeatedEffectsAreCounted(t *testing.T) {
	t.Parallel()
	plan := rowPlan(t)
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	const model, tool = "t0000/1/model", "t0000/0/0"
	for _, tc := range []struct {
		name           string
		by             events.WorkerID // the worker that recorded the reply, at 500, sequence 5
		ledger         []entry
		doubled, stale int
	}{
		{name: "once", by: "a", ledger: []entry{{Effect: model, Worker: "a", At: 400}, {Effect: tool, Worker: "a", At: 300}}},
		{name: "after_a_crash", by: "b", ledger: []entry{{Effect: model, Worker: "a", At: 300}, {Effect: model, Worker: "b", At: 400}}},
		{name: "by_who_recorded_it", by: "a", ledger: []entry{{Effect: model, Worker: "a", At: 400}, {Effect: model, Worker: "a", At: 600}}, doubled: 1},
		{name: "by_who_took_over", by: "a", ledger: []entry{{Effect: model, Worker: "a", At: 400}, {Effect: model, Worker: "b", At: 1100}}, doubled: 1},
		{name: "by_who_slept", by: "b", ledger: []entry{{Effect: model, Worker: "b", At: 400}, {Effect: model, Worker: "a", At: 1100}}, stale: 1},
		{name: "must_not_repeat", by: "a", ledger: []entry{{Effect: tool, Worker: "a", At: 400}, {Effect: tool, Worker: "b", At: 450}}, doubled: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := newAudit(plan)
			a.effects[model] = recorded{seq: 5, at: 500, by: tc.by}
			a.claims = []claim{{turn: "t0000", worker: "a", seq: 2, at: at(100)}, {turn: "t0000", worker: "b", seq: 10, at: at(1000), takeover: true}}
			a.countRepeats(tc.ledger)
			if len(a.found.doubled) != tc.doubled || a.found.stale != tc.stale {
				t.Errorf("got doubled %v, stale %d, want %d, %d", a.found.doubled, a.found.stale, tc.doubled, tc.stale)
			}
		})
	}
}

// TestRepeatedCallsOfInstancesAreCounted compares ledgers of instances of the plugin with a history. Tool 0 must not
// run twice, tool 1 may; tool 1 is recorded at 500.
func TestRepeatedCallsOfInstancesAreCounted(t *testing.T) {
	t.Parallel()
	const once, free = "t0000/0/0", "t0000/1/0"
	for name, tc := range map[string]struct {
		result                   events.ToolResult // of the call that must not run twice
		ledger                   []entry
		doubled, unknown, failed int
	}{
		"each_once":                  {ledger: []entry{{Effect: once, Worker: "p1-1", At: 400}, {Effect: free, Worker: "p2-1", At: 400}}},
		"once_on_two_instances":      {ledger: []entry{{Effect: once, Worker: "p1-1", At: 400}, {Effect: once, Worker: "p2-1", At: 450}}, doubled: 1},
		"free_on_two_instances":      {ledger: []entry{{Effect: free, Worker: "p1-1", At: 400}, {Effect: free, Worker: "p2-1", At: 450}}},
		"free_twice_on_one":          {ledger: []entry{{Effect: free, Worker: "p1-1", At: 400}, {Effect: free, Worker: "p1-1", At: 450}}, doubled: 1},
		"free_on_one_that_restarted": {ledger: []entry{{Effect: free, Worker: "p1-1", At: 400}, {Effect: free, Worker: "p1-2", At: 450}}},
		"lost":                       {result: events.ToolResult{Outcome: events.OutcomeLost}, ledger: []entry{{Effect: once, Worker: "p1-1", At: 400}}, unknown: 1},
		"not_started":                {result: events.ToolResult{Outcome: events.OutcomeFailure, Class: plugin.ClassUnavailable}, failed: 1},
		"not_started_and_ran_anyway": {result: events.ToolResult{Outcome: events.OutcomeFailure, Class: plugin.ClassUnavailable}, ledger: []entry{{Effect: once, Worker: "p1-1", At: 400}}, doubled: 1, failed: 1},
		"other_failure_is_a_result":  {result: events.ToolResult{Outcome: events.OutcomeFailure, Class: plugin.ClassExecution}, ledger: []entry{{Effect: once, Worker: "p1-1", At: 400}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAudit(rowPlan(t))
			a.once[free] = false
			a.returned(once, &tc.result, recorded{seq: 5, at: 500, by: "n1-1"})
			a.returned(free, &events.ToolResult{}, recorded{seq: 6, at: 500, by: "n1-1"})
			a.countRepeats(tc.ledger)
			if len(a.found.doubled) != tc.doubled || a.found.unknown != tc.unknown || len(a.refused) != tc.failed || a.found.outside != len(tc.ledger) {
				t.Errorf("got doubled %v, unknown %d, not started %d, calls %d, want %d, %d, %d, %d",
					a.found.doubled, a.found.unknown, len(a.refused), a.found.outside, tc.doubled, tc.unknown, tc.failed, len(tc.ledger))
			}
		})
	}
}

// TestTakeoversAreMeasured measures claims after kills, and marks those during which another fault happened.
func TestTakeoversAreMeasured(t *testing.T) {
	t.Parallel()
	at := func(s float64) time.Time { return time.UnixMilli(int64(s * 1000)) }
	wakes := map[events.SessionID]bool{"s": true}
	incidents := []incident{
		{Fault: FaultKill, Worker: "a", At: at(10), Until: at(11), wakes: wakes},
		{Fault: FaultKill, Worker: "b", At: at(20), Until: at(21), wakes: wakes},
		{Fault: FaultServer, Target: "s1", At: at(20.5), Until: at(24)},
		{Fault: FaultFreeze, Worker: "c", At: at(40), Until: at(44)},
	}
	list, n := takeovers("s", []claim{
		{turn: "t1", worker: "a", at: at(9)},
		{turn: "t1", worker: "b", at: at(10.4), takeover: true},
		{turn: "t1", worker: "c", at: at(22), takeover: true},
		{turn: "t1", worker: "d", at: at(43), takeover: true}, // c is frozen
	}, incidents)
	want := []takeover{
		{"s", "t1", "a", "b", at(10), 400 * time.Millisecond, false, false},
		{"s", "t1", "b", "c", at(20), 2 * time.Second, false, true},
	}
	if n != 3 || !slices.Equal(list, want) {
		t.Errorf("got %d takeovers, %+v, want 3, %+v", n, list, want)
	}
	var r Report
	r.times(list)
	if r.TakeoversTimed != 1 || r.TakeoverP99 != 400 || r.DisturbedTimed != 1 || r.DisturbedP50 != 2000 {
		t.Errorf("report: got %+v, want 400 ms alone and 2 s disturbed", r)
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var list []time.Duration
	for n := 200; n > 0; n-- {
		list = append(list, time.Duration(n)*time.Millisecond)
	}
	for p, want := range map[float64]float64{50: 100, 99: 198, 100: 200} {
		if got := percentile(slices.Clone(list), p); got != want {
			t.Errorf("percentile %v: got %v, want %v", p, got, want)
		}
	}
	runtest.Equal(t, "of nothing", percentile(nil, 99), 0)
}
