package eventstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

var logCases = []struct {
	name string
	run  func(t *testing.T, l *logCase)
}{
	{"create", func(t *testing.T, l *logCase) {
		l.wantCommits(t, 0, l.create(t, 1)...)
	}},
	{"create_twice", func(t *testing.T, l *logCase) {
		first := l.create(t, 1)
		l.conflict(t, l.commit(), 0, 1)
		l.wantCommits(t, 0, first...)
	}},
	{"create_retried", func(t *testing.T, l *logCase) {
		first := l.create(t, 1)
		l.mustAppend(t, first[0], 0, 1)
		l.wantCommits(t, 0, first...)
	}},
	{"append", func(t *testing.T, l *logCase) {
		l.wantCommits(t, 0, l.create(t, 5)...)
	}},
	{"append_stale", func(t *testing.T, l *logCase) {
		list := l.create(t, 4)
		for expected := range events.Seq(4) {
			l.conflict(t, l.commit(), expected, 4)
		}
		l.wantCommits(t, 0, list...)
	}},
	{"append_beyond_the_end", func(t *testing.T, l *logCase) {
		list := l.create(t, 2)
		l.conflict(t, l.commit(), 3, 2)
		l.conflict(t, l.commit(), 1000, 2)
		l.wantCommits(t, 0, list...)
	}},
	{"append_retried", func(t *testing.T, l *logCase) {
		list := l.create(t, 3)
		l.mustAppend(t, list[2], 2, 3)
		l.mustAppend(t, list[1], 1, 2) // others follow it
		l.wantCommits(t, 0, list...)
	}},
	{"append_to_missing", func(t *testing.T, l *logCase) {
		l.refuse(t, l.commit(), 3, events.ErrNoSession)
	}},
	{"read_missing", func(t *testing.T, l *logCase) {
		for _, from := range []events.Seq{0, 1, 9} {
			list, err := collect(l.Read(t.Context(), l.session, from))
			if len(list) != 0 || !errors.Is(err, events.ErrNoSession) {
				t.Fatalf("read from %d: got %d commits, error %v, want %v", from, len(list), err, events.ErrNoSession)
			}
		}
	}},
	{"last", func(t *testing.T, l *logCase) {
		if _, err := l.Last(t.Context(), l.session); !errors.Is(err, events.ErrNoSession) {
			t.Fatalf("last: got %v, want %v", err, events.ErrNoSession)
		}
		for n := range events.Seq(3) {
			l.mustAppend(t, l.commit(), n, n+1)
			if last, err := l.Last(t.Context(), l.session); err != nil || last != n+1 {
				t.Fatalf("last: got %d, %v, want %d", last, err, n+1)
			}
		}
	}},
	{"read_from", func(t *testing.T, l *logCase) {
		list := l.create(t, 6)
		l.wantCommits(t, 0, list...)
		for from := events.Seq(1); from <= 6; from++ {
			l.wantCommits(t, from, list[from-1:]...)
		}
		l.wantCommits(t, 7)
		for _, from := range []events.Seq{8, 1000} {
			if list, err := collect(l.Read(t.Context(), l.session, from)); len(list) > 0 || !errors.Is(err, events.ErrShorter) {
				t.Errorf("read from %d of 6: got %d commits, %v, want %v", from, len(list), err, events.ErrShorter)
			}
		}
	}},
	{"read_stopped_early", func(t *testing.T, l *logCase) {
		list := l.create(t, 4)
		for n := 1; n <= 4; n++ {
			seen := 0
			for _, err := range l.Read(t.Context(), l.session, 1) {
				runtest.NoError(t, err)
				if seen++; seen == n {
					break
				}
			}
			if seen != n {
				t.Fatalf("got %d commits, want %d", seen, n)
			}
		}
		l.wantCommits(t, 0, list...)
	}},
	{"read_ends_at_what_was_last", readWhileAppending},
	{"race_for_one_place", raceForOnePlace},
	{"race", race},
	{"race_of_one_commit", raceOfOneCommit},
	{"largest_commit", func(t *testing.T, l *logCase) {
		c := l.sized(t, events.MaxCommitBytes)
		list := append(l.create(t, 1), c)
		l.mustAppend(t, c, 1, 2)
		l.wantCommits(t, 0, list...)
	}},
	{"commit_too_large", func(t *testing.T, l *logCase) {
		c := l.sized(t, events.MaxCommitBytes)
		c.Events[0].Payload.(*events.SessionClosed).Reason += "x"
		l.create(t, 1)
		l.refuse(t, c, 1, events.ErrTooLarge)
	}},
	{"invalid_commit", func(t *testing.T, l *logCase) {
		l.create(t, 1)
		c := l.commit()
		c.Events = nil
		l.refuse(t, c, 1, events.ErrInvalid)
		l.refuse(t, l.commit(events.Of("", &events.TurnCompleted{End: "nowhere"})), 1, events.ErrInvalid)
		l.refuse(t, l.commit(events.Of("not a token", &events.SessionClosed{})), 1, events.ErrInvalidID)
		c = l.commit()
		c.Session = "not/a.token"
		l.refuse(t, c, 0, events.ErrInvalidID)
	}},
	{"unknown_kind", func(t *testing.T, l *logCase) {
		c := l.commit(Unknown("t1", "later.happened", []byte{0x93, 0x01, 0xcd, 0x00, 0x02, 0xc0}), events.Of("", &events.SessionClosed{}))
		l.mustAppend(t, c, 0, 1)
		l.wantCommits(t, 0, c)
	}},
	{"sessions_apart", func(t *testing.T, l *logCase) {
		other := &logCase{Log: l.Log, session: l.session + "-b"}
		mine := l.create(t, 3)
		theirs := other.create(t, 2)
		l.wantCommits(t, 0, mine...)
		other.wantCommits(t, 0, theirs...)
		third := &logCase{Log: l.Log, session: l.session + "-c"}
		third.refuse(t, third.commit(), 3, events.ErrNoSession)
	}},
	{"copies", func(t *testing.T, l *logCase) {
		c := l.commit(events.Of("", &events.SessionOpened{Labels: map[string]string{"a": "b"}}))
		want := *c
		want.Events = []events.Event{events.Of("", &events.SessionOpened{Labels: map[string]string{"a": "b"}})}
		l.mustAppend(t, c, 0, 1)
		spoil(c)
		l.wantCommits(t, 0, &want)
		spoil(l.read(t, 0)[0].Commit)
		l.wantCommits(t, 0, &want)
	}},
	{"cancelled", afterCancel},
}

