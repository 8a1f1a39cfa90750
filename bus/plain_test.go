package bus_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/internal/runtest"
)

// forge stores a commit as a writer without keys does that may publish to the session: without a bus.
func forge(t *testing.T, b *bus.Bus, c *events.Commit) {
	t.Helper()
	data, err := events.Encode(c)
	runtest.NoError(t, err)
	msg := &nats.Msg{Subject: "lash.s." + string(c.Session) + ".session", Data: data, Header: nats.Header{"Nats-Msg-Id": {string(c.ID)}}}
	_, err = jetStream(t, b).PublishMsg(t.Context(), msg)
	runtest.NoError(t, err)
}

// readAll reads from a sequence to the end, and returns the sequences and the error of the read.
func readAll(ctx context.Context, log events.Log, id events.SessionID, from events.Seq) (list []events.Seq, err error) {
	for e, err := range log.Read(ctx, id, from) {
		if err != nil {
			return list, err
		}
		list = append(list, e.Seq)
	}
	return list, nil
}

// archive makes the session s cold.
func archive(t *testing.T, b *bus.Bus, at events.Seq) {
	t.Helper()
	runtest.NoError(t, errors.Join(b.Archive(t.Context(), "s", at), b.Discard(t.Context(), "s")))
}

// encryptedHistories makes the session s on a server, each ends encrypted at sequence 6 at least.
func encryptedHistories(t *testing.T) map[string]func(plain, keyed func() *bus.Bus) *bus.Bus {
	t.Helper()
	grown := func(b *bus.Bus, from, n int) {
		t.Helper()
		for i := from; i < n; i++ {
			_, err := b.Log().Append(t.Context(), commit("s", i+1), events.Seq(i))
			runtest.NoError(t, err)
		}
	}
	archived := func(b *bus.Bus) { t.Helper(); archive(t, b, 5) }
	return map[string]func(plain, keyed func() *bus.Bus) *bus.Bus{
		"encrypted from the first": func(_, keyed func() *bus.Bus) *bus.Bus { b := keyed(); grown(b, 0, 6); return b },
		"plain before": func(plain, keyed func() *bus.Bus) *bus.Bus {
			grown(plain(), 0, 4)
			b := keyed()
			grown(b, 4, 6)
			return b
		},
		"encrypted and archived": func(_, keyed func() *bus.Bus) *bus.Bus {
			b := keyed()
			grown(b, 0, 5)
			archived(b)
			grown(b, 5, 6)
			return b
		},
		"plain and archived before": func(plain, keyed func() *bus.Bus) *bus.Bus {
			p := plain()
			grown(p, 0, 5)
			archived(p)
			b := keyed()
			grown(b, 5, 6)
			return b
		},
		"imported plain": func(_, keyed func() *bus.Bus) *bus.Bus {
			b := keyed()
			log, _ := written(t, "s", 5, "")
			runtest.NoError(t, b.Restore(t.Context(), "s", log))
			c := commit("s", 6)
			_, err := b.Log().Append(t.Context(), c, 5)
			runtest.NoError(t, err)
			return b
		},
	}
}

// TestLongPlainCommitAfterMark stores plain commits after encrypted ones, as a writer without the key does. Every way to read with the key
// refuses them, on a bus that has read the session and on one that has not, hot and archived. What was plain
// before is read as before.
func TestLongPlainCommitAfterMark(t *testing.T) {
	t.Parallel()
	for name, make := range encryptedHistories(t) {
		for _, later := range []int{0, 1} { // encrypted commits after the forged one
			t.Run(fmt.Sprintf("%s, %d later", name, later), func(t *testing.T) {
				t.Parallel()
				server := bustest.Server(t, busembed.Config{})
				keys := newBodyKeys(t)
				keyed := func() *bus.Bus { return bustest.OpenWith(t, server, keys) }
				plain := func() *bus.Bus { return plainBus(t, server) }
				b := make(plain, keyed)
				for from := events.Seq(1); from <= 7; from++ {
					if list, err := readAll(t.Context(), keyed().Log(), "s", from); err != nil || len(list) != int(7-from) {
						t.Fatalf("before, from %d: got %v, %v", from, list, err)
					}
				}
				forge(t, b, commit("s", 7))
				if later > 0 { // a node that decides without reading, which none does
					_, err := b.Log().Append(t.Context(), commit("s", 8), 7)
					runtest.NoError(t, err)
				}
				wantForged(t, b, keyed)
				without := plainBus(t, server)
				without.ForgetStoreKey() // as a node of an earlier version, which archives what it cannot judge
				archive(t, without, events.Seq(7+later))
				wantForged(t, b, keyed)
			})
		}
	}
}

// wantForged reads the session s, whose commit 7 is forged.
func wantForged(t *testing.T, b *bus.Bus, keyed func() *bus.Bus) {
	t.Helper()
	for from := events.Seq(1); from <= 7; from++ {
		for what, reader := range map[string]*bus.Bus{"known": b, "new": keyed()} {
			list, err := readAll(t.Context(), reader.Log(), "s", from)
			if !errors.Is(err, events.ErrMalformed) || len(list) != int(7-from) {
				t.Errorf("%s, from %d: got %v, %v, want malformed at 7", what, from, list, err)
			}
		}
	}
}

