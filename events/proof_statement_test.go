package events_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
)

// erasedHistory is a history with heads, and what a node signs when it erases it.
func erasedHistory(t *testing.T, signer *proof.Signer) (*writer, *proof.Tombstone) {
	t.Helper()
	w := &writer{TB: t, signer: signer}
	w.turn(3)
	w.turn(2)
	w.append(events.Of("", &events.TaskHidden{Task: "k", Label: "after the head"}))
	last := len(w.log) - 1
	tree := w.state.Tree.Clone()
	full := proof.State{}
	for _, e := range w.log[:last] {
		full.Commit(e.Seq, events.CommitHash(e.Data))
	}
	root := full.Tree.Root(events.CommitHash(w.log[last].Data))
	if tree.Size() != int64(len(w.log)) {
		t.Fatalf("got a tree of %d, want %d", tree.Size(), len(w.log))
	}
	head := proof.HeadOf(w.log[last-1])
	if want := w.heads[len(w.heads)-1].Note; head == nil || head.Note != want {
		t.Fatalf("head of the commit: got %+v, want the note that was signed: %s", head, want)
	}
	if none := proof.HeadOf(w.log[last]); none != nil {
		t.Errorf("head of a commit without one: got %+v", none)
	}
	return w, &proof.Tombstone{
		Session: sid, Signed: 60_000, At: 59_000, By: "ann", Reason: "asked\nby \x01 \u2028 \"mail\"", Size: events.Seq(len(w.log)), Root: &root, Head: head.Note,
	}
}

