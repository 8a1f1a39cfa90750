package bus_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLongReadsOverRestoredStore puts an earlier copy of a store back while reads are in the middle of histories. No read yields commits of two
// histories.
func TestLongReadsOverRestoredStore(t *testing.T) {
	t.Parallel()
	const kept = 3
	type reading struct {
		lost, fresh int
		held        events.Seq // the last sequence that was read before the restore
		want        string     // ids after that
		err         error

		id   events.SessionID
		next func() (events.Entry, error, bool)
		stop func()
	}
	list := []*reading{
		{lost: 4, fresh: 0, held: 5, err: events.ErrShorter},
		{lost: 4, fresh: 1, held: 5, err: events.ErrShorter},
		{lost: 4, fresh: 2, held: 5, err: events.ErrShorter},
		{lost: 4, fresh: 9, held: 5, err: events.ErrShorter},
		{lost: 200, fresh: 300, held: 70, err: events.ErrShorter},
		{lost: 4, fresh: 0, held: 3},
		{lost: 4, fresh: 9, held: 3, want: "new-4 new-5 new-6 new-7"},
		{lost: 4, fresh: 1, held: 2, want: "kept-3 new-4"},
	}
	store := bustest.StartStore(t)
	b, other := store.Open(), store.Open()
	for i, r := range list {
		r.id = events.SessionID(fmt.Sprint("s", i))
		bustest.Write(t, b, r.id, 0, kept, "kept")
	}
	store.Save(b, other)
	for _, r := range list {
		bustest.Write(t, b, r.id, kept, r.lost, "lost")
		r.next, r.stop = iter.Pull2(b.Log().Read(t.Context(), r.id, 1))
		defer r.stop()
		for {
			e, err, ok := r.next()
			if err != nil || !ok {
				t.Fatalf("%s: got %v before the restore", r.id, err)
			}
			if e.Seq == r.held {
				break
			}
		}
	}
	store.Restore(b, other)
	for _, r := range list {
		bustest.Write(t, other, r.id, kept, r.fresh, "new")
		var got []string
		var end error
		for {
			e, err, ok := r.next()
			if end = err; !ok || err != nil {
				break
			}
			got = append(got, string(e.Commit.ID))
		}
		if strings.Join(got, " ") != r.want || !errors.Is(end, r.err) {
			t.Errorf("%d commits were lost and %d appended, read to %d: got %v, %v, want %q, %v", r.lost, r.fresh, r.held, got, end, r.want, r.err)
		}
	}
}

// TestLongReadOfShorterHistory puts an earlier copy of a store back between the answer about a session's end and the read of its last commit. The
// read ends as one of a history that is shorter, and not as one of a damaged history.
func TestLongReadOfShorterHistory(t *testing.T) {
	t.Parallel()
	store := bustest.StartStore(t)
	other := store.Open()
	bustest.Write(t, other, "s", 0, 3, "kept")
	store.Save(other)
	bustest.Write(t, other, "s", 3, 4, "lost")
	var left atomic.Int64
	var b *bus.Bus
	b = store.OpenWith(bus.Config{Pending: func() func() {
		if left.Add(-1) == 0 {
			store.Restore(b, other)
		}
		return func() {}
	}})
	left.Store(2)
	for e, err := range b.Log().Read(t.Context(), "s", 7) {
		if !errors.Is(err, events.ErrShorter) {
			t.Errorf("got commit %d, %v, want %v", e.Seq, err, events.ErrShorter)
		}
	}
	if left.Load() > 0 {
		t.Error("the read made one request only")
	}
}

// reconnect makes a connection again.
func reconnect(t *testing.T, b *bus.Bus) {
	t.Helper()
	before := b.Reconnects()
	runtest.WantError(t, "force reconnect", b.Conn().ForceReconnect(), nil)
	bustest.Eventually(t, "the bus is connected again", func() bool { return b.Reconnects() > before && b.Conn().IsConnected() })
}