func spoil(c *events.Commit) {
	c.ID, c.Events[0].Turn = "spoiled", "spoiled"
	c.Events[0].Payload.(*events.SessionOpened).Labels["a"] = "spoiled"
}

// sized makes a commit of exactly size encoded bytes.
func (l *logCase) sized(t *testing.T, size int) *events.Commit {
	t.Helper()
	var batch []events.Event
	for range 4 {
		batch = append(batch, events.Of("", &events.SessionClosed{Reason: strings.Repeat("r", events.MaxEventBytes*3/4)}))
	}
	c := l.commit(batch...)
	data, err := events.Encode(c)
	runtest.NoError(t, err)
	for left := size - len(data); left > 0; {
		for i := range batch {
			more := min(left, events.MaxEventBytes/5)
			batch[i].Payload.(*events.SessionClosed).Reason += strings.Repeat("s", more)
			left -= more
		}
	}
	if data, err = events.Encode(c); err != nil || len(data) != size {
		t.Fatalf("encode: got %d bytes, error %v, want %d", len(data), err, size)
	}
	return c
}

func readWhileAppending(t *testing.T, l *logCase) {
	list := l.create(t, 3)
	seen := 0
	for _, err := range l.Read(t.Context(), l.session, 0) {
		runtest.NoError(t, err)
		seen++
		c := l.commit()
		list = append(list, c)
		l.mustAppend(t, c, events.Seq(len(list)-1), events.Seq(len(list)))
	}
	if seen != 3 {
		t.Fatalf("got %d commits, want the 3 that were there when it began", seen)
	}
	l.wantCommits(t, 0, list...)
}

