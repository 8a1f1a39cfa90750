package follow_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

// TestEraseOvertaken: another program erases the session while the first one reads its history to sign it. Both get
// the tombstone that is stored.
func TestEraseOvertaken(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 40, 10)
	root := rootOf(t, b, "s")
	signer, key := eventstest.Signing(t)
	var first bus.Tombstone
	got, err := follow.Erase(t.Context(), b, "s", nil, bus.Tombstone{At: 6000, By: "bob", Reason: "late"}, func() *proof.Signer {
		if first.IsZero() {
			var err error
			if first, err = follow.Erase(t.Context(), b, "s", nil, stone("s"), signer); err != nil {
				t.Error(err)
			}
		}
		return signer()
	})
	if err != nil || got != first || got.By != "ann" {
		t.Errorf("overtaken: got %+v, %v, want the first tombstone %+v", got, err, first)
	}
	hasSigned(t, b, "s", root, key)
	erased(t, b, "s", 40)
}

// TestEraseTexts: a tombstone's texts are UTF-8, because the signed one has them as JSON.
func TestEraseTexts(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 4, 1)
	signer, _ := eventstest.Signing(t)
	for field, x := range map[string]bus.Tombstone{"reason": {At: 5000, By: "ann", Reason: "caf\xe9"}, "by": {At: 5000, By: "caf\xe9", Reason: "r"}} {
		_, err := follow.Erase(t.Context(), b, "s", nil, x, signer)
		if at, ok := errors.AsType[*events.FieldError](err); !ok || at.Field != field {
			t.Errorf("%s: got %v, want an error of that field", field, err)
		}
	}
	if last, err := b.Log().Last(t.Context(), "s"); err != nil || last != 4 {
		t.Errorf("after refused erasures: got the end %d, %v, want 4", last, err)
	}
	if row, err := b.Directory().Get(t.Context(), "s"); err != nil || row.Revision != 0 {
		t.Errorf("after refused erasures: got row %s, %v, want none, as an archiver finishes an erasure that a row names", row.Value, err)
	}
}

// TestEraseForeignHead: the last head of the history is of another tenant, as an imported session has one. The tombstone is
// what this tenant's node signed.
func TestEraseForeignHead(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 4, 1)
	foreign, _ := eventstest.Signing(t)
	signer, key := eventstest.Signing(t)
	s := refold(t, b, "s")
	signed, head, err := foreign().Sign(commit("s", 5, 1), &s.Proof)
	runtest.NoError(t, err)
	_, err = b.Log().Append(t.Context(), signed, s.Seq)
	runtest.NoError(t, err)
	root := rootOf(t, b, "s")
	_, err = follow.Erase(t.Context(), b, "s", nil, stone("s"), signer)
	runtest.NoError(t, err)
	hasSigned(t, b, "s", root, key)
	kept, err := b.Tombstone(t.Context(), "s")
	runtest.NoError(t, err)
	got, _, err := proof.ReadTombstone([]byte(kept.Note), []note.Verifier{key})
	if err != nil || got.Head != head.Note {
		t.Fatalf("got %+v, %v, want the foreign head", got, err)
	}
	if h, err := got.LastHead([]note.Verifier{key}); h != nil || !errors.Is(err, proof.ErrUnknownKey) {
		t.Errorf("last head: got %+v, %v, want %v", h, err, proof.ErrUnknownKey)
	}
}

// TestRetainRestored: an importer died before the session's row. The archiver makes it, and the session's retention ends;
// one with work left is woken instead.
func TestRetainRestored(t *testing.T) {
	t.Parallel()
	from, b := bustest.Start(t), bustest.Start(t)
	grow(t, from, "done", 0, 4, 1)
	grow(t, from, "queued", 0, 4, 1)
	c := commit("queued", 5, 1)
	c.Events = []events.Event{events.Of("t1", &events.TurnRequested{})}
	_, err := from.Log().Append(t.Context(), c, 4)
	runtest.NoError(t, err)
	for _, id := range []events.SessionID{"done", "queued"} {
		runtest.NoError(t, b.Restore(t.Context(), id, from.Log()))
	}
	woken := make(map[events.SessionID]int)
	a := follow.NewArchiver(b, follow.ArchiverConfig{Retain: time.Second, Wake: func(_ context.Context, s *projector.State) error {
		woken[s.Session]++
		return nil
	}})
	for range 2 {
		runtest.NoError(t, a.Retain(t.Context(), time.Now().Add(24*time.Hour)))
	}
	if row := directoryRow(t, b, "done"); row.Status != projector.StatusErased || row.Erased == nil || row.Erased.By != "retention" {
		t.Errorf("done: got %+v, want a tombstone of the retention", row)
	}
	if row := directoryRow(t, b, "queued"); row.Place != follow.PlaceCold || row.Queued != 1 || row.Seq != 5 {
		t.Errorf("queued: got %+v, want a cold row with a turn", row)
	}
	if len(woken) != 1 || woken["queued"] != 2 { // when its row is made, and at the end of its retention
		t.Errorf("woken: got %v, want the session with a queued turn, twice", woken)
	}
}
