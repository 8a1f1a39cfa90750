package bus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// lostWhole makes a session of three commits that was never archived, with a row, and deletes its stream.
func lostWhole(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	appendUpTo(t, b, id, nil, 3)
	_, err := b.Directory().Put(t.Context(), id, []byte(`{"seq":3}`), 0)
	runtest.NoError(t, err)
	runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), "lash-s-"+string(id)))
}

// wantLostWhole fails the test unless err names the commits of [lostWhole].
func wantLostWhole(t *testing.T, what string, err error) {
	t.Helper()
	if lost, ok := errors.AsType[*bus.CutOffError](err); !ok || lost.Last != 0 || lost.Known != 3 || !strings.Contains(err.Error(), "commits 1 to 3 are lost") {
		t.Errorf("%s: got %v, want the loss of commits 1 to 3", what, err)
	}
}

// TestLostWhole deletes the stream of a session that was never archived. Every request says that its commits are lost, and no other session
// gets its id: before, it was taken for a session that never was.
func TestLostWhole(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	for _, left := range []string{"nothing", "an empty stream", "an empty sealed stream", "an archive without commits"} {
		t.Run(left, func(t *testing.T) {
			t.Parallel()
			b := bustest.Open(t, server)
			id := events.SessionID("s-" + strings.ReplaceAll(left, " ", "-"))
			lostWhole(t, b, id)
			js := jetStream(t, b)
			if left != "nothing" { // of a creator that had read no row yet
				cfg := jetstream.StreamConfig{Name: "lash-s-" + string(id), Subjects: []string{"lash.s." + string(id) + ".>"}, AllowDirect: true}
				_, err := js.CreateStream(t.Context(), cfg)
				if cfg.Sealed = left == "an empty sealed stream"; err == nil && cfg.Sealed {
					_, err = js.UpdateStream(t.Context(), cfg)
				}
				runtest.NoError(t, err)
			}
			if left == "an archive without commits" {
				runtest.NoError(t, b.PutEmptyEntry(t.Context(), id))
			}
			for range 2 {
				_, err := b.Log().Last(t.Context(), id)
				wantLostWhole(t, "last", err)
				_, err = b.Log().Append(t.Context(), commit(id, 4), 3)
				wantLostWhole(t, "append", err)
				_, err = b.Log().Append(t.Context(), commit(id, 1), 0)
				wantLostWhole(t, "create", err)
				_, err = b.Cold(t.Context(), id)
				wantLostWhole(t, "cold", err)
				for what, log := range map[string]bus.Log{"read": b.Log(), "read what is left": b.Log().Remaining()} {
					for _, err = range log.Read(t.Context(), id, 1) {
						break
					}
					wantLostWhole(t, what, err)
				}
				wantLostWhole(t, "archive", b.Archive(t.Context(), id, 0))
				runtest.WantError(t, "sweep", b.SweepOrphans(t.Context()), nil)
			}
			var listed []events.SessionID
			for one, err := range b.Sessions(t.Context()) {
				runtest.NoError(t, err)
				listed = append(listed, one)
			}
			if n := len(listed); !slices.Contains(listed, id) || n != len(slices.Compact(slices.Sorted(slices.Values(listed)))) {
				t.Errorf("sessions: got %v, want each once, and %s", listed, id)
			}
			end := events.Seq(3)
			if _, err := b.PutTombstone(t.Context(), id, &end, bus.Tombstone{At: 1, By: "tester"}, nil); err == nil {
				t.Error("erase at an end that is lost: got no error")
			}
			gone, err := b.PutTombstone(t.Context(), id, nil, bus.Tombstone{At: 1, By: "tester", Reason: "lost"}, nil)
			if err != nil || gone.Last != 0 {
				t.Errorf("erase: got %+v, %v", gone, err)
			}
			runtest.WantError(t, "purge", b.Purge(t.Context(), id), nil)
			if _, err := b.Log().Append(t.Context(), commit(id, 1), 0); !errors.As(err, new(*events.ErasedError)) {
				t.Errorf("create after the erasure: got %v", err)
			}
		})
	}
}

// TestLostWholeIsImported imports an older part of a session of which all commits are lost: it continues from there. Also where an archiver
// had taken away the stream of a creator.
func TestLostWholeIsImported(t *testing.T) {
	t.Parallel()
	for name, entry := range map[string]bool{"nothing left": false, "an archive without commits": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lostWholeIsImported(t, entry)
		})
	}
}

func lostWholeIsImported(t *testing.T, entry bool) {
	t.Helper()
	b := bustest.Start(t)
	lostWhole(t, b, "s")
	if entry {
		runtest.NoError(t, b.PutEmptyEntry(t.Context(), "s"))
	}
	log, want := written(t, "s", 2, "")
	runtest.NoError(t, b.Restore(t.Context(), "s", log))
	runtest.EqualLists(t, "history", history(t, b, "s", 1), want)
	appendUpTo(t, b, "s", want, 3)
}

