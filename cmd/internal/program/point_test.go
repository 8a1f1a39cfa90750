package program_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

const commitID = "01J5ZX0000000000000000000"

// now is the time of the tests. Commits were made 30, 20 and 10 minutes before.
func now() time.Time { return time.Date(2026, 11, 25, 18, 30, 0, 0, time.UTC) }

// history has three commits; the second has two events.
func pointHistory(t *testing.T) events.Log {
	t.Helper()
	log := new(events.MemLog)
	for i := range 3 {
		c := &events.Commit{
			ID: events.CommitID(commitID + fmt.Sprint(i+1)), Session: "s", At: events.MillisOf(now().Add(time.Duration(i-3) * 10 * time.Minute)),
			Actor: events.Actor{Kind: events.ActorClient, ID: "c"}, Events: []events.Event{events.Of("", &events.SessionOpened{})},
		}
		if i == 1 {
			c.Events = append(c.Events, events.Of("", &events.SessionClosed{}))
		}
		_, err := log.Append(t.Context(), c, events.Seq(i))
		runtest.NoError(t, err)
	}
	return log
}

// TestPoints: which commit each form of a point names.
func TestPoints(t *testing.T) {
	t.Parallel()
	log := pointHistory(t)
	for p, want := range map[program.Point]events.Seq{
		"": 3, "1": 1, "3": 3, "2.0": 2, "2.1": 2, commitID + "2": 2, commitID + "2.1": 2,
		"0s": 3, "15m": 2, "30m": 1, "29m59s": 1, "10m": 3,
		"2026-11-25T18:12:00Z": 2, "2026-11-25T19:12:00+01:00": 2, "2026-11-25 18:12": 2, "2026-11-25T18:10:00.000": 2, "2026-11-26": 3, "2999-01-01": 3,
	} {
		if got, err := p.Seq(t.Context(), log, "s", "--at", now()); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", p, got, err, want)
		}
	}
}

// TestRefused: the error names the flag, the text, and what there is.
func TestRefused(t *testing.T) {
	t.Parallel()
	log := pointHistory(t)
	for p, want := range map[program.Point]string{
		"0":                    "--at 0: the history of s has the sequences 1 to 3",
		"4":                    "--at 4: the history of s has the sequences 1 to 3",
		"18446744073709551615": "has the sequences 1 to 3",
		"18446744073709551616": "want a sequence such as 12",
		"2.2":                  "--at 2.2: the commit at sequence 2 has the events 2.0 to 2.1",
		"2.-1":                 "want a sequence",
		"2.":                   "want a sequence",
		"-5m":                  "want a sequence",
		"yesterday":            `--at "yesterday": want a sequence`,
		commitID + "9":         "has no such event; lash-replay events --json lists their ids",
		commitID + "2.2":       "has no such event",
		commitID + "2.x":       "want a sequence",
		"2026-13-01":           "want a sequence",
		"a\x1b[31m\nb":         `--at "a\x1b[31m\nb": want`,
		"2026-11-25T17:59:59Z": "begins later, at 2026-11-25T18:00:00.000Z",
		"31m":                  "begins later",
	} {
		_, err := p.Seq(t.Context(), log, "s", "--at", now())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", p, err, want)
		}
		if before := strings.HasPrefix(want, "begins later"); errors.Is(err, program.ErrBeforeHistory) != before {
			t.Errorf("%q: got %v, want it to be ErrBeforeHistory: %t", p, err, before)
		}
	}
	_, err := program.Point("").Seq(t.Context(), log, "other", "--at", now())
	runtest.WantError(t, "unknown session", err, events.ErrNoSession)
}
