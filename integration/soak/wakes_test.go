package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLostWakes distinguishes takeovers with and without a lost wake. Worker a has the turn, and is killed at 10 s.
func TestLostWakes(t *testing.T) {
	t.Parallel()
	at := func(s float64) time.Time { return time.UnixMilli(int64(s * 1000)) }
	known := map[events.SessionID]bool{"s": true}
	for name, tc := range map[string]struct {
		kill            incident
		other           []incident
		lost, disturbed bool
	}{
		"with_its_wake":       {kill: incident{Fault: FaultKill, wakes: known}},
		"lost_with_it":        {kill: incident{Fault: FaultWakes, wakes: known, Lost: at(10.01)}, lost: true},
		"had_none_before":     {kill: incident{Fault: FaultKill, wakes: map[events.SessionID]bool{"other": true}}, lost: true},
		"lost_since":          {kill: incident{Fault: FaultKill, wakes: known}, other: []incident{{Fault: FaultWakes, At: at(12), Lost: at(12.1), Until: at(13)}}, lost: true},
		"lost_before":         {kill: incident{Fault: FaultKill, wakes: known}, other: []incident{{Fault: FaultWakes, At: at(9), Lost: at(9.1), Until: at(13)}}},
		"lost_after":          {kill: incident{Fault: FaultKill, wakes: known}, other: []incident{{Fault: FaultWakes, At: at(16), Lost: at(16.1), Until: at(17)}}},
		"unknown":             {kill: incident{Fault: FaultKill}, lost: true, disturbed: true},
		"purge_failed":        {kill: incident{Fault: FaultWakes, wakes: known}, disturbed: true},
		"another_purge_fails": {kill: incident{Fault: FaultKill, wakes: known}, other: []incident{{Fault: FaultWakes, At: at(12), Until: at(13)}}, disturbed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.kill.Worker, tc.kill.At, tc.kill.Until = "a", at(10), at(11)
			claims := []claim{{turn: "t", worker: "a", at: at(8)}, {turn: "t", worker: "b", at: at(15), takeover: true}}
			list, _ := takeovers("s", claims, append(tc.other, tc.kill))
			if len(list) != 1 || list[0].LostWake != tc.lost || list[0].Disturbed != tc.disturbed || list[0].Took != 5*time.Second {
				t.Errorf("got %+v, want one of 5 s, wake lost %v, disturbed %v", list, tc.lost, tc.disturbed)
			}
		})
	}
}

// TestVerdictOnLateTakeovers: a run fails when a 99th percentile of takeovers exceeds its limit, with wakes or with lost wakes.
func TestVerdictOnLateTakeovers(t *testing.T) {
	t.Parallel()
	took := func(lost, disturbed bool, n int, took time.Duration) (list []takeover) {
		for range n {
			list = append(list, takeover{Took: took, LostWake: lost, Disturbed: disturbed})
		}
		return list
	}
	for name, tc := range map[string]struct {
		some, more []takeover
		late       bool
	}{
		"none":                {},
		"at_the_limits":       {took(false, false, 3, 2*time.Second), took(true, false, 3, 10*time.Second), false},
		"one_of_few":          {took(false, false, 3, time.Second), took(false, false, 1, 2001*time.Millisecond), true},
		"one_of_100":          {took(false, false, 99, time.Second), took(false, false, 1, 3*time.Second), false},
		"two_of_100":          {took(false, false, 98, time.Second), took(false, false, 2, 3*time.Second), true},
		"wake_lost":           {took(false, false, 99, time.Second), took(true, false, 1, 9*time.Second), false},
		"wake_lost_late":      {took(false, false, 99, time.Second), took(true, false, 1, 10001*time.Millisecond), true},
		"beside_other_faults": {took(false, true, 1, time.Minute), took(true, true, 1, time.Minute), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r Report
			r.times(append(tc.some, tc.more...))
			if err := r.verdict(); (err != nil) != tc.late || err != nil && !errors.Is(err, errLate) {
				t.Errorf("got %v, want late %v: %+v", err, tc.late, r)
			}
		})
	}
}

// TestPurgeWakes removes every wake from the queue, delivered or not.
func TestPurgeWakes(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	queue, err := b.Queue(t.Context(), bus.ClassTurn)
	runtest.NoError(t, err)
	for _, id := range []events.SessionID{"s1", "s2"} {
		runtest.NoError(t, b.StoreWake(t.Context(), bus.WakeKey{Class: bus.ClassTurn, Session: id}, bus.WakeHint{}))
	}
	_, err = queue.Fetch(t.Context(), 1, time.Minute, func(*bus.Wake) {})
	runtest.NoError(t, err)
	if got := wakesOf(t.Context(), b); len(got) != 2 || !got["s1"] || !got["s2"] {
		t.Errorf("before: got %v, want two", got)
	}
	runtest.NoError(t, purgeWakes(t.Context(), b))
	if got := wakesOf(t.Context(), b); got == nil || len(got) != 0 {
		t.Errorf("after: got %v, want none, and an answer", got)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := wakesOf(ended, b); got != nil {
		t.Errorf("without an answer: got %v, want nil", got)
	}
	js, err := jetstream.New(b.Conn())
	if err == nil {
		err = js.DeleteStream(t.Context(), "lash-work")
	}
	if err == nil {
		err = purgeWakes(t.Context(), b)
	}
	if err == nil {
		t.Error("without the queue: got no error")
	}
}
