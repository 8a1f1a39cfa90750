package follow_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

func put(t *testing.T, b *bus.Bus, body string) events.BlobRef {
	t.Helper()
	ref, err := b.PutBlob(t.Context(), []byte(body))
	runtest.NoError(t, err)
	return ref
}

// refer appends a commit that refers to a blob.
func refer(t *testing.T, b *bus.Bus, id events.SessionID, n int, ref events.BlobRef) {
	t.Helper()
	c := commit(id, n, 0)
	name := string(rune('a' + n))
	c.Events = append(c.Events, events.Of("", &events.GraphAppended{Nodes: []events.NewNode{{
		ID: events.NodeID(name), Kind: events.NodeMessage, Message: events.Message{ID: events.MessageID(name), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Blob: ref}}},
	}}}))
	_, err := b.Log().Append(t.Context(), c, events.Seq(n-1))
	runtest.NoError(t, err)
}

func sweep(t *testing.T, s *follow.BlobSweeper, at time.Duration, want int) {
	t.Helper()
	if got, err := s.Sweep(t.Context(), time.Unix(0, 0).Add(at)); err != nil || got != want {
		t.Errorf("sweep after %v: got %d removed, %v, want %d", at, got, err, want)
	}
}

// TestSweepBlobs removes blobs without references for the grace: one whose commit failed, and one of an erased
// session that no other session shares. Both sessions stay readable.
func TestSweepBlobs(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	lost, own, shared, cold := put(t, b, "lost"), put(t, b, "own"), put(t, b, "shared"), put(t, b, "cold")
	soon, text := put(t, b, "soon"), put(t, b, "text")
	refer(t, b, "erased", 1, own)
	refer(t, b, "erased", 2, shared)
	refer(t, b, "fork", 1, shared)
	refer(t, b, "cold", 1, cold)
	if done, err := follow.NewArchiver(b, follow.ArchiverConfig{}).Archive(t.Context(), "cold"); !done || err != nil {
		t.Fatalf("archive: got %t, %v", done, err)
	}
	_, err := b.Snapshots().Put(t.Context(), "fork", []byte("[blob] "+text.Digest+" 4"), 0)
	runtest.NoError(t, err)
	s := follow.NewBlobSweeper(b)
	sweep(t, s, 0, 0) // lost and soon are suspects
	refer(t, b, "fork", 2, soon)
	_, err = follow.Erase(t.Context(), b, "erased", nil, stone("erased"), nil)
	runtest.NoError(t, err)
	sweep(t, s, 11*time.Hour, 0) // and own
	sweep(t, s, 13*time.Hour, 1)
	sweep(t, s, 22*time.Hour, 0)
	sweep(t, s, 24*time.Hour, 1)
	sweep(t, s, 99*time.Hour, 0)
	for what, c := range map[string]struct {
		ref  events.BlobRef
		gone bool
	}{
		"lost": {lost, true}, "own": {own, true}, "shared": {shared, false}, "cold": {cold, false},
		"soon": {soon, false}, "text": {text, false},
	} {
		if _, err := b.Blob(t.Context(), c.ref); errors.Is(err, bus.ErrNotFound) != c.gone {
			t.Errorf("blob %s: got %v, want gone %t", what, err, c.gone)
		}
	}
	same(t, b, "fork")
	same(t, b, "cold")
}

// TestSweepKeepsSnapshots keeps segments of snapshots, also if the head is a blob, and removes stale rows.
func TestSweepKeepsSnapshots(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 230, 10) // enough for a page
	mustProject(t, b, "s")
	state, err := follow.Open(t.Context(), b, "s")
	runtest.NoError(t, err)
	missing := state.Missing()
	row, err := b.Snapshots().Get(t.Context(), "s")
	runtest.NoError(t, err)
	var r snapshotRow
	runtest.NoError(t, events.DecodePayload(row.Value, &r))
	r.Blob, r.Head = put(t, b, string(r.Head)), nil
	_, err = b.Snapshots().Put(t.Context(), "s", encode(t, &r), row.Revision)
	runtest.NoError(t, err)
	grow(t, b, "gone", 0, 3, 1)
	_, err = follow.Erase(t.Context(), b, "gone", nil, stone("gone"), nil)
	runtest.NoError(t, err)
	_, err = b.Snapshots().Put(t.Context(), "gone", []byte(strings.Repeat("late", 10)), 0)
	runtest.NoError(t, err)
	s := follow.NewBlobSweeper(b)
	sweep(t, s, 0, 0)
	sweep(t, s, 24*time.Hour, 0)
	if late, err := b.Snapshots().Get(t.Context(), "gone"); err != nil || late.Revision != 0 {
		t.Errorf("late snapshot of an erased session: got revision %d, %v, want none", late.Revision, err)
	}
	if state, err = follow.Open(t.Context(), b, "s"); err == nil {
		err = follow.Complete(t.Context(), b, state)
	}
	runtest.WantError(t, "the snapshot after the sweeps", err, nil)
	for _, ref := range append(missing, r.Blob) {
		if body, err := b.Blob(t.Context(), ref); err != nil || projector.RefOf(body) != ref {
			t.Errorf("blob of the snapshot: got %v", err)
		}
	}
}

