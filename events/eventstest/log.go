package eventstest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestLog checks that a log keeps the promises of [events.Log]. open returns a log; it may return the same log each
// time, because every case has its own session. Cases run in parallel and wait as long as the log needs.
func TestLog(t *testing.T, open func(t *testing.T) events.Log) {
	for _, c := range logCases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sum := sha256.Sum256([]byte(t.Name()))
			c.run(t, &logCase{Log: open(t), session: events.SessionID(hex.EncodeToString(sum[:8]))})
		})
	}
}

// logCase is a log with a session for one case.
type logCase struct {
	events.Log
	session events.SessionID

	mu sync.Mutex
	n  int
}

// commit makes a unique commit.
func (l *logCase) commit(batch ...events.Event) *events.Commit {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	if len(batch) == 0 {
		batch = []events.Event{events.Of("", &events.SessionClosed{Reason: fmt.Sprintf("number %d", l.n)})}
	}
	return &events.Commit{
		ID: events.CommitID(fmt.Sprintf("%s-%d", l.session, l.n)), Session: l.session, At: events.Millis(l.n),
		Actor: events.Actor{Kind: events.ActorNode, ID: "test"}, Cause: "case", Events: batch,
	}
}

// create appends to a new history until its last sequence is n.
func (l *logCase) create(t *testing.T, n events.Seq) []*events.Commit {
	t.Helper()
	var list []*events.Commit
	for last := range n {
		c := l.commit()
		l.mustAppend(t, c, last, last+1)
		list = append(list, c)
	}
	return list
}

func (l *logCase) mustAppend(t *testing.T, c *events.Commit, at events.Seq, want events.Seq) {
	t.Helper()
	got, err := l.Append(t.Context(), c, at)
	if err != nil || got != want {
		t.Fatalf("append: got sequence %d, error %v, want %d", got, err, want)
	}
}

// refuse checks that an append fails with an error and writes nothing.
func (l *logCase) refuse(t *testing.T, c *events.Commit, at events.Seq, want error) {
	t.Helper()
	if err := l.refused(t, c, at); !errors.Is(err, want) {
		t.Fatalf("append: got error %v, want %v", err, want)
	}
}

// refused checks that an append fails with an error, which it returns, and writes nothing.
func (l *logCase) refused(t *testing.T, c *events.Commit, at events.Seq) error {
	t.Helper()
	before, beforeErr := l.Last(t.Context(), l.session)
	got, err := l.Append(t.Context(), c, at)
	if err == nil {
		t.Fatalf("append: got sequence %d, want an error", got)
	}
	after, afterErr := l.Last(t.Context(), l.session)
	if before != after || errors.Is(beforeErr, events.ErrNoSession) != errors.Is(afterErr, events.ErrNoSession) {
		t.Fatalf("a refused append changed the last sequence: got %d, %v, want %d, %v", after, afterErr, before, beforeErr)
	}
	return err
}

// conflict checks that an append fails with a complete ConflictError and writes nothing.
func (l *logCase) conflict(t *testing.T, c *events.Commit, expected, last events.Seq) {
	t.Helper()
	err := l.refused(t, c, expected)
	got, ok := errors.AsType[*events.ConflictError](err)
	if !ok {
		t.Fatalf("append: got error %v, want a conflict", err)
	}
	want := events.ConflictError{Session: l.session, Expected: expected, Last: last}
	if *got != want {
		t.Fatalf("conflict: got %+v, want %+v", *got, want)
	}
}

// read reads everything from sequence from on and checks order, gaps and content.
func (l *logCase) read(t *testing.T, from events.Seq) []events.Entry {
	t.Helper()
	list, err := collect(l.Read(t.Context(), l.session, from))
	if err != nil {
		t.Fatalf("read from %d: %v", from, err)
	}
	for i, entry := range list {
		if want := max(from, 1) + events.Seq(i); entry.Seq != want {
			t.Fatalf("read from %d: got sequence %d, want %d", from, entry.Seq, want)
		}
		if data, err := events.Encode(entry.Commit); err != nil || !slices.Equal(entry.Data, data) {
			t.Fatalf("data at %d: got %x, want %x (%v)", entry.Seq, entry.Data, data, err)
		}
	}
	return list
}

// wantCommits checks the commits of the history from sequence from on.
func (l *logCase) wantCommits(t *testing.T, from events.Seq, want ...*events.Commit) {
	t.Helper()
	list := l.read(t, from)
	if len(list) != len(want) {
		t.Fatalf("read from %d: got %d commits, want %d", from, len(list), len(want))
	}
	for i, entry := range list {
		if !reflect.DeepEqual(entry.Commit, want[i]) {
			t.Fatalf("at %d: got %+v, want %+v", entry.Seq, entry.Commit, want[i])
		}
	}
}

func collect(entries func(func(events.Entry, error) bool)) ([]events.Entry, error) {
	var list []events.Entry
	for entry, err := range entries {
		if err != nil {
			return list, err
		}
		list = append(list, entry)
	}
	return list, nil
}

// each runs do in n goroutines and waits for them.
func each(n int, do func(i int)) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			do(i)
		})
	}
	close(start)
	group.Wait()
}

func cancelled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
