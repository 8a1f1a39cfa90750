package follow_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

func TestMissingSession(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	_, err := follow.Open(t.Context(), b, "none")
	runtest.WantError(t, "open", err, events.ErrNoSession)
	_, err = follow.Whole(t.Context(), b, "none")
	runtest.WantError(t, "whole", err, events.ErrNoSession)
	_, err = follow.Whole(t.Context(), b, "a.b")
	runtest.WantError(t, "whole of a bad id", err, events.ErrInvalidID)
	runtest.WantError(t, "project", project(t.Context(), b, "none"), events.ErrNoSession)
	if s, err := follow.Stored(t.Context(), b, "none"); s != nil || err != nil {
		t.Errorf("stored: got %v, %v, want none", s, err)
	}
}

// TestOpenCosts opens a session of ten thousand events from a snapshot and a short tail.
func TestOpenCosts(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 40, 250)
	mustProject(t, b, "s")
	grow(t, b, "s", 40, 43, 1)
	stream := b.Conn().Stats()
	s, err := follow.Open(t.Context(), b, "s")
	runtest.NoError(t, err)
	read := b.Conn().Stats().InBytes - stream.InBytes
	if s.Seq != 43 || s.Events != 10005 {
		t.Errorf("got sequence %d and %d events, want 43 and 10005", s.Seq, s.Events)
	}
	if read > 100<<10 {
		t.Errorf("opening read %d bytes of more than 2 MB, want at most 100 KiB", read)
	}
	_, err = s.AllNodes()
	runtest.WantError(t, "all nodes before the segments", err, projector.ErrPartial)
	runtest.NoError(t, follow.Complete(t.Context(), b, s))
	runtest.WantError(t, "check", s.Check(), nil)
	same(t, b, "s")
}

// TestSave keeps the newer of two snapshots, in any order of saves.
func TestSave(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 5, 30)
	old := refold(t, b, "s")
	grow(t, b, "s", 5, 9, 30)
	digest, err := follow.Save(t.Context(), b, refold(t, b, "s"))
	runtest.NoError(t, err)
	_, err = follow.Save(t.Context(), b, old)
	runtest.NoError(t, err)
	stored, err := follow.Stored(t.Context(), b, "s")
	if err != nil || stored.Seq != 9 || stored.Digest != digest || projector.RefOf(stored.Head).Digest != digest {
		t.Errorf("stored: got %+v, %v, want the one at 9", stored, err)
	}
	same(t, b, "s")
}

// snapshotRow has the layout of the row.
type snapshotRow struct {
	Seq    events.Seq     `msgpack:"q"`
	Digest string         `msgpack:"d"`
	Head   []byte         `msgpack:"h,omitempty"`
	Blob   events.BlobRef `msgpack:"b,omitempty"`
}

// TestUnusableSnapshots folds from the log, and the next projector replaces the row.
func TestUnusableSnapshots(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	otherFold := encode(t, &struct {
		Fold int64 `msgpack:"v"`
	}{projector.FoldVersion - 1})
	for name, damage := range map[string]func(good snapshotRow) []byte{
		"garbage":   func(snapshotRow) []byte { return []byte("no msgpack") },
		"empty":     func(snapshotRow) []byte { return nil },
		"cut":       func(r snapshotRow) []byte { data := encode(t, &r); return data[:len(data)/2] },
		"digest":    func(r snapshotRow) []byte { r.Head[len(r.Head)/2]++; return encode(t, &r) },
		"head_gone": func(r snapshotRow) []byte { r.Blob, r.Head = projector.RefOf(r.Head), nil; return encode(t, &r) },
		"no_head": func(r snapshotRow) []byte {
			r.Head, r.Digest = []byte{0xc1}, projector.RefOf([]byte{0xc1}).Digest
			return encode(t, &r)
		},
		"other_fold": func(r snapshotRow) []byte {
			r.Head, r.Digest = otherFold, projector.RefOf(otherFold).Digest
			return encode(t, &r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := events.SessionID(name)
			grow(t, b, id, 0, 40, 4)
			mustProject(t, b, id)
			row, err := b.Snapshots().Get(t.Context(), id)
			runtest.NoError(t, err)
			var good snapshotRow
			if err := events.DecodePayload(row.Value, &good); err != nil || good.Seq != 40 {
				t.Fatalf("snapshot: got %+v, %v, want one at 40", good, err)
			}
			_, err = b.Snapshots().Put(t.Context(), id, damage(good), row.Revision)
			runtest.NoError(t, err)
			same(t, b, id)
			mustProject(t, b, id)
			rows(t, b, id)
			healed, err := follow.Stored(t.Context(), b, id)
			runtest.NoError(t, err)
			if _, err := projector.Restore(healed.Head); err != nil || healed.Seq != 40 || projector.RefOf(healed.Head).Digest != healed.Digest {
				t.Errorf("after another projection: got a snapshot at %d, %v, want a good one at 40", healed.Seq, err)
			}
		})
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	data, err := events.EncodePayload(v)
	runtest.NoError(t, err)
	return data
}

func TestMissingSegment(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 40, 10)
	mustProject(t, b, "s")
	s, err := follow.Open(t.Context(), b, "s")
	runtest.NoError(t, err)
	missing := s.Missing()
	if len(missing) < 2 {
		t.Fatalf("segments: got %d, want several", len(missing))
	}
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	blobs, err := js.ObjectStore(t.Context(), "lash-blobs")
	runtest.NoError(t, err)
	runtest.NoError(t, blobs.Delete(t.Context(), missing[1].Digest))
	runtest.WantError(t, "complete", follow.Complete(t.Context(), b, s), bus.ErrNotFound)
	same(t, b, "s")
	_, err = blobs.PutBytes(t.Context(), missing[1].Digest, []byte("tampered"))
	runtest.NoError(t, err)
	runtest.WantError(t, "complete, tampered", follow.Complete(t.Context(), b, s), events.ErrMalformed)
	same(t, b, "s")
}

// TestLargeHead stores a head that does not fit a row as a blob.
func TestLargeHead(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 2, 60)
	for i := range 20 { // inputs wait in the head
		c := commit("s", 3+i, 0)
		c.Events = append(c.Events, events.Of("", &events.InputInjected{
			Input: events.InputID("i" + string(rune('a'+i))), Role: events.RoleUser,
			Parts: []events.Part{{Kind: events.PartText, Text: string(make([]byte, 60<<10))}},
		}))
		_, err := b.Log().Append(t.Context(), c, events.Seq(2+i))
		runtest.NoError(t, err)
	}
	_, err := follow.Save(t.Context(), b, refold(t, b, "s"))
	runtest.NoError(t, err)
	stored, err := follow.Stored(t.Context(), b, "s")
	if err != nil || len(stored.Head) < 900<<10 {
		t.Fatalf("stored: got a head of %d bytes, %v, want more than a row holds", len(stored.Head), err)
	}
	same(t, b, "s")
}
