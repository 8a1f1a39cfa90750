package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

func erase(ctx context.Context, b *bus.Bus, id events.SessionID) error {
	_, err := b.PutTombstone(ctx, id, nil, bus.Tombstone{At: 1000, By: "tester", Reason: "asked to"}, nil)
	if err == nil {
		err = b.Purge(ctx, id)
	}
	return err
}

// isErased requires that every operation on a session returns its erasure.
func isErased(t *testing.T, b *bus.Bus, id events.SessionID, last events.Seq) {
	t.Helper()
	want := func(what string, err error) {
		t.Helper()
		gone, ok := errors.AsType[*events.ErasedError](err)
		if !ok || gone.At != 1000 || gone.Reason != "asked to" || !errors.Is(err, events.ErrNoSession) {
			t.Errorf("%s of erased session %s: got %v, want an erased error that says when and why", what, id, err)
		}
	}
	want("read", readError(t, b, id, 0))
	_, err := b.Log().Last(t.Context(), id)
	want("last", err)
	for _, at := range []events.Seq{0, last} {
		_, err = b.Log().Append(t.Context(), commit(id, 77), at)
		want("append", err)
	}
	want("archive", b.Archive(t.Context(), id, last))
}

// remainingSubjects lists the subjects of all messages in all streams.
func remainingSubjects(t *testing.T, b *bus.Bus) (list []string) {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	names := js.ListStreams(t.Context())
	for info := range names.Info() {
		stream, err := js.Stream(t.Context(), info.Config.Name)
		runtest.NoError(t, err)
		full, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(">"))
		runtest.NoError(t, err)
		for subject := range full.State.Subjects {
			list = append(list, subject)
		}
	}
	slices.Sort(list)
	return list
}

// fillSharedStreams stores messages of the sessions s and other in every shared stream.
func fillSharedStreams(t *testing.T, b *bus.Bus) {
	t.Helper()
	for _, err := range []error{
		b.PublishWake(turnKey("s"), bus.WakeHint{}), b.PublishWake(turnKey("other"), bus.WakeHint{}),
		b.PublishWake(bus.WakeKey{Class: bus.ClassTask, Session: "s", Task: "k"}, bus.WakeHint{}),
		b.PublishWake(bus.WakeKey{Class: bus.ClassTool, Session: "s", Task: "k"}, bus.WakeHint{}),
		b.PublishWake(bus.WakeKey{Class: bus.ClassTask, Session: "other", Task: "k"}, bus.WakeHint{}),
		b.MarkDirty("s"), b.PublishDelta("s", "t1", []byte("x")),
		b.SetTimer("s", 4102444800000),
		b.PutDeadLetter(t.Context(), &bus.DeadLetter{Session: "s"}), b.PutTrial(t.Context(), bus.TrialKey{Session: "s", Of: bus.TrialTurn, Turn: "t"}, bus.Trial{Count: 1}),
	} {
		runtest.NoError(t, err)
	}
	index, _ := b.Index()
	for _, rows := range []bus.Rows{b.Snapshots(), b.Catalogs(), index} {
		_, err := rows.Put(t.Context(), "s", []byte("x"), 0)
		runtest.NoError(t, err)
	}
}

// TestErase erases a hot session, a cold one, a large one and one that is hot again: only the tombstone stays.
func TestErase(t *testing.T) {
	t.Parallel()
	for name, live := range map[string]func(*testing.T, *bus.Bus, []string) int{
		"hot": func(*testing.T, *bus.Bus, []string) int { return 3 },
		"cold": func(t *testing.T, b *bus.Bus, _ []string) int {
			mustMakeCold(t, b, "s", 3)
			return 3
		},
		"again": func(t *testing.T, b *bus.Bus, want []string) int {
			mustMakeCold(t, b, "s", 3)
			appendUpTo(t, b, "s", want, 5)
			return 5
		},
		"large": func(t *testing.T, b *bus.Bus, want []string) int {
			for n := 3; n < 8; n++ {
				_, err := b.Log().Append(t.Context(), largeCommit("s", n), events.Seq(n))
				runtest.NoError(t, err)
			}
			mustMakeCold(t, b, "s", 8)
			return 8
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.Start(t)
			last := live(t, b, appendUpTo(t, b, "s", nil, 3))
			appendUpTo(t, b, "other", nil, 2)
			mustMakeCold(t, b, "other", 2)
			fillSharedStreams(t, b)
			runtest.NoError(t, erase(t.Context(), b, "s"))
			isErased(t, b, "s", events.Seq(last))
			want := []string{"lash.archive.other", "lash.archive.s", "lash.erased.s", "lash.work.task.other.k", "lash.work.turn.other"}
			runtest.EqualLists(t, "what is left", remainingSubjects(t, b), want)
			var ids []events.SessionID
			for id, err := range b.Sessions(t.Context()) {
				if ids = append(ids, id); err != nil {
					t.Fatal(err)
				}
			}
			runtest.EqualLists(t, "sessions", ids, []events.SessionID{"other"})
			tombstone, err := b.PutTombstone(t.Context(), "s", nil, bus.Tombstone{At: 2000, Reason: "again"}, nil)
			if want := (bus.Tombstone{At: 1000, By: "tester", Reason: "asked to", Last: events.Seq(last)}); err != nil || tombstone != want {
				t.Errorf("tombstone: got %+v, %v, want %+v", tombstone, err, want)
			}
		})
	}
}

func mustMakeCold(t *testing.T, b *bus.Bus, id events.SessionID, at events.Seq) {
	t.Helper()
	runtest.NoError(t, makeCold(t.Context(), b, id, at))
}

