package events_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// writeArchive writes an archive with commits of session s1 from sequence first on, and blobs between them.
func writeArchive(tb testing.TB, first events.Seq, commits []*events.Commit, blobs ...[]byte) []byte {
	tb.Helper()
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, "s1", first)
	runtest.NoError(tb, err)
	for i, c := range commits {
		if i < len(blobs) {
			runtest.NoError(tb, w.Blob(blobs[i]))
		}
		runtest.NoError(tb, w.Commit(events.Entry{Seq: first + events.Seq(i), Commit: c}))
	}
	for range 2 {
		runtest.NoError(tb, w.Close())
	}
	return file.Bytes()
}

// contents is the content of an archive.
type contents struct {
	session events.SessionID
	first   events.Seq
	commits []*events.Commit
	seqs    []events.Seq
	blobs   map[string][]byte
}

func contentsOf(tb testing.TB, a *events.Archive) contents {
	tb.Helper()
	c := contents{session: a.Session, first: a.First, blobs: a.Blobs}
	for entry, err := range a.Log.Read(tb.Context(), a.Session, 0) {
		runtest.NoError(tb, err)
		c.commits, c.seqs = append(c.commits, entry.Commit), append(c.seqs, entry.Seq)
	}
	return c
}

func smallArchive(tb testing.TB) ([]byte, contents) {
	tb.Helper()
	want := contents{session: "s1", first: 7, blobs: make(map[string][]byte)}
	for i, kind := range []events.Kind{events.KindSessionOpened, events.KindTurnRequested, events.KindInputAccepted} {
		c := goldenCommit(kind)
		c.ID = events.CommitID(string(rune('a' + i)))
		want.commits, want.seqs = append(want.commits, c), append(want.seqs, want.first+events.Seq(i))
	}
	blobs := [][]byte{[]byte("a body"), {}}
	for _, b := range blobs {
		sum := sha256.Sum256(b)
		want.blobs[hex.EncodeToString(sum[:])] = b
	}
	return writeArchive(tb, want.first, want.commits, blobs...), want
}

func TestArchiveRoundTrip(t *testing.T) {
	t.Parallel()
	file, want := smallArchive(t)
	a, err := events.ReadArchive(bytes.NewReader(file), 1<<30)
	runtest.NoError(t, err)
	got := contentsOf(t, a)
	if len(got.blobs) != len(want.blobs) {
		t.Fatalf("got %d blobs, want %d", len(got.blobs), len(want.blobs))
	}
	for digest, body := range want.blobs {
		if !bytes.Equal(got.blobs[digest], body) {
			t.Errorf("blob %s: got %q, want %q", digest, got.blobs[digest], body)
		}
	}
	got.blobs = want.blobs // empty bodies differ: nil or empty
	runtest.DeepEqual(t, "got", got, want)
}

// TestArchiveLarge covers commits in several frames and repeated commit ids.
func TestArchiveLarge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	want := contents{session: "s1", first: 1, blobs: map[string][]byte{}}
	for i := range events.Seq(40) {
		noise := make([]byte, 20<<10)
		for j := range noise {
			noise[j] = byte(random.Uint32())
		}
		c := commitOf("twice", events.Of("", &events.SessionClosed{Reason: hex.EncodeToString(noise)}))
		want.commits, want.seqs = append(want.commits, c), append(want.seqs, i+1)
	}
	a, err := events.ReadArchive(bytes.NewReader(writeArchive(t, 1, want.commits)), 1<<30)
	runtest.NoError(t, err)
	if got := contentsOf(t, a); !reflect.DeepEqual(got, want) {
		t.Errorf("got %d commits from %d, want %d", len(got.commits), got.first, len(want.commits))
	}
}

// Data that does not compress must fit a frame too.
func TestLongArchiveLargestBlob(t *testing.T) {
	t.Parallel()
	body := make([]byte, events.MaxBlobBytes)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(body)
	a, err := events.ReadArchive(bytes.NewReader(writeArchive(t, 1, []*events.Commit{commitOf("c1")}, body)), 1<<30)
	runtest.NoError(t, err)
	sum := sha256.Sum256(body)
	if !bytes.Equal(a.Blobs[hex.EncodeToString(sum[:])], body) {
		t.Error("the body is not what it was")
	}
}

