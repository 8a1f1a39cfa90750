package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
)

// commit makes a commit of one event; the same number gives the same commit.
func commit(session events.SessionID, n int) *events.Commit {
	return &events.Commit{
		ID: events.CommitID(fmt.Sprintf("%s-%d", session, n)), Session: session, At: events.Millis(n),
		Actor: events.Actor{Kind: events.ActorSystem}, Events: []events.Event{events.Of("", &events.SessionClosed{Reason: fmt.Sprint(n)})},
	}
}

// grow appends commits until the history has n.
func grow(t *testing.T, log events.Log, session events.SessionID, n int) {
	t.Helper()
	for i := range n {
		_, err := log.Append(t.Context(), commit(session, i+1), events.Seq(i))
		runtest.NoError(t, err)
	}
}

func TestLog(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	eventstest.TestLog(t, func(*testing.T) events.Log { return b.Log() })
}

func TestLogOfThreeServers(t *testing.T) {
	t.Parallel()
	b := bustest.StartCluster(t).Open(t)
	eventstest.TestLog(t, func(*testing.T) events.Log { return b.Log() })
}

func TestFaultyLog(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed_%d", seed), func(t *testing.T) {
			t.Parallel()
			eventstest.TestLog(t, func(t *testing.T) events.Log {
				l := eventstest.NewFaultyLog(b.Log(), eventstest.FaultOptions{Seed: seed, Rate: 0.3})
				t.Cleanup(func() {
					if t.Failed() {
						t.Logf("faults: %v", l.Trace())
					}
				})
				return l
			})
		})
	}
}

// TestReadLong reads histories around the length of one batch.
func TestReadLong(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	const n = 1100 // more than two batches
	grow(t, b.Log(), "long", n)
	for _, from := range []events.Seq{0, 2, 75, 76, 77, 587, 588, 589, 590, 1099, 1100, 1101} {
		next := max(from, 1)
		for entry, err := range b.Log().Read(t.Context(), "long", from) {
			if err != nil {
				t.Fatalf("read from %d: %v", from, err)
			}
			if want := commit("long", int(next)).ID; entry.Seq != next || entry.Commit.ID != want {
				t.Fatalf("read from %d: got %s at %d, want %s at %d", from, entry.Commit.ID, entry.Seq, want, next)
			}
			next++
		}
		if next != max(n+1, from) {
			t.Errorf("read from %d: ended before %d, want %d", from, next, n+1)
		}
	}
}

// TestReadBig reads a history larger than the bytes of one batch; one commit nearly fills a batch.
func TestReadBig(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	const n = 16
	for seq := range n {
		c := commit("big", seq+1)
		for range 4 {
			c.Events = append(c.Events, events.Of("", &events.SessionClosed{Reason: strings.Repeat("x", 200<<10)}))
		}
		_, err := b.Log().Append(t.Context(), c, events.Seq(seq))
		runtest.NoError(t, err)
	}
	next := events.Seq(1)
	for entry, err := range b.Log().Read(t.Context(), "big", 1) {
		if err != nil || entry.Seq != next || entry.Commit.ID != commit("big", int(next)).ID || len(entry.Data) < 800<<10 {
			t.Fatalf("at %d: got %d, %v, want it whole", next, entry.Seq, err)
		}
		next++
	}
	if next != n+1 {
		t.Errorf("read to %d, want %d", next-1, n)
	}
}

// TestNext reads single commits; there is none before the first, after the last, and of a session that does not
// exist.
func TestNext(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	log := b.Log()
	grow(t, log, "s", 3)
	for seq := range events.Seq(5) {
		entry, err := log.CommitInFirstStream(t.Context(), "s", seq)
		switch {
		case seq == 0 || seq == 4:
			if !errors.Is(err, bus.ErrNotFound) {
				t.Errorf("sequence %d: got %v, %v, want ErrNotFound", seq, entry.Commit, err)
			}
		case err != nil || entry.Seq != seq || entry.Commit.ID != commit("s", int(seq)).ID:
			t.Errorf("sequence %d: got %+v, %v", seq, entry, err)
		}
	}
	if entry, err := log.CommitInFirstStream(t.Context(), "none", 1); err == nil {
		t.Errorf("a session that does not exist: got %+v", entry)
	}
}

