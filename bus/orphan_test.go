package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// nextOperations are the operations on session s that may follow.
func nextOperations() map[string]func(context.Context, *bus.Bus, events.Seq) error {
	return map[string]func(context.Context, *bus.Bus, events.Seq) error{
		"append": func(context.Context, *bus.Bus, events.Seq) error { return nil },
		"stale append": func(ctx context.Context, b *bus.Bus, last events.Seq) error {
			return wantConflict(b.Log().Append(ctx, commit("s", 99), last-1))
		},
		"append from the future": func(ctx context.Context, b *bus.Bus, last events.Seq) error {
			return wantConflict(b.Log().Append(ctx, commit("s", 99), last+1))
		},
		"creator": func(ctx context.Context, b *bus.Bus, _ events.Seq) error {
			return wantConflict(b.Log().Append(ctx, commit("s", 99), 0))
		},
		"creator again": func(ctx context.Context, b *bus.Bus, _ events.Seq) error {
			if seq, err := b.Log().Append(ctx, commit("s", 1), 0); err != nil || seq != 1 {
				return errors.Join(err, errors.New("want the first commit found"))
			}
			return nil
		},
		"archiver": func(ctx context.Context, b *bus.Bus, last events.Seq) error { return makeCold(ctx, b, "s", last) },
		"reader": func(ctx context.Context, b *bus.Bus, last events.Seq) error {
			if got, err := b.Log().Last(ctx, "s"); err != nil || got != last {
				return errors.Join(err, errors.New("it ends elsewhere"))
			}
			return nil
		},
	}
}

// TestEmptyFirstStream has a creator that checks for a session before it exists, makes its first stream after the
// session was archived, and dies. The empty stream receives the session's appends. Every next operation removes it,
// and none waits for ever.
func TestEmptyFirstStream(t *testing.T) {
	t.Parallel()
	lives := map[string]func(*testing.T, *bus.Bus, []string) []string{
		"cold": func(_ *testing.T, _ *bus.Bus, want []string) []string { return want },
		"cold again": func(t *testing.T, b *bus.Bus, want []string) []string {
			want = appendUpTo(t, b, "s", want, 5)
			mustMakeCold(t, b, "s", 5)
			return want
		},
		"about to be hot": func(t *testing.T, b *bus.Bus, want []string) []string {
			name, err := b.PausedOpening(t.Context(), "s")
			if err == nil {
				err = name()
			}
			runtest.NoError(t, err)
			return want
		},
	}
	for life, bring := range lives {
		for what, do := range nextOperations() {
			t.Run(life+"/"+what, func(t *testing.T) {
				t.Parallel()
				b := bustest.Start(t)
				want := appendUpTo(t, b, "s", nil, 3)
				mustMakeCold(t, b, "s", 3)
				want = bring(t, b, want)
				runtest.NoError(t, b.MakeFirstStream(t.Context(), "s"))
				runtest.WantError(t, what, do(t.Context(), b, events.Seq(len(want))), nil)
				want = appendUpTo(t, b, "s", want, len(want)+2)
				runtest.EqualLists(t, "history", history(t, b, "s", 0), want)
				runtest.Equal(t, "streams", len(streams(t, b)), 1)
			})
		}
	}
}

// TestPausedCreator pauses a creator before its publish, until another has created the session, it is cold, and a
// dead creator's stream exists. The creator gets a conflict, and nothing of it stays.
func TestPausedCreator(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	publish, err := b.PausedCreate(t.Context(), commit("s", 99))
	runtest.NoError(t, err)
	again, err := b.PausedCreate(t.Context(), commit("s", 1)) // the creator that succeeded; its ack was lost
	runtest.NoError(t, err)
	want := appendUpTo(t, b, "s", nil, 3)
	mustMakeCold(t, b, "s", 3)
	empty := func() error { return b.MakeFirstStream(t.Context(), "s") }
	filled := func() error { return b.MakeFirstStreamWith(t.Context(), commit("s", 98)) }
	for _, try := range []struct {
		stray   func() error
		publish func() (events.Seq, error)
		want    events.Seq
	}{{empty, again, 1}, {empty, publish, 0}, {empty, again, 1}, {filled, again, 1}, {filled, publish, 0}} {
		runtest.NoError(t, try.stray())
		seq, err := try.publish()
		if seq != try.want || try.want == 0 && wantConflict(0, err) != nil {
			t.Errorf("the slow creator: got %d, %v, want %d", seq, err, try.want)
		}
		runtest.EqualLists(t, "history", history(t, b, "s", 0), want)
		want = appendUpTo(t, b, "s", want, len(want)+1)
		mustMakeCold(t, b, "s", events.Seq(len(want)))
	}
}

// TestRemoveEmptyKilled kills the removal of an empty stream at each of its requests. The next sweep completes it,
// and the session can be created. Without a creator no stream stays.
func TestRemoveEmptyKilled(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for k, done := 1, false; !done; k++ {
		id := events.SessionID(fmt.Sprint("s-", k))
		runtest.NoError(t, b.MakeFirstStream(t.Context(), id))
		done = bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error { return victim.RemoveEmpty(ctx, id) })
		runtest.NoError(t, b.SweepOrphans(t.Context()))
		want := appendUpTo(t, b, id, nil, 4)
		runtest.EqualLists(t, fmt.Sprint("killed at request ", k), history(t, b, id, 0), want)
		if done && k < 4 {
			t.Errorf("it made %d requests, want more", k-1)
		}
	}
	before := len(streams(t, b))
	runtest.NoError(t, b.MakeFirstStream(t.Context(), "unfinished"))
	if err := b.SweepOrphans(t.Context()); err != nil || len(streams(t, b)) != before+1 {
		t.Errorf("a stream that was just made: got %v, %d streams, want it left", err, len(streams(t, b)))
	}
	if err := b.RemoveEmpty(t.Context(), "unfinished"); err != nil || len(streams(t, b)) != before {
		t.Errorf("an old one: got %v, %d streams, want %d", err, len(streams(t, b)), before)
	}
}

// TestRemoveEmptyUnderAppends appends first commits while their streams are removed as empty.
func TestRemoveEmptyUnderAppends(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for i := range 40 {
		id := events.SessionID(fmt.Sprintf("s%d", i))
		over := make(chan error, 1)
		go func() {
			for n := range 3 {
				if err := b.RemoveEmpty(t.Context(), id); err != nil && !errors.Is(err, bus.ErrStale) {
					over <- fmt.Errorf("remove %d: %w", n, err)
					return
				}
			}
			over <- nil
		}()
		want := appendUpTo(t, b, id, nil, 3)
		runtest.WantError(t, "over", <-over, nil)
		runtest.EqualLists(t, "history of "+string(id), history(t, b, id, 0), want)
	}
}

func wantConflict(_ events.Seq, err error) error {
	if errors.As(err, new(*events.ConflictError)) {
		return nil
	}
	return errors.Join(err, errors.New("want a conflict"))
}
