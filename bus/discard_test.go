package bus_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

func incompressible(bytes int) string {
	b := make([]byte, bytes/2)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// TestDiscardReadsBack corrupts the archive of a session, in its entry and in a blob: the stream is not deleted.
func TestDiscardReadsBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		commits int
		noise   int // bytes of incompressible text in each
		spoil   func(t *testing.T, js jetstream.JetStream)
	}{
		"entry":         {5, 0, corruptEntry},
		"other history": {5, 0, replaceEntry},
		"blob":          {8, 100_000, deleteArchiveBlob},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.Start(t)
			js := jetStream(t, b)
			for n := range c.commits {
				next := commit("s", n+1)
				if c.noise > 0 {
					next.Events = []events.Event{events.Of("", &events.InputInjected{Input: "i", Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: incompressible(c.noise)}}})}
				}
				if _, err := b.Log().Append(t.Context(), next, events.Seq(n)); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.Archive(t.Context(), "s", events.Seq(c.commits)); err != nil {
				t.Fatal(err)
			}
			c.spoil(t, js)
			if err := b.Discard(t.Context(), "s"); err == nil || len(streams(t, b)) != 1 {
				t.Errorf("got %v and the streams %v, want an error and the stream", err, streams(t, b))
			}
		})
	}
}

// corruptEntry flips a bit of the archive file in the entry.
func corruptEntry(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	s, err := js.Stream(t.Context(), "lash-archive")
	if err != nil {
		t.Fatal(err)
	}
	kept, err := s.GetLastMsgForSubject(t.Context(), "lash.archive.s")
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(kept.Data, []byte("LASHARC1"))
	if at < 0 {
		t.Fatal("the entry has no file")
	}
	kept.Data[at+60] ^= 1
	if _, err := js.Publish(t.Context(), "lash.archive.s", kept.Data); err != nil {
		t.Fatal(err)
	}
}

// replaceEntry puts the entry of another history of the same length.
func replaceEntry(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	other := bustest.Start(t)
	for n := range 5 {
		c := commit("s", n+1)
		c.At += 1000
		if _, err := other.Log().Append(t.Context(), c, events.Seq(n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.Archive(t.Context(), "s", 5); err != nil {
		t.Fatal(err)
	}
	s, err := jetStream(t, other).Stream(t.Context(), "lash-archive")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := s.GetLastMsgForSubject(t.Context(), "lash.archive.s")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "lash.archive.s", whole.Data); err != nil {
		t.Fatal(err)
	}
}

// deleteArchiveBlob deletes the blob of the archive.
func deleteArchiveBlob(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	blobs, err := js.ObjectStore(t.Context(), "lash-blobs")
	if err != nil {
		t.Fatal(err)
	}
	list, err := blobs.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("got %d blobs, %v, want the archive", len(list), err)
	}
	if err := blobs.Delete(t.Context(), list[0].Name); err != nil {
		t.Fatal(err)
	}
}

// TestDiscardLostSeal has the server lose a seal after the archiver saw it, and the session takes more commits: these
// are archived too.
func TestDiscardLostSeal(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	js := jetStream(t, b)
	want := appendUpTo(t, b, "s", nil, 5)
	if err := b.Archive(t.Context(), "s", 5); err != nil {
		t.Fatal(err)
	}
	unseal(t, js, streams(t, b)[0])
	want = appendUpTo(t, b, "s", want, 7)
	for range 2 { // the first call finds the new commits
		if err := makeCold(t.Context(), b, "s", 7); err != nil && !errors.Is(err, bus.ErrStale) {
			t.Fatal(err)
		}
	}
	if got := streams(t, b); len(got) != 0 {
		t.Errorf("streams: got %v, want none", got)
	}
	if got := history(t, b, "s", 0); !slices.Equal(got, want) {
		t.Errorf("history: got %v, want %v", got, want)
	}
	want = appendUpTo(t, b, "s", want, 8)
	if got := history(t, b, "s", 0); !slices.Equal(got, want) {
		t.Errorf("history later: got %v, want %v", got, want)
	}
}

// unseal creates a stream again, not sealed.
func unseal(t *testing.T, js jetstream.JetStream, name string) {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	info := s.CachedInfo()
	var messages []*jetstream.RawStreamMsg
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	if err := js.DeleteStream(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	cfg := info.Config
	cfg.Sealed, cfg.DenyDelete, cfg.DenyPurge = false, false, false
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		header := nats.Header{}
		for key, values := range m.Header {
			if key != jetstream.ExpectedLastSeqHeader {
				header[key] = values
			}
		}
		if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Data: m.Data, Header: header}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLongDiscardErased discards sessions that are erased: after their tombstone, and at the same time.
func TestLongDiscardErased(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	tombstone := bus.Tombstone{At: 1, By: "ann", Reason: "asked"}
	for round := range 120 {
		id := events.SessionID(fmt.Sprint("s", round))
		grow(t, b.Log(), id, 5)
		if err := b.Archive(t.Context(), id, 5); err != nil {
			t.Fatal(err)
		}
		var erasing sync.WaitGroup
		erase := func() {
			_, err := b.PutTombstone(t.Context(), id, nil, tombstone, nil)
			if err == nil && round > 0 {
				err = b.Purge(t.Context(), id)
			}
			if err != nil {
				t.Errorf("erase: got %v", err)
			}
		}
		if round == 0 {
			erase()
		} else {
			erasing.Go(erase)
		}
		if err := b.Discard(t.Context(), id); err != nil {
			t.Errorf("discard %s: got %v, want it left to the erasure", id, err)
		}
		erasing.Wait()
	}
}
