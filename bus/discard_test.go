package bus_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
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
				_, err := b.Log().Append(t.Context(), next, events.Seq(n))
				runtest.NoError(t, err)
			}
			runtest.NoError(t, b.Archive(t.Context(), "s", events.Seq(c.commits)))
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
	runtest.NoError(t, err)
	kept, err := s.GetLastMsgForSubject(t.Context(), "lash.archive.s")
	runtest.NoError(t, err)
	at := bytes.Index(kept.Data, []byte("LASHARC1"))
	if at < 0 {
		t.Fatal("the entry has no file")
	}
	kept.Data[at+60] ^= 1
	_, err = js.Publish(t.Context(), "lash.archive.s", kept.Data)
	runtest.NoError(t, err)
}

// replaceEntry puts the entry of another history of the same length.
func replaceEntry(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	other := bustest.Start(t)
	for n := range 5 {
		c := commit("s", n+1)
		c.At += 1000
		_, err := other.Log().Append(t.Context(), c, events.Seq(n))
		runtest.NoError(t, err)
	}
	runtest.NoError(t, other.Archive(t.Context(), "s", 5))
	s, err := jetStream(t, other).Stream(t.Context(), "lash-archive")
	runtest.NoError(t, err)
	whole, err := s.GetLastMsgForSubject(t.Context(), "lash.archive.s")
	runtest.NoError(t, err)
	_, err = js.Publish(t.Context(), "lash.archive.s", whole.Data)
	runtest.NoError(t, err)
}

// deleteArchiveBlob deletes the blob of the archive.
func deleteArchiveBlob(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	blobs, err := js.ObjectStore(t.Context(), "lash-blobs")
	runtest.NoError(t, err)
	list, err := blobs.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("got %d blobs, %v, want the archive", len(list), err)
	}
	runtest.NoError(t, blobs.Delete(t.Context(), list[0].Name))
}

// TestDiscardLostSeal has the server lose a seal after the archiver saw it, and the session takes more commits: these
// are archived too.
func TestDiscardLostSeal(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	js := jetStream(t, b)
	want := appendUpTo(t, b, "s", nil, 5)
	runtest.NoError(t, b.Archive(t.Context(), "s", 5))
	unseal(t, js, streams(t, b)[0])
	want = appendUpTo(t, b, "s", want, 7)
	for range 2 { // the first call finds the new commits
		if err := makeCold(t.Context(), b, "s", 7); err != nil && !errors.Is(err, bus.ErrStale) {
			t.Fatal(err)
		}
	}
	runtest.EqualLists(t, "streams", streams(t, b), nil)
	runtest.EqualLists(t, "history", history(t, b, "s", 0), want)
	want = appendUpTo(t, b, "s", want, 8)
	runtest.EqualLists(t, "history later", history(t, b, "s", 0), want)
}

// unseal creates a stream again, not sealed.
func unseal(t *testing.T, js jetstream.JetStream, name string) {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	runtest.NoError(t, err)
	info := s.CachedInfo()
	var messages []*jetstream.RawStreamMsg
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(t.Context(), seq)
		runtest.NoError(t, err)
		messages = append(messages, m)
	}
	runtest.NoError(t, js.DeleteStream(t.Context(), name))
	cfg := info.Config
	cfg.Sealed, cfg.DenyDelete, cfg.DenyPurge = false, false, false
	_, err = js.CreateStream(t.Context(), cfg)
	runtest.NoError(t, err)
	for _, m := range messages {
		header := nats.Header{}
		for key, values := range m.Header {
			if key != jetstream.ExpectedLastSeqHeader {
				header[key] = values
			}
		}
		_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Data: m.Data, Header: header})
		runtest.NoError(t, err)
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
		runtest.NoError(t, b.Archive(t.Context(), id, 5))
		var erasing sync.WaitGroup
		erase := func() {
			_, err := b.PutTombstone(t.Context(), id, nil, tombstone, nil)
			if err == nil && round > 0 {
				err = b.Purge(t.Context(), id)
			}
			runtest.WantError(t, "erase", err, nil)
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
