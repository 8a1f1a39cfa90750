package events_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestLeafData compares the hash with one of leaf data that are built by hand from FORMAT.md.
func TestLeafData(t *testing.T) {
	t.Parallel()
	c := commitOf("c1", events.Of("t1", &events.SessionClosed{Reason: "done"}))
	payload := []byte("\x81\xa1r\xa4done")
	for name, salt := range map[string][]byte{"salted": bytes.Repeat([]byte{7}, 16), "bare": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			salted := *c
			salted.Salt = salt
			data := encode(t, &salted)
			want, hashed := data, payload
			if salt != nil {
				of := sha256.Sum256(binary.BigEndian.AppendUint16(slices.Clone(salt), 0))
				hashed = append(of[:16:16], payload...)
				want = bytes.Replace(want, append([]byte("\xa1n\xc4\x10"), salt...), []byte("\xa1n\xc0"), 1)
			}
			sum := sha256.Sum256(hashed)
			want = bytes.Replace(want, append([]byte("\xa1p"), payload...), append([]byte("\xa1h\xc4\x20"), sum[:]...), 1)
			if got := events.CommitHash(data); got != sha256.Sum256(append([]byte{0}, want...)) {
				t.Errorf("got %x, want the hash of %x", got, want)
			}
			redacted, err := events.Redact(data, func(int, events.Kind) bool { return false })
			if err != nil || !bytes.Equal(redacted, want) {
				t.Errorf("redacted: got %x, %v, want %x", redacted, err, want)
			}
		})
	}
}

// TestHeadCoversItsCommit: the leaf of a commit with a head depends on everything but the signature.
func TestHeadCoversItsCommit(t *testing.T) {
	t.Parallel()
	head := events.AuditHeadSigned{Key: goldenBytes(32), Before: 1, Edge: goldenBytes(32), Signature: goldenBytes(64)}
	leaf := func(change func(*events.AuditHeadSigned)) [32]byte {
		h := head
		change(&h)
		return events.CommitHash(encode(t, commitOf("c1", events.Of("", &events.SessionClosed{}), events.Of("", &h))))
	}
	plain := leaf(func(*events.AuditHeadSigned) {})
	runtest.Equal(t, "another signature", leaf(func(h *events.AuditHeadSigned) { h.Signature = make([]byte, 64) }), plain)
	for name, change := range map[string]func(*events.AuditHeadSigned){
		"key":         func(h *events.AuditHeadSigned) { h.Key = make([]byte, 32) },
		"certificate": func(h *events.AuditHeadSigned) { h.Certificate = "c" },
		"edge":        func(h *events.AuditHeadSigned) { h.Edge = make([]byte, 32) },
		"leaves":      func(h *events.AuditHeadSigned) { h.Leaves = make([]byte, 32) },
	} {
		if leaf(change) == plain {
			t.Errorf("another %s: got the same leaf", name)
		}
	}
}

// TestRedactKeepsLeaf redacts some events of a commit, and then more, or fewer at once: the leaf stays, and so does
// everything that is not redacted.
func TestRedactKeepsLeaf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := eventstest.Commit().Draw(t, "commit")
		data, err := events.Encode(c)
		runtest.NoError(t, err)
		kept := rapid.SliceOfN(rapid.Bool(), len(c.Events), len(c.Events)).Draw(t, "kept")
		once, err := events.Redact(data, func(i int, _ events.Kind) bool { return kept[i] })
		runtest.NoError(t, err)
		checkRedacted(t, c, data, once, kept)
		twice, err := events.Redact(once, func(int, events.Kind) bool { return false })
		runtest.NoError(t, err)
		checkRedacted(t, c, data, twice, make([]bool, len(kept)))
	})
}

// checkEntryLeaf compares the leaf of an entry, whose decoder noted the places, with that of its bytes.
func checkEntryLeaf(t interface{ Errorf(string, ...any) }, e events.Entry, want [32]byte) {
	if got, _, err := e.Hash(); err != nil || got != want {
		t.Errorf("%x: leaf of the entry: got %x, %v, want %x", e.Data, got, err, want)
	}
	e.Data = append(bytes.Clone(e.Data[:len(e.Data)-1]), e.Data[len(e.Data)-1]^1)
	if got, size, err := e.Hash(); err != nil || size != len(e.Data) || got != events.CommitHash(e.Data) {
		t.Errorf("%x: leaf of an entry with other data: got %x, %v", e.Data, got, err)
	}
}