// TestTombstone compares the text with the format's, and reads it.
func TestTombstone(t *testing.T) {
	t.Parallel()
	tenant, verifier := tenantOf(t, "example.com/t")
	signer := signerOf(t, tenant, "n1", 0, 1_000_000)
	_, want := erasedHistory(t, signer)
	for _, retention := range []bool{false, true} {
		want.Retention = retention
		text, err := signer.SignTombstone(want)
		runtest.NoError(t, err)
		lines := strings.Split(text, "\n")
		origin := map[bool]string{false: "request", true: "retention"}[retention]
		head := []string{
			"lash tombstone v1", "example.com/t/s/s1", "60000", "59000", origin, `"ann"`, `"asked\nby \u0001 \u2028 \"mail\""`, "6",
			base64.StdEncoding.EncodeToString(want.Root[:]),
		}
		for i, line := range head {
			runtest.Equal(t, fmt.Sprintf("line %d", i+1), lines[i], line)
		}
		if !strings.HasPrefix(lines[9], `"example.com/t/s/s1\n5\n`) || lines[10] != "" || len(lines) != 14 {
			t.Errorf("got lines %q, want the last head, an empty line and two signatures", lines[9:])
		}
		got, cert, err := proof.ReadTombstone([]byte(text), []note.Verifier{verifier})
		if err != nil || cert.Name != "n1" {
			t.Fatalf("read: got %v, %v", cert, err)
		}
		if *got.Root != *want.Root {
			t.Errorf("root: got %s, want %s", got.Root, want.Root)
		}
		got.Root = want.Root
		if *got != *want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// TestTombstoneRefused changes every byte of the signed text, and reads tombstones of other keys and times.
func TestTombstoneRefused(t *testing.T) {
	t.Parallel()
	tenant, verifier := tenantOf(t, "example.com/t")
	_, otherVerifier := tenantOf(t, "example.com/u")
	signer := signerOf(t, tenant, "n1", 0, 1_000_000)
	w, good := erasedHistory(t, signer)
	text, err := signer.SignTombstone(good)
	runtest.NoError(t, err)
	trusted := []note.Verifier{verifier}
	end := strings.LastIndex(text, "\n\n")
	for i := range end {
		changed := []byte(text)
		changed[i] ^= 1
		if _, _, err := proof.ReadTombstone(changed, trusted); !errors.Is(err, proof.ErrUnknownKey) && !errors.Is(err, events.ErrMalformed) {
			t.Fatalf("byte %d changed: got %v, want an error", i, err)
		}
	}
	_, _, err = proof.ReadTombstone([]byte(text), []note.Verifier{otherVerifier})
	runtest.WantError(t, "another tenant", err, proof.ErrUnknownKey)
	_, _, err = proof.ReadTombstone([]byte(w.heads[0].Note), trusted)
	runtest.WantError(t, "a head", err, events.ErrMalformed)
	_, _, err = proof.ReadHead([]byte(text), trusted)
	runtest.WantError(t, "a tombstone as a head", err, events.ErrMalformed)
	late := *good
	late.Signed = 1_000_000
	if text, err = signer.SignTombstone(&late); err != nil {
		t.Fatal(err)
	}
	_, _, err = proof.ReadTombstone([]byte(text), trusted)
	runtest.WantError(t, "after the certificate's end", err, proof.ErrUnknownKey)
}

// TestTombstoneLastHead: the head in a tombstone is as the erased history had it. Whatever that is, the tombstone is what its
// node signed.
func TestTombstoneLastHead(t *testing.T) {
	t.Parallel()
	tenant, verifier := tenantOf(t, "example.com/t")
	other, _ := tenantOf(t, "example.com/u")
	signer := signerOf(t, tenant, "n1", 0, 1_000_000)
	_, good := erasedHistory(t, signer)
	trusted := []note.Verifier{verifier}
	foreign := (&writer{TB: t, signer: signerOf(t, other, "n2", 0, 1_000_000)})
	foreign.turn(2)
	if h, err := good.LastHead(trusted); err != nil || h.Session != sid || h.Size != 5 {
		t.Errorf("last head: got %+v, %v, want one of 5 commits", h, err)
	}
	for name, c := range map[string]struct {
		change func(*proof.Tombstone)
		want   error
	}{
		"of_more_commits": {func(x *proof.Tombstone) { x.Size = 4 }, proof.ErrContradiction},
		"of_another_root": {func(x *proof.Tombstone) { x.Size = 5 }, proof.ErrContradiction},
		"of_another":      {func(x *proof.Tombstone) { x.Session = "s2" }, proof.ErrContradiction},
		"of_another_key":  {func(x *proof.Tombstone) { x.Head = foreign.heads[0].Note }, proof.ErrUnknownKey},
		"malformed":       {func(x *proof.Tombstone) { x.Head = "x" }, events.ErrMalformed},
		"none":            {func(x *proof.Tombstone) { x.Head = "" }, nil},
	} {
		changed := *good
		c.change(&changed)
		text, err := signer.SignTombstone(&changed)
		runtest.NoError(t, err)
		got, _, err := proof.ReadTombstone([]byte(text), trusted)
		if err != nil || got.Head != changed.Head {
			t.Errorf("%s: read the tombstone: got %+v, %v, want its head", name, got, err)
			continue
		}
		if h, err := got.LastHead(trusted); !errors.Is(err, c.want) || h != nil {
			t.Errorf("%s: got %+v, %v, want %v", name, h, err, c.want)
		}
	}
}

// TestTombstoneWithoutRoot: a history that cannot be read, or has no head.
func TestTombstoneWithoutRoot(t *testing.T) {
	t.Parallel()
	tenant, verifier := tenantOf(t, "example.com/t")
	signer := signerOf(t, tenant, "n1", 0, 1_000_000)
	text, err := signer.SignTombstone(&proof.Tombstone{Session: sid, Signed: 1, At: 1, Size: 7})
	runtest.NoError(t, err)
	want := fmt.Sprintf("\n7\n-\n%q\n\n", "")
	got, _, err := proof.ReadTombstone([]byte(text), []note.Verifier{verifier})
	if err != nil || got.Root != nil || got.Head != "" || got.Size != 7 || !strings.Contains(text, want) {
		t.Errorf("got %+v, %v, want no root and no head in %q", got, err, text)
	}
}
