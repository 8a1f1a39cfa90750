package bus_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
)

// history is a session's history as texts, with their sequences.
func history(t *testing.T, b *bus.Bus, id events.SessionID, from events.Seq) []string {
	t.Helper()
	list, err := commitsOf(t, b, id, from)
	runtest.NoError(t, err)
	return list
}

// commitsOf reads a history from a sequence on: its commits, and the error that ended the read.
func commitsOf(t *testing.T, b *bus.Bus, id events.SessionID, from events.Seq) (list []string, err error) {
	t.Helper()
	for entry, err := range b.Log().Read(t.Context(), id, from) {
		if err != nil {
			return list, err
		}
		list = append(list, fmt.Sprintf("%d:%s", entry.Seq, entry.Commit.ID))
	}
	return list, nil
}

// readError is the error of a read that yields no commit; nil where it yields one, or ends without an error.
func readError(t *testing.T, b *bus.Bus, id events.SessionID, from events.Seq) error {
	t.Helper()
	list, err := commitsOf(t, b, id, from)
	if len(list) > 0 {
		t.Errorf("read of %s: got %v before %v, want no commit", id, list, err)
	}
	return err
}

// appendUpTo appends commits until the session has `last`, and returns the expected history.
func appendUpTo(t *testing.T, b *bus.Bus, id events.SessionID, want []string, last int) []string {
	t.Helper()
	for n := len(want); n < last; n++ {
		c := commit(id, n+1)
		seq, err := b.Log().Append(t.Context(), c, events.Seq(n))
		if err != nil || seq != events.Seq(n+1) {
			t.Fatalf("append %d: got %d, %v", n+1, seq, err)
		}
		want = append(want, fmt.Sprintf("%d:%s", seq, c.ID))
	}
	return want
}

func makeCold(ctx context.Context, b *bus.Bus, id events.SessionID, at events.Seq) error {
	err := b.Archive(ctx, id, at)
	if err == nil {
		err = b.Discard(ctx, id)
	}
	return err
}

func streams(t *testing.T, b *bus.Bus) (list []string) {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	names := js.StreamNames(t.Context())
	for name := range names.Name() {
		if strings.HasPrefix(name, "lash-s-") {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// TestArchive archives a session several times and makes it hot again: every reader sees the same history.
func TestArchive(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var want []string
	for life, last := range []int{3, 4, 700, 1500} {
		want = appendUpTo(t, b, "s", want, last)
		if err := b.Archive(t.Context(), "s", events.Seq(last-1)); !errors.As(err, new(*events.ConflictError)) {
			t.Errorf("archive of a session that moved: got %v, want a conflict", err)
		}
		runtest.NoError(t, makeCold(t.Context(), b, "s", events.Seq(last)))
		runtest.EqualLists(t, "streams when it is cold", streams(t, b), nil)
		for _, from := range []int{0, 2, last - 1, last, last + 1} {
			if got := history(t, b, "s", events.Seq(from)); !slices.Equal(got, want[min(max(from-1, 0), last):]) {
				t.Errorf("life %d, history from %d: got %d commits, want %d", life, from, len(got), len(want[max(from-1, 0):]))
			}
		}
		if got, err := b.Log().Last(t.Context(), "s"); err != nil || got != events.Seq(last) {
			t.Errorf("last: got %d, %v, want %d", got, err, last)
		}
	}
	want = appendUpTo(t, b, "s", want, 1502)
	if got := streams(t, b); len(got) != 1 || !strings.HasPrefix(got[0], "lash-s-s@") {
		t.Errorf("streams when it is hot again: got %v, want one of a name of its own", got)
	}
	if got := history(t, b, "s", 0); !slices.Equal(got, want) {
		t.Errorf("history: got %d commits, want %d", len(got), len(want))
	}
}

// TestLongArchiveKilled kills an archiver before each of its requests. Then a reader, an appender, a creator
// and another archiver find the whole history.
func TestLongArchiveKilled(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for name, next := range map[string]func(*testing.T, events.SessionID, []string){
		"reader":   func(*testing.T, events.SessionID, []string) {},
		"appender": func(t *testing.T, id events.SessionID, want []string) { appendUpTo(t, b, id, want, 7) },
		"archiver": func(t *testing.T, id events.SessionID, _ []string) {
			runtest.WantError(t, "make cold", makeCold(t.Context(), b, id, 5), nil)
		},
		"creator": func(t *testing.T, id events.SessionID, _ []string) {
			if _, err := b.Log().Append(t.Context(), commit(id, 99), 0); !errors.As(err, new(*events.ConflictError)) {
				t.Errorf("create: got %v, want a conflict", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k := 1; ; k++ {
				id := events.SessionID(fmt.Sprintf("%s-%d", name, k))
				want := appendUpTo(t, b, id, nil, 5)
				done := bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error {
					return makeCold(ctx, victim, id, 5)
				})
				next(t, id, want)
				got := history(t, b, id, 0)
				if !slices.Equal(got[:5], want) {
					t.Errorf("killed at request %d: got %v, want %v", k, got, want)
				}
				want = appendUpTo(t, b, id, got, 9)
				runtest.EqualLists(t, fmt.Sprintf("killed at request %d, history later", k), history(t, b, id, 0), want)
				if done {
					if k < 6 {
						t.Errorf("an archiver made %d requests, want more", k-1)
					}
					return
				}
			}
		})
	}
}

// archivingLog is a log that archives its sessions all the time.
type archivingLog struct {
	bus.Log
	b    *bus.Bus
	mu   sync.Mutex
	seen map[events.SessionID]bool
	cold *atomic.Int64 // how many times a session became cold

	operations int
}

func (l *archivingLog) Append(ctx context.Context, c *events.Commit, at events.Seq) (events.Seq, error) {
	l.archive(c.Session)
	return l.Log.Append(ctx, c, at)
}

func (l *archivingLog) Read(ctx context.Context, id events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	l.archive(id)
	return l.Log.Read(ctx, id, from)
}

// archive runs concurrently with the operation, every fourth time before it.
func (l *archivingLog) archive(id events.SessionID) {
	l.mu.Lock()
	busy := l.seen[id]
	l.seen[id] = true
	l.operations++
	first := l.operations%4 == 0
	l.mu.Unlock()
	if busy {
		return
	}
	archive := func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if last, err := l.b.Log().Last(ctx, id); err == nil {
			if makeCold(ctx, l.b, id, last) == nil {
				l.cold.Add(1)
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.seen[id] = false
	}
	if first {
		archive()
	} else {
		go archive()
	}
}

// TestLogOfColdSessions runs the conformance suite of logs while the sessions are being archived.
func TestLogOfColdSessions(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var cold atomic.Int64
	t.Run("log", func(t *testing.T) {
		eventstest.TestLog(t, func(*testing.T) events.Log {
			return &archivingLog{Log: b.Log(), b: b, seen: make(map[events.SessionID]bool), cold: &cold}
		})
	})
	if cold.Load() < 5 {
		t.Errorf("sessions went cold %d times, want more", cold.Load())
	}
}