// TestSweepPassesUnreadableSessions sweeps beside sessions that cannot be read: their commits are lost, malformed, or without their key. Bodies of
// other sessions that nothing refers to are removed where they are older; what an unreadable session may refer to stays, and the
// sweep names it. Once it is erased, nothing stays.
func TestSweepPassesUnreadableSessions(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*testing.T, *bus.Bus, events.SessionID, events.BlobRef){
		"lost commits": func(t *testing.T, b *bus.Bus, id events.SessionID, own events.BlobRef) {
			t.Helper()
			refer(t, b, id, 1, own)
			cutOffAfter(t, b, id, 1)
		},
		"malformed": func(t *testing.T, b *bus.Bus, id events.SessionID, own events.BlobRef) {
			t.Helper()
			refer(t, b, id, 1, own)
			forge(t, b, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.Start(t)
			before, own, shared := put(t, b, "before"), put(t, b, "own"), put(t, b, "shared")
			refer(t, b, "good", 1, shared)
			breaks(t, b, "bad", own)
			after := put(t, b, "after")
			s, careful := follow.NewBlobSweeper(b), follow.NewBlobSweeper(b)
			s.ReferWithin(0)
			for n := range 2 {
				at := time.Unix(0, 0).Add(time.Duration(n) * 13 * time.Hour)
				removed, err := careful.Sweep(t.Context(), at) // for it, all bodies may be referred to
				if removed != 0 || err == nil {
					t.Errorf("sweep %d by hours: got %d removed, %v", n, removed, err)
				}
			}
			for n := range 2 {
				removed, err := s.Sweep(t.Context(), time.Unix(0, 0).Add(time.Duration(30+n*13)*time.Hour))
				if removed != n || err == nil || !strings.Contains(err.Error(), "session bad cannot be read") || !strings.Contains(err.Error(), "every body since ") {
					t.Errorf("sweep %d: got %d removed, %v, want that session bad is named", n, removed, err)
				}
			}
			for what, c := range map[string]struct {
				ref  events.BlobRef
				gone bool
			}{"before": {before, true}, "after": {after, false}, "own": {own, false}, "shared": {shared, false}} {
				if _, err := b.Blob(t.Context(), c.ref); errors.Is(err, bus.ErrNotFound) != c.gone {
					t.Errorf("%s: got %v, want gone %t", what, err, c.gone)
				}
			}
			_, err := follow.Erase(t.Context(), b, "bad", nil, stone("bad"), nil)
			runtest.NoError(t, err)
			if _, err := b.Log().Last(t.Context(), "bad"); !errors.As(err, new(*events.ErasedError)) {
				t.Errorf("erased: got %v", err)
			}
			sweep(t, s, 99*time.Hour, 0)
			sweep(t, s, 199*time.Hour, 2) // own and after
			same(t, b, "good")
		})
	}
}

// TestSweepKeepsAllForUnreadableFork removes nothing while a session cannot be read from its first commit on: that commit may be of
// a fork, which refers to bodies of any age.
func TestSweepKeepsAllForUnreadableFork(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	before := put(t, b, "before")
	refer(t, b, "good", 1, put(t, b, "shared"))
	js, err := jetstream.New(b.Conn())
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "lash-s-fork", Subjects: []string{"lash.s.fork.>"}, Replicas: 1, AllowDirect: true})
	}
	runtest.NoError(t, err)
	forge(t, b, "fork")
	s := follow.NewBlobSweeper(b)
	s.ReferWithin(0)
	for n := range 3 {
		removed, err := s.Sweep(t.Context(), time.Unix(0, 0).Add(time.Duration(n)*13*time.Hour))
		if removed != 0 || err == nil || !strings.Contains(err.Error(), "session fork cannot be read") {
			t.Errorf("sweep %d: got %d removed, %v, want none, and that session fork is named", n, removed, err)
		}
	}
	_, err = b.Blob(t.Context(), before)
	runtest.WantError(t, "a body that the fork may refer to", err, nil)
	same(t, b, "good")
}

// forge stores a message that is no commit.
func forge(t *testing.T, b *bus.Bus, id events.SessionID) {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	if err == nil {
		_, err = js.Publish(t.Context(), "lash.s."+string(id)+".session", []byte("no commit"))
	}
	runtest.NoError(t, err)
}

// cutOffAfter archives a session, continues it, and deletes its stream.
func cutOffAfter(t *testing.T, b *bus.Bus, id events.SessionID, last events.Seq) {
	t.Helper()
	runtest.NoError(t, errors.Join(b.Archive(t.Context(), id, last), b.Discard(t.Context(), id)))
	more(t, b, id, int(last), 2, "old")
	mustProject(t, b, id)
	loseStream(t, b, id)
}