// TestLostWholeKeepsBodies sweeps beside a session of which all commits are lost: it can be put back from a backup, so its bodies stay.
func TestLostWholeKeepsBodies(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	lostWhole(t, b, "s")
	for m, err := range b.BlobMentions(t.Context()) {
		runtest.NoError(t, err)
		if m.Unread != nil && m.Unread.Session == "s" && m.Unread.Since.IsZero() {
			return
		}
	}
	t.Error("the sweep does not know that the session refers to bodies")
}

// TestLostWholeUnderCreators loses the stream of a session, again and again, while creators of its id compete. No creator that begins after the
// loss is accepted.
func TestLostWholeUnderCreators(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	others := []*bus.Bus{bustest.Open(t, server), bustest.Open(t, server), bustest.Open(t, server)}
	for round := range 10 {
		id := events.SessionID(fmt.Sprint("s", round))
		lostWhole(t, b, id)
		var all sync.WaitGroup
		for n, other := range others {
			all.Go(func() {
				c := commit(id, 1)
				c.ID += events.CommitID(fmt.Sprint("-", n))
				if seq, err := other.Log().Append(t.Context(), c, 0); !errors.As(err, new(*bus.CutOffError)) {
					t.Errorf("%s, creator %d: got %d, %v, want the loss", id, n, seq, err)
				}
			})
		}
		all.Wait()
	}
}

// TestLongLostWholeImportDies kills an import over a session of which all commits are lost, at each request. No creator gets its id.
func TestLongLostWholeImportDies(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for k := 1; ; k++ {
		id := events.SessionID(fmt.Sprint("s", k))
		lostWhole(t, b, id)
		log, _ := written(t, id, 2, "")
		done := bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error { return victim.Restore(ctx, id, log) })
		c := commit(id, 1)
		c.ID = "of-a-creator"
		seq, err := b.Log().Append(t.Context(), c, 0)
		if !errors.As(err, new(*bus.CutOffError)) && !errors.As(err, new(*events.ConflictError)) {
			t.Errorf("killed at %d: create: got %d, %v", k, seq, err)
		}
		if done {
			break
		}
	}
}

// TestErasedAreNotLocated lists sessions beside erased ones, which keep their rows. The list needs no request for each of these.
func TestErasedAreNotLocated(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	requests := func() uint64 {
		before := b.Conn().Stats().OutMsgs
		for _, err := range b.Sessions(t.Context()) {
			runtest.NoError(t, err)
		}
		return b.Conn().Stats().OutMsgs - before
	}
	want := requests()
	for n := range 20 {
		id := events.SessionID(fmt.Sprint("s", n))
		lostWhole(t, b, id)
		_, err := b.PutTombstone(t.Context(), id, nil, bus.Tombstone{At: 1, By: "tester", Reason: "lost"}, nil)
		runtest.NoError(t, err)
		runtest.NoError(t, b.Purge(t.Context(), id))
	}
	if got := requests(); got > want+10 {
		t.Errorf("got %d requests, %d without erased sessions", got, want)
	}
}

// TestLostWholeAtLaggingReplica answers half of the reads of the directory from a replica without rows. The leader's row decides: no creator
// gets the id of a lost session, and a session that lost its last commits stays refused.
func TestLostWholeAtLaggingReplica(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	for n := range 20 {
		lostWhole(t, b, events.SessionID(fmt.Sprint("w", n)))
		continued(t, b, events.SessionID(fmt.Sprint("c", n)), 5)
	}
	emptyCopy(t, b, "KV_lash-sessions")
	for n := range 20 {
		id := events.SessionID(fmt.Sprint("w", n))
		_, err := b.Log().Append(t.Context(), commit(id, 1), 0)
		wantLostWhole(t, "create", err)
		if seq, err := b.Log().Append(t.Context(), commit(events.SessionID(fmt.Sprint("c", n)), 4), 3); !errors.As(err, new(*bus.CutOffError)) {
			t.Errorf("append %d: got %d, %v, want the loss", n, seq, err)
		}
	}
}

// TestLostWholeWithoutKeys has a program without the key of the row read and create a session of which only that row is left. It is refused,
// and its bodies stay.
func TestLostWholeWithoutKeys(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, Keys: bustest.Keys(t)})
	runtest.NoError(t, err)
	defer b.Close()
	lostWhole(t, b, "s")
	keyless, err := bus.OpenReader(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}})
	runtest.NoError(t, err)
	defer keyless.Close()
	_, err = keyless.Log().Last(t.Context(), "s")
	runtest.WantError(t, "last", err, events.ErrLocked)
	if seq, err := keyless.Log().Append(t.Context(), commit("s", 1), 0); !errors.Is(err, events.ErrLocked) {
		t.Errorf("create: got %d, %v, want %v", seq, err, events.ErrLocked)
	}
	_, err = keyless.Log().Last(t.Context(), "none")
	runtest.WantError(t, "no session", err, events.ErrNoSession)
	for m, err := range keyless.BlobMentions(t.Context()) {
		runtest.NoError(t, err)
		if m.Unread != nil && m.Unread.Session == "s" {
			return
		}
	}
	t.Error("the sweep does not know that the session may refer to bodies")
}