func raceForOnePlace(t *testing.T, l *logCase) {
	list := l.create(t, 1)
	const racers = 16
	commits, errs := make([]*events.Commit, racers), make([]error, racers)
	for i := range commits {
		commits[i] = l.commit()
	}
	each(racers, func(i int) { _, errs[i] = l.Append(t.Context(), commits[i], 1) })
	var won []*events.Commit
	for i, err := range errs {
		if err == nil {
			won = append(won, commits[i])
		} else if c, ok := errors.AsType[*events.ConflictError](err); !ok || c.Expected != 1 || c.Session != l.session {
			t.Fatalf("append: got %v, want a conflict at 1", err)
		}
	}
	if len(won) != 1 {
		t.Fatalf("got %d winners, want 1", len(won))
	}
	l.wantCommits(t, 0, append(list, won...)...)
}

// race lets goroutines append concurrently and checks that each commit is once in the history, at its returned
// sequence.
func race(t *testing.T, l *logCase) {
	const racers, rounds = 8, 6
	l.create(t, 1)
	placed := make([]map[events.Seq]events.CommitID, racers)
	errs := make([]error, racers)
	each(racers, func(i int) {
		placed[i] = make(map[events.Seq]events.CommitID)
		for range rounds {
			c := l.commit()
			seq, err := l.appendAtEnd(t, c)
			if err != nil {
				errs[i] = err
				return
			}
			placed[i][seq] = c.ID
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	list := l.read(t, 2)
	if len(list) != racers*rounds {
		t.Fatalf("got %d commits, want %d", len(list), racers*rounds)
	}
	at := make(map[events.Seq]events.CommitID)
	for _, entry := range list {
		at[entry.Seq] = entry.Commit.ID
	}
	for i := range placed {
		for seq, id := range placed[i] {
			if at[seq] != id {
				t.Fatalf("at %d: got commit %s, want %s", seq, at[seq], id)
			}
		}
	}
}

// appendAtEnd appends c at the current end of the history, which other goroutines move.
func (l *logCase) appendAtEnd(t *testing.T, c *events.Commit) (events.Seq, error) {
	for {
		last, err := l.Last(t.Context(), l.session)
		if err != nil {
			return 0, err
		}
		seq, err := l.Append(t.Context(), c, last)
		if _, moved := errors.AsType[*events.ConflictError](err); moved {
			continue
		}
		if err == nil && seq != last+1 {
			err = fmt.Errorf("got sequence %d, want %d", seq, last+1)
		}
		return seq, err
	}
}

func raceOfOneCommit(t *testing.T, l *logCase) {
	list := append(l.create(t, 1), l.commit())
	errs := make([]error, 8)
	each(len(errs), func(i int) {
		seq, err := l.Append(t.Context(), list[1], 1)
		if err == nil && seq != 2 {
			err = fmt.Errorf("got sequence %d, want 2", seq)
		}
		errs[i] = err
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	l.wantCommits(t, 0, list...)
}

func afterCancel(t *testing.T, l *logCase) {
	list := l.create(t, 3)
	ctx := cancelled(t)
	c := l.commit()
	if _, err := l.Append(ctx, c, 3); !errors.Is(err, context.Canceled) {
		t.Fatalf("append: got %v, want %v", err, context.Canceled)
	} else if !errors.Is(err, events.ErrOutcomeUnknown) {
		l.wantCommits(t, 0, list...)
	}
	l.mustAppend(t, c, 3, 4) // the same append resolves a known or unknown outcome
	list = append(list, c)
	l.wantCommits(t, 0, list...)

	if _, err := l.Last(ctx, l.session); !errors.Is(err, context.Canceled) {
		t.Fatalf("last: got %v, want %v", err, context.Canceled)
	}
	if _, err := collect(l.Read(ctx, l.session, 0)); !errors.Is(err, context.Canceled) {
		t.Fatalf("read: got %v, want %v", err, context.Canceled)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	for _, err := range l.Read(ctx, l.session, 0) {
		if cancel(); err == nil {
			seen++
		} else if !errors.Is(err, context.Canceled) {
			t.Fatalf("read: got %v, want %v", err, context.Canceled)
		} else {
			return
		}
	}
	if seen != len(list) {
		t.Fatalf("a cancelled read ended without an error after %d of %d commits", seen, len(list))
	}
}
