package bus_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

func deadLetters(t *testing.T, b *bus.Bus) (list []events.SessionID) {
	t.Helper()
	for letter, err := range b.DeadLetters(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
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
		if err := b.PutDeadLetter(t.Context(), &letters[i]); err != nil {
			t.Fatal(err)
		}
		letter, err := b.DeadLetter(t.Context(), letters[i].Session)
		want := letters[i]
		if want.Seq = letter.Seq; err != nil || letter != want || letter.Seq == 0 {
			t.Errorf("got %+v, %v, want %+v", letter, err, want)
		}
		got = append(got, letter)
	}
	if err := b.DropDeadLetter(t.Context(), &got[0]); err != nil {
		t.Error(err)
	}
	if list := deadLetters(t, b); !slices.Equal(list, []events.SessionID{"s1", "s2"}) {
		t.Errorf("after the replaced one was dropped: got %v, want both", list)
	}
	for range 2 {
		if err := b.DropDeadLetter(t.Context(), &got[1]); err != nil {
			t.Error(err)
		}
	}
	if list := deadLetters(t, b); !slices.Equal(list, []events.SessionID{"s2"}) {
		t.Errorf("after the newer one was dropped: got %v, want s2", list)
	}
	if _, err := b.DeadLetter(t.Context(), "s1"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("dropped: got %v, want %v", err, bus.ErrNotFound)
	}
	if _, err := b.DeadLetter(t.Context(), "*"); !errors.Is(err, events.ErrInvalidID) {
		t.Errorf("a wildcard: got %v, want %v", err, events.ErrInvalidID)
	}
}

// TestTrial: every worker reads a trial until it is dropped, and it is not listed as a dead letter.
func TestTrial(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	check := func(want bus.Trial) {
		t.Helper()
		if got, err := b.Trial(t.Context(), "s"); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	check(bus.Trial{})
	for _, trial := range []bus.Trial{{Count: 1, Seq: 7, At: 1000}, {Count: 2, Seq: 7, At: 2000, Folded: true, Error: "why"}} {
		if err := b.PutTrial(t.Context(), "s", trial); err != nil {
			t.Fatal(err)
		}
		check(trial)
	}
	if list := deadLetters(t, b); len(list) != 0 {
		t.Errorf("dead letters: got %v, want none", list)
	}
	for range 2 {
		if err := b.DropTrial(t.Context(), "s"); err != nil {
			t.Error(err)
		}
	}
	check(bus.Trial{})
}

// TestDeadLettersOfNoStream finds no letters where the stream is missing.
func TestDeadLettersOfNoStream(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	if err := jetStream(t, b).DeleteStream(t.Context(), "lash-dead"); err != nil {
		t.Fatal(err)
	}
	if list := deadLetters(t, b); len(list) != 0 {
		t.Errorf("letters: got %v", list)
	}
	if trial, err := b.Trial(t.Context(), "s"); err != nil || trial != (bus.Trial{}) {
		t.Errorf("trial: got %+v, %v", trial, err)
	}
	if err := b.DropTrial(t.Context(), "s"); err != nil {
		t.Errorf("drop trial: got %v", err)
	}
}