func TestArchiveEmpty(t *testing.T) {
	t.Parallel()
	a, err := events.ReadArchive(bytes.NewReader(writeArchive(t, 5, nil)), 1<<30)
	runtest.NoError(t, err)
	if got := contentsOf(t, a); len(got.commits) != 0 || got.first != 5 {
		t.Errorf("got %+v, want nothing from 5 on", got)
	}
}

func TestArchiveCorrupted(t *testing.T) {
	t.Parallel()
	file, _ := smallArchive(t)
	whole, err := events.ReadArchive(bytes.NewReader(file), 1<<30)
	runtest.NoError(t, err)
	want := contentsOf(t, whole)
	for i := range file {
		for _, flip := range []byte{0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80, 0xff} {
			broken := bytes.Clone(file)
			broken[i] ^= flip
			a, err := events.ReadArchive(bytes.NewReader(broken), 1<<30)
			if err != nil {
				mustBeTyped(t, err)
			} else if got := contentsOf(t, a); !reflect.DeepEqual(got, want) {
				t.Fatalf("byte %d changed by %#x: accepted as %+v, want %+v", i, flip, got, want)
			}
		}
	}
}

func TestArchiveTruncated(t *testing.T) {
	t.Parallel()
	file, _ := smallArchive(t)
	for n := range file {
		if _, err := events.ReadArchive(bytes.NewReader(file[:n]), 1<<30); !errors.Is(err, events.ErrMalformed) {
			t.Fatalf("cut to %d of %d bytes: got %v, want %v", n, len(file), err, events.ErrMalformed)
		}
	}
	for _, tail := range [][]byte{{0}, file} {
		if _, err := events.ReadArchive(bytes.NewReader(append(bytes.Clone(file), tail...)), 1<<30); !errors.Is(err, events.ErrMalformed) {
			t.Fatalf("%d more bytes: got %v, want %v", len(tail), err, events.ErrMalformed)
		}
	}
}

func TestArchiveWriterRefuses(t *testing.T) {
	t.Parallel()
	_, err := events.NewArchiveWriter(io.Discard, "a.b", 1)
	runtest.WantError(t, "session", err, events.ErrInvalidID)
	_, err = events.NewArchiveWriter(io.Discard, "s1", 0)
	runtest.WantError(t, "first sequence 0", err, events.ErrInvalid)
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, "s1", 3)
	runtest.NoError(t, err)
	other := commitOf("c1")
	other.Session = "s2"
	broken := commitOf("c1")
	broken.Events = nil
	for _, tc := range []struct {
		name string
		seq  events.Seq
		c    *events.Commit
	}{
		{"before_the_first", 2, commitOf("c1")},
		{"hole", 4, commitOf("c1")},
		{"another_session", 3, other},
		{"invalid", 3, broken},
	} {
		runtest.WantError(t, tc.name, w.Commit(events.Entry{Seq: tc.seq, Commit: tc.c}), events.ErrInvalid)
	}
	runtest.WantError(t, "blob", w.Blob(make([]byte, events.MaxBlobBytes+1)), events.ErrTooLarge)
	// Refused commits and blobs leave no trace.
	runtest.NoError(t, w.Commit(events.Entry{Seq: 3, Commit: commitOf("c1")}))
	runtest.WantError(t, "the same sequence again", w.Commit(events.Entry{Seq: 3, Commit: commitOf("c2")}), events.ErrInvalid)
	runtest.NoError(t, w.Close())
	runtest.WantError(t, "after close", w.Commit(events.Entry{Seq: 4, Commit: commitOf("c3")}), events.ErrInvalid)
	runtest.WantError(t, "blob after close", w.Blob(nil), events.ErrInvalid)
	a, err := events.ReadArchive(&file, 1<<30)
	runtest.NoError(t, err)
	if got := contentsOf(t, a); len(got.commits) != 1 {
		t.Errorf("got %d commits, want 1", len(got.commits))
	}
}

var errFull = errors.New("disk full")

// fullAfter fails after n written bytes.
type fullAfter struct{ n int }

