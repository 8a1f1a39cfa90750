package events_test

import (
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(runtest.Select(m))
}

func TestMemLog(t *testing.T) {
	t.Parallel()
	eventstest.TestLog(t, func(*testing.T) events.Log { return &events.MemLog{} })
}

// A log that loses, delays and refuses keeps every promise of [events.Log], because of Settle.
func TestFaultyLog(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			t.Parallel()
			eventstest.TestLog(t, func(t *testing.T) events.Log {
				log := eventstest.NewFaultyLog(&events.MemLog{}, eventstest.FaultOptions{Seed: seed, Rate: 0.1 + float64(seed%8)/10})
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("faults: %v", log.Trace())
					}
				})
				return log
			})
		})
	}
}

func commitOf(id events.CommitID, batch ...events.Event) *events.Commit {
	if len(batch) == 0 {
		batch = []events.Event{events.Of("", &events.SessionClosed{})}
	}
	return &events.Commit{ID: id, Session: "s1", At: 1, Actor: events.Actor{Kind: events.ActorNode}, Events: batch}
}

func TestFaultyLogScript(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fault   eventstest.Fault
		commits bool // committed by its own publish
		later   bool // committed once others publish
	}{
		{eventstest.FaultLostBefore, false, false},
		{eventstest.FaultLostAfter, true, true},
		{eventstest.FaultMoved, false, false},
		{eventstest.FaultDelayed, false, true},
	} {
		t.Run(tc.fault.String(), func(t *testing.T) {
			t.Parallel()
			// Both the append and the read-back fail: the outcome stays unknown.
			script := []eventstest.Fault{eventstest.FaultNone, tc.fault, eventstest.FaultCut}
			inner := &events.MemLog{}
			log := eventstest.NewFaultyLog(inner, eventstest.FaultOptions{Script: script, GiveUpAfter: 1})
			if _, err := log.Append(t.Context(), commitOf("c1"), 0); err != nil {
				t.Fatal(err)
			}
			_, err := log.Append(t.Context(), commitOf("c2"), 1)
			_, err2 := inner.Last(t.Context(), "s1")
			runtest.NoError(t, err2)
			if err != nil && !errors.Is(err, events.ErrOutcomeUnknown) {
				t.Fatalf("append: got %v, want %v", err, events.ErrOutcomeUnknown)
			}
			if got := holds(t, inner, "c2"); got != tc.commits {
				t.Fatalf("landed: got %v, want %v", got, tc.commits)
			}
			mustAppendAtEnd(t, log, commitOf("c3"))
			if got := holds(t, inner, "c2"); got != tc.later {
				t.Fatalf("landed later: got %v, want %v", got, tc.later)
			}
		})
	}
}

// mustAppendAtEnd appends c at the current end of the history, which a delayed commit may have moved.
func mustAppendAtEnd(t *testing.T, log events.Log, c *events.Commit) {
	t.Helper()
	for {
		last, err := log.Last(t.Context(), c.Session)
		runtest.NoError(t, err)
		_, err = log.Append(t.Context(), c, last)
		if _, moved := errors.AsType[*events.ConflictError](err); !moved && err != nil {
			t.Fatal(err)
		} else if !moved {
			return
		}
	}
}

func holds(t *testing.T, log events.Log, id events.CommitID) bool {
	t.Helper()
	found := false
	for entry, err := range log.Read(t.Context(), "s1", 0) {
		runtest.NoError(t, err)
		found = found || entry.Commit.ID == id
	}
	return found
}
