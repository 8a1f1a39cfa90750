package bus_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

func deadLetters(t *testing.T, b *bus.Bus) (list []events.SessionID) {
	t.Helper()
	for letter, err := range b.DeadLetters(t.Context()) {
		runtest.NoError(t, err)
		list = append(list, letter.Session)
	}
	slices.Sort(list)
	return list
}

// TestDeadLetterReplacesTheOneBefore keeps one dead letter of each session. Dropping an older letter leaves the newer
// one.
func TestDeadLetterReplacesTheOneBefore(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	letters := []bus.DeadLetter{
		{Session: "s1", Error: "first", Attempts: 8, At: 1000, Worker: "w1"},
		{Session: "s1", Error: "second", Attempts: 9, At: 2000, Worker: "w2"},
		{Session: "s2", Attempts: 1, At: 3000, Worker: "w1"},
	}
	var got []bus.DeadLetter
	for i := range letters {
		runtest.NoError(t, b.PutDeadLetter(t.Context(), &letters[i]))
		letter, err := b.DeadLetter(t.Context(), letters[i].Session)
		want := letters[i]
		if want.Seq = letter.Seq; err != nil || letter != want || letter.Seq == 0 {
			t.Errorf("got %+v, %v, want %+v", letter, err, want)
		}
		got = append(got, letter)
	}
	runtest.WantError(t, "drop dead letter", b.DropDeadLetter(t.Context(), &got[0]), nil)
	runtest.EqualLists(t, "after the replaced one was dropped", deadLetters(t, b), []events.SessionID{"s1", "s2"})
	for range 2 {
		runtest.WantError(t, "drop dead letter", b.DropDeadLetter(t.Context(), &got[1]), nil)
	}
	runtest.EqualLists(t, "after the newer one was dropped", deadLetters(t, b), []events.SessionID{"s2"})
	_, err := b.DeadLetter(t.Context(), "s1")
	runtest.WantError(t, "dropped", err, bus.ErrNotFound)
	_, err = b.DeadLetter(t.Context(), "*")
	runtest.WantError(t, "a wildcard", err, events.ErrInvalidID)
}

// TestTrial: every worker reads the trial of a key until it is dropped, whatever happens to the others of the session, and it
// is not listed as a dead letter.
func TestTrial(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	keys := []bus.TrialKey{
		{Session: "s", Of: bus.TrialFold},
		{Session: "s", Of: bus.TrialRest},
		{Session: "s", Of: bus.TrialTurn, Turn: "t"},
		{Session: "s", Of: bus.TrialTurn, Turn: "t2"},
		{Session: "s", Of: bus.TrialEnd, Turn: "t"},
		{Session: "s2", Of: bus.TrialFold},
	}
	want := make(map[bus.TrialKey]bus.Trial)
	check := func() {
		t.Helper()
		for _, key := range keys {
			if got, err := b.Trial(t.Context(), key); err != nil || got != want[key] {
				t.Errorf("%+v: got %+v, %v, want %+v", key, got, err, want[key])
			}
		}
	}
	check()
	for n := range int64(2) {
		for i, key := range keys {
			want[key] = bus.Trial{Count: n + 1, Own: n, Attempt: int64(i), At: events.Millis(1000 + i), Error: string(key.Of)}
			runtest.NoError(t, b.PutTrial(t.Context(), key, want[key]))
		}
		check()
	}
	runtest.EqualLists(t, "dead letters", deadLetters(t, b), nil)
	for range 2 {
		runtest.WantError(t, "drop trial", b.DropTrial(t.Context(), keys[2]), nil)
	}
	delete(want, keys[2])
	check()
	runtest.WantError(t, "drop trials", b.DropTrials(t.Context(), "s"), nil)
	want = map[bus.TrialKey]bus.Trial{keys[5]: want[keys[5]]}
	check()
	for _, key := range []bus.TrialKey{{Session: "*", Of: bus.TrialFold}, {Session: "s", Of: bus.TrialTurn}, {Session: "s", Of: bus.TrialEnd, Turn: ">"}} {
		if err := b.PutTrial(t.Context(), key, bus.Trial{Count: 1}); !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("%+v: got %v, want %v", key, err, events.ErrInvalidID)
		}
	}
}

// TestDeadLettersOfNoStream finds no letters where the stream is missing.
func TestDeadLettersOfNoStream(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), "lash-dead"))
	if list := deadLetters(t, b); len(list) != 0 {
		t.Errorf("letters: got %v", list)
	}
	if trial, err := b.Trial(t.Context(), bus.TrialKey{Session: "s", Of: bus.TrialFold}); err != nil || trial != (bus.Trial{}) {
		t.Errorf("trial: got %+v, %v", trial, err)
	}
	runtest.WantError(t, "drop trial", b.DropTrials(t.Context(), "s"), nil)
}