func (w *fullAfter) Write(b []byte) (int, error) {
	if w.n -= len(b); w.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestLongArchiveWriteFails(t *testing.T) {
	t.Parallel()
	file, want := smallArchive(t)
	for n := range file {
		w, err := events.NewArchiveWriter(&fullAfter{n: n}, "s1", want.first)
		if err != nil {
			if !errors.Is(err, errFull) {
				t.Fatalf("got %v, want %v", err, errFull)
			}
			continue
		}
		for i, c := range want.commits {
			_ = w.Blob([]byte("a body"))
			_ = w.Commit(events.Entry{Seq: want.seqs[i], Commit: c})
		}
		for range 2 {
			if err := w.Close(); !errors.Is(err, errFull) {
				t.Fatalf("close after %d bytes: got %v, want %v", n, err, errFull)
			}
		}
	}
}

// TestArchiveBomb reads files that are much smaller than their content, up to the limit.
func TestArchiveBomb(t *testing.T) {
	t.Parallel()
	const size, bodies = 8 << 20, 4
	var commits []*events.Commit
	var blobs [][]byte
	for i := range bodies {
		commits = append(commits, commitOf(events.CommitID("c"+strconv.Itoa(i))))
		blobs = append(blobs, bytes.Repeat([]byte{byte(i)}, size))
	}
	file := writeArchive(t, 1, commits, blobs...)
	if len(file) > size/100 {
		t.Fatalf("got a file of %d bytes, want a small one", len(file))
	}
	if _, err := events.ReadArchive(bytes.NewReader(file), bodies*size); !errors.Is(err, events.ErrTooLarge) || !strings.Contains(err.Error(), strconv.Itoa(bodies*size)) {
		t.Errorf("above the limit: got %v, want %v and the limit", err, events.ErrTooLarge)
	}
	if a, err := events.ReadArchive(bytes.NewReader(file), bodies*size+1024); err != nil || len(a.Blobs) != bodies {
		t.Errorf("within the limit: got %v, want %d bodies", err, bodies)
	}
}

func FuzzReadArchive(f *testing.F) {
	file, _ := smallArchive(f)
	f.Add(file)
	f.Add(writeArchive(f, 1, nil))
	f.Add([]byte("LASHARC1h\x00\x00\x00\x01\x80"))
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 20
		a, err := events.ReadArchive(bytes.NewReader(data), limit)
		if err != nil {
			mustBeTyped(t, err)
			return
		}
		size := 0
		for _, body := range a.Blobs {
			size += len(body)
		}
		if size > limit {
			t.Fatalf("got %d bytes of bodies, limit is %d", size, limit)
		}
		for entry, err := range a.Log.Read(t.Context(), a.Session, 0) {
			if err != nil || entry.Commit.Session != a.Session {
				t.Fatalf("accepted, but at %d: got %+v, %v", entry.Seq, entry.Commit, err)
			}
		}
	})
}

// A node of an older version archives a newer history without loss of unknown fields.
func TestArchiveKeepsUnknownFields(t *testing.T) {
	t.Parallel()
	c := commitOf("c1")
	data, err := events.Encode(c)
	runtest.NoError(t, err)
	// One more field at the end of the commit's map, with a tag that this version does not know.
	newer := append([]byte{data[0] + 1}, data[1:]...)
	newer = append(newer, 0xa1, 'z', 0xa3, 'n', 'e', 'w')
	_, err = events.Decode(newer)
	runtest.NoError(t, err)
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, c.Session, 1)
	runtest.NoError(t, err)
	runtest.NoError(t, errors.Join(w.Commit(events.Entry{Seq: 1, Commit: c, Data: newer}), w.Close()))
	archive, err := events.ReadArchive(&file, 1<<30)
	runtest.NoError(t, err)
	for entry, err := range archive.Log.Read(t.Context(), c.Session, 1) {
		if err != nil || !bytes.Equal(entry.Data, newer) {
			t.Errorf("got %x and %v, want %x", entry.Data, err, newer)
		}
	}
}

// TestPeekArchive tells an archive from other files, and returns all of both.
func TestPeekArchive(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file string
		want bool
	}{
		"archive": {"LASHARC1h\x00\x00", true}, "magic_alone": {"LASHARC1", true}, "shorter": {"LASHARC", false},
		"empty": {"", false}, "lines_of_JSON": {`{"messages":[]}`, false}, "later_version": {"LASHARC2h", false},
	} {
		whole, got, err := events.PeekArchive(iotest.OneByteReader(strings.NewReader(c.file)))
		if err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
			continue
		}
		if all, err := io.ReadAll(whole); string(all) != c.file || err != nil {
			t.Errorf("%s: got %q, %v, want all of it", name, all, err)
		}
	}
	failed := errors.New("no such disk")
	_, _, err := events.PeekArchive(iotest.ErrReader(failed))
	runtest.WantError(t, "peek archive", err, failed)
}