func checkRedacted(t *rapid.T, c *events.Commit, data, redacted []byte, kept []bool) {
	if got, want := events.CommitHash(redacted), events.CommitHash(data); got != want {
		t.Fatalf("leaf: got %x, want %x", got, want)
	}
	e, err := events.DecodeEntry(1, redacted)
	runtest.NoError(t, err)
	checkEntryLeaf(t, e, events.CommitHash(data))
	got := e.Commit
	again, err := events.Encode(got)
	if err != nil || !bytes.Equal(again, redacted) {
		t.Fatalf("encoded again: got %x, %v, want %x", again, err, redacted)
	}
	for i := range c.Events {
		stays := kept[i] || c.Events[i].Kind == events.KindAuditHeadSigned
		if gone := got.Events[i].Redacted != nil; gone == stays {
			t.Fatalf("event %d: redacted: got %v, want %v", i, gone, !stays)
		}
		if stays && (got.Events[i].Payload == nil) != (c.Events[i].Payload == nil) {
			t.Fatalf("event %d: got %+v, want %+v", i, got.Events[i], c.Events[i])
		}
	}
}

// TestLeafOfOtherForms: a commit whose bytes change has another leaf, also where it decodes to the same values.
func TestLeafOfOtherForms(t *testing.T) {
	t.Parallel()
	c := commitOf("c1", events.Of("t1", &events.SessionClosed{Reason: "done"}), events.Of("", &events.TaskHidden{Task: "k", Label: "l"}))
	c.Salt = goldenBytes(16)
	data := encode(t, c)
	salt := append([]byte("\xa1n\xc4\x10"), c.Salt...)
	for name, change := range map[string][2][]byte{
		"long head of the salt":   {salt, append([]byte("\xa1n\xc5\x00\x10"), c.Salt...)},
		"long tag of the salt":    {salt, append([]byte("\xd9\x01n\xc4\x10"), c.Salt...)},
		"long tag of the payload": {[]byte("\xa1p\x81\xa1r"), []byte("\xd9\x01p\x81\xa1r")},
		"long text in a payload":  {[]byte("\xa4done"), []byte("\xd9\x04done")},
		"long tag of the events":  {[]byte("\xa1e\x92"), []byte("\xd9\x01e\x92")},
		"long array":              {[]byte("\xa1e\x92"), []byte("\xa1e\xdc\x00\x02")},
	} {
		other := bytes.Replace(data, change[0], change[1], 1)
		if bytes.Equal(other, data) {
			t.Fatalf("%s: nothing changed", name)
		}
		if events.CommitHash(other) == events.CommitHash(data) {
			t.Errorf("%s: got the same leaf", name)
		}
		e, err := events.DecodeEntry(1, other)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := sha256.Sum256(append([]byte{0}, other...)); name != "long text in a payload" && name != "long array" {
			checkEntryLeaf(t, e, want)
		} else {
			checkEntryLeaf(t, e, events.CommitHash(other))
		}
	}
	long := bytes.Replace(data, []byte("\xa1p\x81\xa1r"), []byte("\xd9\x01p\x81\xa1r"), 1)
	_, err := events.Redact(long, func(int, events.Kind) bool { return false })
	runtest.WantError(t, "redact another form", err, events.ErrMalformed)
}

func FuzzLeaf(f *testing.F) {
	c := commitOf("c1", events.Of("t1", &events.SessionClosed{Reason: "done"}))
	c.Salt = goldenBytes(16)
	data := encode(f, c)
	f.Add(data)
	redacted, err := events.Redact(data, func(int, events.Kind) bool { return false })
	runtest.NoError(f, err)
	f.Add(redacted)
	f.Fuzz(func(t *testing.T, data []byte) {
		leaf := events.CommitHash(data)
		if e, err := events.DecodeEntry(1, data); err == nil {
			checkEntryLeaf(t, e, leaf)
		}
		redacted, err := events.Redact(data, func(int, events.Kind) bool { return false })
		if err == nil && events.CommitHash(redacted) != leaf {
			t.Errorf("%x: redacted to %x, which has another leaf", data, redacted)
		}
	})
}

func encode(tb testing.TB, c *events.Commit) []byte {
	tb.Helper()
	data, err := events.Encode(c)
	runtest.NoError(tb, err)
	return data
}