// largeCommit is a commit of a size of which several do not fit the entry.
func largeCommit(id events.SessionID, n int) *events.Commit {
	c := commit(id, n+1)
	noise := make([]byte, 100<<10)
	for i, x := 0, uint32(n+1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = 'a' + byte(x>>24)%26
	}
	c.Events = []events.Event{events.Of("", &events.SessionClosed{Reason: string(noise)})}
	return c
}

// TestEraseWithoutStream erases while a shared stream is missing: the rest is removed.
func TestEraseWithoutStream(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	_, err = b.Log().Append(t.Context(), commit("s", 1), 0)
	runtest.NoError(t, err)
	for _, class := range bus.TurnClasses() {
		runtest.NoError(t, b.PublishWake(bus.WakeKey{Class: class, Session: "s"}, bus.WakeHint{}))
	}
	runtest.NoError(t, js.DeleteStream(t.Context(), "lash-timers"))
	runtest.WantError(t, "erase", erase(t.Context(), b, "s"), nil)
	isErased(t, b, "s", 1)
	if wakes, err := b.Wakes(t.Context()); len(wakes) != 0 || err != nil {
		t.Errorf("wakes: got %v, %v, want none", wakes, err)
	}
}

func TestEraseRefused(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	if err := erase(t.Context(), b, "none"); !errors.Is(err, events.ErrNoSession) || errors.As(err, new(*events.ErasedError)) {
		t.Errorf("erase of no session: got %v, want %v", err, events.ErrNoSession)
	}
	runtest.WantError(t, "erase of a bad id", erase(t.Context(), b, "a.b"), events.ErrInvalidID)
	want := appendUpTo(t, b, "s", nil, 3)
	_, err := b.PutTombstone(t.Context(), "s", new(events.Seq(2)), bus.Tombstone{At: 1000}, nil)
	if !errors.As(err, new(*events.ConflictError)) {
		t.Errorf("erase of a session that moved: got %v, want a conflict", err)
	}
	runtest.WantError(t, "purge of a session that lives", b.Purge(t.Context(), "s"), events.ErrInvalid)
	runtest.EqualLists(t, "history", history(t, b, "s", 0), want)
}

// TestLongEraseKilled kills an eraser before each of its requests. The session is whole until its tombstone is
// written, and the next eraser completes the work.
func TestLongEraseKilled(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for _, cold := range []bool{false, true} {
		t.Run(fmt.Sprint("cold_", cold), func(t *testing.T) {
			t.Parallel()
			whole, gone := 0, 0
			for k := 1; ; k++ {
				id := events.SessionID(fmt.Sprintf("s-%t-%d", cold, k))
				want := appendUpTo(t, b, id, nil, 3)
				if cold {
					mustMakeCold(t, b, id, 3)
				}
				done := bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error {
					return erase(ctx, victim, id)
				})
				_, err := b.Log().Append(t.Context(), commit(id, len(want)+1), events.Seq(len(want)))
				switch {
				case err == nil:
					whole++
				case errors.As(err, new(*events.ErasedError)): // the server may have handled its last request
					isErased(t, b, id, 3)
					gone++
				default:
					t.Fatal(err)
				}
				runtest.NoError(t, erase(t.Context(), b, id))
				isErased(t, b, id, 3)
				if done {
					break
				}
			}
			if whole == 0 || gone < 2 {
				t.Errorf("got %d whole and %d gone, want both", whole, gone)
			}
		})
	}
}

// appendAtEnd appends c after the session's last commit, while others append too.
func appendAtEnd(ctx context.Context, b *bus.Bus, c *events.Commit) (events.Seq, error) {
	for {
		last, err := b.Log().Last(ctx, c.Session)
		if err != nil {
			return 0, err
		}
		seq, err := b.Log().Append(ctx, c, last)
		if !errors.As(err, new(*events.ConflictError)) {
			return seq, err
		}
	}
}

// TestLongEraseUnderAppends erases sessions during appends, hot ones and such as are being archived. Each acknowledged
// append is before the end that the tombstone names, and no append brings a session back.
func TestLongEraseUnderAppends(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for k := range 10 {
		id := events.SessionID(fmt.Sprintf("s%d", k))
		appendUpTo(t, b, id, nil, 1)
		var appending sync.WaitGroup
		var last [3]events.Seq
		started := make(chan bool, len(last))
		for i := range last {
			appending.Go(func() {
				for n := 0; ; n++ {
					seq, err := appendAtEnd(t.Context(), b, commit(id, 1000*(i+1)+n))
					if err != nil {
						if !errors.As(err, new(*events.ErasedError)) {
							t.Errorf("append: got %v, want an erased error", err)
						}
						return
					}
					last[i] = seq
					if n == 3 {
						started <- true
					}
				}
			})
		}
		for range last {
			<-started
		}
		if k%2 == 1 {
			if at, err := b.Log().Last(t.Context(), id); err == nil {
				_ = makeCold(t.Context(), b, id, at) // on a conflict it stays hot
			}
		}
		tombstone, err := b.PutTombstone(t.Context(), id, nil, bus.Tombstone{At: 1000, Reason: "asked to"}, nil)
		if err == nil {
			err = b.Purge(t.Context(), id)
		}
		runtest.NoError(t, err)
		appending.Wait()
		if top := slices.Max(last[:]); tombstone.Last < top {
			t.Errorf("tombstone: got the end at %d, want at least %d, which was acknowledged", tombstone.Last, top)
		}
		isErased(t, b, id, tombstone.Last)
	}
	runtest.EqualLists(t, "streams", streams(t, b), nil)
}