// TestLocatedBeforeReconnect breaks the connection between the answer about a session's place and its use. The place is asked for once more.
func TestLocatedBeforeReconnect(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	bustest.Write(t, bustest.Open(t, server), "s", 0, 3, "c")
	var b *bus.Bus
	var err error
	var breaks atomic.Bool
	var requests atomic.Int64
	b, err = bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{Options: []nats.Option{server.InProcess()}, Pending: func() func() {
		requests.Add(1)
		return func() {
			if breaks.CompareAndSwap(true, false) {
				reconnect(t, b)
			}
		}
	}}))
	runtest.NoError(t, err)
	defer b.Close()
	look := func() int64 {
		t.Helper()
		before := requests.Load()
		if last, err := b.Log().Last(t.Context(), "s"); err != nil || last != 3 {
			t.Fatalf("got the end at %d, %v, want 3", last, err)
		}
		return requests.Load() - before
	}
	if got := look(); got != 1 {
		t.Fatalf("got %d requests, want 1", got)
	}
	breaks.Store(true)
	if got := look(); got != 2 {
		t.Errorf("the connection broke: got %d requests, want 2", got)
	}
	if got := b.Log().Incarnation("s"); got == "" {
		t.Error("the incarnation is not known after that")
	}
}

// TestCommitsOfBeforeReconnect holds a handler while the connection is made again. What waited for it is early; later commits are not.
func TestCommitsOfBeforeReconnect(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	received, resume := make(chan bus.LiveMessage, 8), make(chan struct{})
	stop, err := b.OnCommit("s", func(m bus.LiveMessage) {
		received <- m
		<-resume
	})
	runtest.NoError(t, err)
	defer stop()
	before := b.Conn().Stats().InMsgs
	bustest.Write(t, b, "s", 0, 3, "c")
	bustest.Receive(t, "the first commit", received)
	bustest.Eventually(t, "the others wait", func() bool { return b.Conn().Stats().InMsgs >= before+6 }) // and three acks
	reconnect(t, b)
	close(resume)
	var early []events.Seq
	take := func(upto events.Seq) {
		t.Helper()
		for {
			m := bustest.Receive(t, "a commit", received)
			if m.Early {
				early = append(early, m.Seq)
			}
			if m.Seq == upto {
				return
			}
		}
	}
	take(3)
	bustest.Write(t, b, "s", 3, 2, "c")
	take(5)
	if want := []events.Seq{2, 3}; !slices.Equal(early, want) {
		t.Errorf("got early commits at %v, want %v", early, want)
	}
}

// TestReadOverSecondConnection replaces a history under a large read, and makes the connection of that read again, but not the primary one. The
// read ends: its connection may be to servers with the other history.
func TestReadOverSecondConnection(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, conns := openLimited(t, server, 3)
	bustest.Write(t, b, "s", 0, 100, "old")
	next, stop := iter.Pull2(b.Log().Read(t.Context(), "s", 1))
	defer stop()
	read := func(n int) (err error) {
		for range n {
			if _, err, _ = next(); err != nil {
				break
			}
		}
		return err
	}
	runtest.NoError(t, read(70))
	if n, _ := conns.count(); n != 2 {
		t.Fatalf("got %d connections, want 2", n)
	}
	js, err := jetstream.New(b.Conn())
	if err == nil {
		err = js.DeleteStream(t.Context(), "lash-s-s")
	}
	runtest.NoError(t, err)
	bustest.Write(t, bustest.Open(t, server), "s", 0, 80, "new")
	conns.cut(1)
	bustest.Eventually(t, "the second connection is made again", func() bool { n, _ := conns.count(); return n == 3 })
	bustest.Eventually(t, "the read notices", func() bool { return b.SecondaryIsConnected() })
	runtest.WantError(t, "read to 20", read(20), events.ErrShorter)
}