// TestPlainLiveCommit: a plain commit that arrives live is not taken without a read, and neither is one that is read alone.
func TestPlainLiveCommit(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.OpenWith(t, server, newBodyKeys(t))
	grow(t, b.Log(), "s", 2)
	live, err := b.Live("s", 8)
	runtest.NoError(t, err)
	t.Cleanup(live.Close)
	_, err = b.Log().Append(t.Context(), commit("s", 3), 2)
	runtest.NoError(t, err)
	forge(t, b, commit("s", 4))
	for seq, want := range []error{3: nil, 4: events.ErrOutcomeUnknown} {
		if seq < 3 {
			continue
		}
		m := bus.ParseLive(<-live.C)
		if e, err := b.Entry(m); m.Seq != events.Seq(seq) || !errors.Is(err, want) {
			t.Errorf("live: got %+v, %v, want %d, %v", e, err, seq, want)
		}
		_, err = b.Log().CommitInFirstStream(t.Context(), "s", events.Seq(seq))
		runtest.WantError(t, "alone", err, want)
	}
}

// TestMixedCommit: a commit with a plain event beside encrypted ones is refused, also as the first one.
func TestMixedCommit(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.OpenWith(t, server, newBodyKeys(t))
	grow(t, b.Log(), "s", 1)
	c := commit("s", 2)
	mixed, err := b.Encrypted(c)
	runtest.NoError(t, err)
	mixed.Events = append(mixed.Events, c.Events...)
	forge(t, b, mixed)
	if list, err := readAll(t.Context(), b.Log(), "s", 1); !errors.Is(err, events.ErrMalformed) || len(list) != 1 {
		t.Errorf("got %v, %v, want malformed at 2", list, err)
	}
}

// TestPlainAfterTheSwitch: in a store that has been encrypted for a while, plain commits are refused in sessions without an encrypted
// one too: new ones, and those that were plain before. What was stored before the switch is read.
func TestPlainAfterTheSwitch(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	plain := plainBus(t, server)
	for _, id := range []events.SessionID{"old", "forged", "turned"} {
		grow(t, plain.Log(), id, 3)
	}
	keys := newBodyKeys(t)
	b := bustest.OpenWith(t, server, keys)
	if _, err := plain.Log().Append(t.Context(), commit("old", 4), 3); err != nil && !errors.Is(err, events.ErrLocked) {
		t.Fatal(err) // it may have read the check already
	}
	if list, err := readAll(t.Context(), b.Log(), "old", 1); err != nil || len(list) < 3 {
		t.Fatalf("right after the switch: got %v, %v", list, err)
	}
	keyed := func() *bus.Bus { return bustest.OpenWith(t, server, keys) }
	for id, at := range map[events.SessionID]int{"forged": 4, "turned": 4} {
		forge(t, b, commit(id, at))
	}
	grow(t, b.Log(), "made", 1) // makes the stream
	_, err := b.Log().Append(t.Context(), commit("turned", 5), 4)
	runtest.NoError(t, err)
	for id, fails := range map[events.SessionID]bool{"old": false, "forged": true, "turned": true} {
		for from := events.Seq(1); from <= 4; from++ {
			reader := keyed()
			reader.SwitchedAt(time.Now().Add(-time.Hour))
			if id == "old" {
				reader.SwitchedAt(time.Now())
			}
			_, err := readAll(t.Context(), reader.Log(), id, from)
			if errors.Is(err, events.ErrMalformed) != fails || !fails && err != nil {
				t.Errorf("%s from %d: got %v, want refused %t", id, from, err, fails)
			}
		}
	}
}

// TestNoKeysNoArchive: a bus without the keys of the store seals and archives no session of it, plain or not: an archive has no
// times, by which nodes with the key refuse a plain commit.
func TestNoKeysNoArchive(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	grow(t, plainBus(t, server).Log(), "s", 3)
	keys := newBodyKeys(t)
	b := bustest.OpenWith(t, server, keys)
	grow(t, b.Log(), "encrypted", 3)
	forge(t, b, commit("s", 4))
	without := plainBus(t, server)
	for id, at := range map[events.SessionID]events.Seq{"s": 4, "encrypted": 3} {
		runtest.WantError(t, fmt.Sprintf("archive %s without the keys", id), without.Archive(t.Context(), id, at), events.ErrLocked)
	}
	for hot, err := range b.Hot(t.Context()) {
		if err != nil || hot.Sealed {
			t.Errorf("got %+v, %v, want no sealed stream", hot, err)
		}
	}
	reader := bustest.OpenWith(t, server, keys)
	reader.SwitchedAt(time.Now().Add(-time.Hour))
	_, err := readAll(t.Context(), reader.Log(), "s", 1)
	runtest.WantError(t, "the forged commit", err, events.ErrMalformed)
	runtest.WantError(t, "archive with the keys", errors.Join(b.Archive(t.Context(), "encrypted", 3), b.Discard(t.Context(), "encrypted")), nil)
}

// TestSwitchTimeStays: the time since when a store is encrypted stays through restarts and rotations of the keys, and no writer
// without keys can set it.
func TestSwitchTimeStays(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	keys := newBodyKeys(t)
	want := bustest.OpenWith(t, server, keys).Switched()
	both, later := forgotten(t, keys)
	for i, k := range []*bodykey.Keys{keys, both, later} { // restarted, rotated, the first key forgotten
		if got := bustest.OpenWith(t, server, k).Switched(); !got.Equal(want) || got.IsZero() {
			t.Errorf("start %d: got %v, want %v", i, got, want)
		}
	}
	manifests, err := jetStream(t, plainBus(t, server)).KeyValue(t.Context(), "lash-plugins")
	runtest.NoError(t, err)
	_, err = manifests.Put(t.Context(), "=bodies-since", []byte("9999999999999"))
	runtest.NoError(t, err)
	if b, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{server.InProcess()}, Keys: later}); !errors.Is(err, events.ErrMalformed) {
		t.Errorf("plain time: got %v, want malformed", err)
		if err == nil {
			b.Close()
		}
	}
}