// TestReadHole reads a stream that has lost a commit, in the middle or at the end: the reader returns an error and
// does not wait for ever.
func TestReadHole(t *testing.T) {
	t.Parallel()
	for _, lost := range []uint64{2, 3} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			t.Parallel()
			b := bustest.Start(t)
			stream, err := jetStream(t, b).CreateStream(t.Context(), jetstream.StreamConfig{
				Name: "lash-s-s", Subjects: []string{"lash.s.s.>"}, AllowDirect: true,
			})
			runtest.NoError(t, err)
			grow(t, b.Log(), "s", 3)
			if err := stream.SecureDeleteMsg(t.Context(), lost); err != nil { // simulates a block that a disk lost
				t.Fatal(err)
			}
			got, err := commitsOf(t, b, "s", 1)
			if len(got) != int(lost)-1 || !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), fmt.Sprintf("sequence %d is missing", lost)) {
				t.Errorf("got %v and %v, want that sequence %d is missing after those before it", got, err, lost)
			}
		})
	}
}

// TestReadOfLeaderThatIsBehind reads to a commit that one leader has counted, where the one that answers has fewer, as after a partition: no
// history is damaged by that, and the reader has what is there.
func TestReadOfLeaderThatIsBehind(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b.Log(), "s", 3)
	next := events.Seq(1)
	for e, err := range b.Log().ReadCounted(t.Context(), "s", 4) {
		if err != nil || e.Seq != next {
			t.Fatalf("at %d: got %d, %v", next, e.Seq, err)
		}
		next++
	}
	if next != 4 {
		t.Errorf("read to %d, want 3", next-1)
	}
}

// TestReadStopsAtOnce ends the context of a read at its first commit. The read ends with that, after the batch that it has at most.
func TestReadStopsAtOnce(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	const n, batch = 1100, 512
	grow(t, b.Log(), "s", n)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, last := 0, error(nil)
	for _, err := range b.Log().Read(ctx, "s", 1) {
		cancel()
		if last = err; err == nil {
			got++
		}
	}
	if got < 1 || got > batch || !errors.Is(last, context.Canceled) {
		t.Errorf("got %d commits of %d and %v, want at most %d and %v", got, n, last, batch, context.Canceled)
	}
}

// TestEmptyStream: a stream whose creator died before its first commit is no session.
func TestEmptyStream(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	js := jetStream(t, b)
	cfg := jetstream.StreamConfig{Name: "lash-s-half", Subjects: []string{"lash.s.half.>"}}
	_, err := js.CreateStream(t.Context(), cfg)
	runtest.NoError(t, err)
	_, err = b.Log().Last(t.Context(), "half")
	runtest.WantError(t, "last", err, events.ErrNoSession)
	runtest.WantError(t, "read", readError(t, b, "half", 1), events.ErrNoSession)
}

func TestConflictsAreCounted(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b.Log(), "s", 2)
	_, err := b.Log().Append(t.Context(), commit("s", 9), 1)
	if _, ok := errors.AsType[*events.ConflictError](err); !ok || b.Conflicts() != 1 {
		t.Errorf("got %v and %d conflicts, want a conflict and 1", err, b.Conflicts())
	}
}

func TestSessionsAreListed(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	want := map[events.SessionID]events.Seq{"a": 1, "b": 2, "c-s-d": 3}
	for id, n := range want {
		grow(t, b.Log(), id, int(n))
	}
	runtest.NoError(t, makeCold(t.Context(), b, "a", 1))
	names := 0
	for id, err := range b.Sessions(t.Context()) {
		if err != nil || want[id] == 0 {
			t.Errorf("sessions: got %s, %v, want one of %v", id, err, want)
		}
		names++
	}
	lasts := 0
	for hot, err := range b.Hot(t.Context()) {
		if err != nil || hot.Last != want[hot.ID] || hot.Sealed {
			t.Errorf("hot session: got %+v, %v, want last %d", hot, err, want[hot.ID])
		}
		lasts++
	}
	if names != len(want) || lasts != len(want)-1 {
		t.Errorf("got %d sessions and %d hot ones, want %d, one of them cold", names, lasts, len(want))
	}
}

func jetStream(t *testing.T, b *bus.Bus) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	return js
}

// TestReadWithoutDirect reads a session whose stream was edited: the error says what is wrong with it.
func TestReadWithoutDirect(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	appendUpTo(t, b, "s", nil, 3)
	stream, err := jetStream(t, b).Stream(t.Context(), "lash-s-s")
	runtest.NoError(t, err)
	cfg := stream.CachedInfo().Config
	cfg.AllowDirect = false
	_, err = jetStream(t, b).UpdateStream(t.Context(), cfg)
	runtest.NoError(t, err)
	for _, err := range b.Log().Read(t.Context(), "s", 1) {
		if !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), "--allow-direct") {
			t.Errorf("got %v, want that direct reads are not allowed", err)
		}
	}
}
