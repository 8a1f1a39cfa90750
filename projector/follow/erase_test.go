package follow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

func stone(id events.SessionID) bus.Tombstone {
	return bus.Tombstone{At: 5000, By: "ann", Reason: "asked by " + string(id)}
}

func directoryRow(t *testing.T, b *bus.Bus, id events.SessionID) (row follow.Directory) {
	t.Helper()
	stored, err := b.Directory().Get(t.Context(), id)
	if err == nil && stored.Revision != 0 {
		err = json.Unmarshal(stored.Value, &row)
	}
	runtest.NoError(t, err)
	return row
}

// rootOf is the root of a whole history, by an auditor that knows no key.
func rootOf(t *testing.T, b *bus.Bus, id events.SessionID) proof.Hash {
	t.Helper()
	var before proof.Tree
	var leaf proof.Hash
	for e, err := range b.Log().Read(t.Context(), id, 1) {
		runtest.NoError(t, err)
		if e.Seq > 1 {
			before.Append(leaf)
		}
		leaf = events.CommitHash(e.Data)
	}
	return before.Root(leaf)
}

// hasSigned checks the signed tombstone of a session.
func hasSigned(t *testing.T, b *bus.Bus, id events.SessionID, root proof.Hash, key note.Verifier) {
	t.Helper()
	stone, err := b.Tombstone(t.Context(), id)
	runtest.NoError(t, err)
	got, _, err := proof.ReadTombstone([]byte(stone.Note), []note.Verifier{key})
	if err != nil {
		t.Errorf("tombstone of %s: %v", id, err)
		return
	}
	if got.Session != id || got.At != 5000 || got.By != "ann" || got.Reason != "asked by "+string(id) || got.Size != stone.Last || got.Root == nil || *got.Root != root || got.Retention {
		t.Errorf("signed tombstone of %s: got %+v, want the root %s", id, got, root)
	}
}

// erased checks that the row is a tombstone and that everything else is gone.
func erased(t *testing.T, b *bus.Bus, id events.SessionID, seq events.Seq) {
	t.Helper()
	row := directoryRow(t, b, id)
	if row.Status != projector.StatusErased || row.Seq != seq || row.Labels != nil || row.Erased == nil ||
		*row.Erased != (follow.Erased{At: 5000, By: "ann", Reason: "asked by " + string(id)}) {
		t.Errorf("row of %s: got %+v, %+v, want a tombstone at %d", id, row, row.Erased, seq)
	}
	if _, err := follow.Open(t.Context(), b, id); !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("open %s: got %v, want an erased error", id, err)
	}
	index, _ := b.Index()
	for name, rows := range map[string]bus.Rows{"snapshot": b.Snapshots(), "catalogue": b.Catalogs(), "index": index} {
		if stored, err := rows.Get(t.Context(), id); err != nil || stored.Revision != 0 {
			t.Errorf("%s of %s: got revision %d, %v, want none", name, id, stored.Revision, err)
		}
	}
}

// TestEraseRows: a late projector does not replace the tombstone.
func TestEraseRows(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 40, 3)
	mustProject(t, b, "s")
	late := follow.NewProjector(b, nil)
	runtest.NoError(t, late.Project(t.Context(), "s"))
	got, err := follow.Erase(t.Context(), b, "s", nil, stone("s"), nil)
	if err != nil || got.Last != 40 {
		t.Fatalf("erase: got %+v, %v, want the end at 40", got, err)
	}
	erased(t, b, "s", 40)
	if err := late.Project(t.Context(), "s"); !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("late projector: got %v, want an erased error", err)
	}
	if done, err := follow.NewArchiver(b, follow.ArchiverConfig{}).Archive(t.Context(), "s"); done || err != nil {
		t.Errorf("archive: got %t, %v, want nothing to do", done, err)
	}
	erased(t, b, "s", 40)
}

// TestLongArchiveBesideErase archives sessions that are erased at the same time: no archiver reports that, and each is erased.
func TestLongArchiveBesideErase(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for n := range 100 {
		id := events.SessionID(fmt.Sprint("s", n))
		grow(t, b, id, 0, 5, 1)
		var archiving sync.WaitGroup
		for range 2 {
			archiving.Go(func() {
				if _, err := follow.NewArchiver(b, follow.ArchiverConfig{}).Archive(t.Context(), id); err != nil {
					t.Errorf("archive %s: got %v, want it left to the erasure", id, err)
				}
			})
		}
		_, err := follow.Erase(t.Context(), b, id, nil, stone(id), nil)
		runtest.WantError(t, fmt.Sprintf("erase %s", id), err, nil)
		archiving.Wait()
		erased(t, b, id, 5)
	}
}

// TestStatementsHaveTheServersTime signs where the servers say that the certificate has ended, and this machine says that it is valid.
func TestStatementsHaveTheServersTime(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "erased", 0, 4, 1)
	grow(t, b, "redacted", 0, 4, 1)
	signer, _ := eventstest.Signing(t)
	b.Later(200 * 365 * 24 * time.Hour)
	if got, err := follow.Erase(t.Context(), b, "erased", nil, stone("erased"), signer); err != nil || got.Note != "" {
		t.Errorf("erasure: got the note %q, %v, want none", got.Note, err)
	}
	r := events.RedactionRecord{At: b.Millis(), By: "ann", Reason: "asked", What: []string{"graph.appended"}}
	if note, err := follow.SignRedaction(t.Context(), b.Log(), "redacted", r, signer); err != nil || note != "" {
		t.Errorf("redaction: got the note %q, %v, want none", note, err)
	}
}

// TestLongEraseFinished kills the eraser at each request. The next archiver finishes erasures that started, and leaves
// other sessions unchanged. At each time there is the whole session, or a signed tombstone.
func TestLongEraseFinished(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	signer, key := eventstest.Signing(t)
	archiver := follow.NewArchiver(b, follow.ArchiverConfig{Signer: signer})
	whole, gone := 0, 0
	for k := 1; ; k++ {
		id := events.SessionID(fmt.Sprint("s-", k))
		grow(t, b, id, 0, 3, 1)
		mustProject(t, b, id)
		root := rootOf(t, b, id)
		done := bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error {
			_, err := follow.Erase(ctx, victim, id, nil, stone(id), signer)
			return err
		})
		if _, err := follow.Open(t.Context(), b, id); err != nil {
			hasSigned(t, b, id, root, key)
		}
		retain := func() bool {
			runtest.NoError(t, archiver.Retain(t.Context(), time.UnixMilli(9000)))
			return directoryRow(t, b, id).Status != "open"
		}
		if retain() {
			retain() // a late request may follow the first read of the row
			erased(t, b, id, 3)
			hasSigned(t, b, id, root, key)
			gone++
		} else {
			same(t, b, id)
			whole++
		}
		if done {
			break
		}
	}
	if whole == 0 || gone < 5 {
		t.Errorf("got %d whole and %d gone, want both", whole, gone)
	}
}

// kept appends a session with its own retention whose last event is at a time.
func kept(t *testing.T, b *bus.Bus, id events.SessionID, retain int64, last events.Millis) {
	t.Helper()
	c := commit(id, 1, 1)
	c.Actor = events.Actor{Kind: events.ActorClient, ID: "ann"}
	c.At, c.Events[0] = last, events.Of("", &events.SessionOpened{Config: events.Config{RetainMillis: retain}})
	_, err := b.Log().Append(t.Context(), c, 0)
	runtest.NoError(t, err)
	mustProject(t, b, id)
}

// TestRetain erases exactly the sessions whose own or default retention has ended, hot or cold.
func TestRetain(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	now := time.Now().Add(time.Hour) // the servers stored everything one hour earlier
	at := events.MillisOf(now)
	for id, s := range map[events.SessionID]struct {
		retain int64
		last   events.Millis
	}{
		"own": {5000, at - 5000}, "own-cold": {5000, at - 5000}, "own-young": {5000, at - 4999}, "own-forever": {-1, 1},
		"huge": {1 << 62, 1}, "node": {0, at - 60_000}, "node-cold": {0, at - 60_000}, "node-young": {0, at - 59_999},
		"woken": {5000, at - 5000}, "works": {5000, at - 5000},
		"stamped": {7_200_000, 1}, "stamped-cold": {7_200_000, 1}, // by a clock that is years behind
	} {
		kept(t, b, id, s.retain, s.last)
	}
	signer, key := eventstest.Signing(t)
	archiver := follow.NewArchiver(b, follow.ArchiverConfig{Retain: time.Minute, Signer: signer})
	for _, id := range []events.SessionID{"own-cold", "node-cold", "stamped-cold"} {
		if done, err := archiver.Archive(t.Context(), id); !done || err != nil {
			t.Fatalf("archive %s: got %t, %v", id, done, err)
		}
	}
	woken := commit("woken", 2, 1) // no projector has processed it
	woken.At = at - 1000
	works := commit("works", 2, 0)
	works.At, works.Events = at-5000, []events.Event{events.Of("t1", &events.TurnRequested{})}
	for _, c := range []*events.Commit{woken, works} {
		_, err := b.Log().Append(t.Context(), c, 1)
		runtest.NoError(t, err)
	}
	runtest.NoError(t, follow.NewArchiver(b, follow.ArchiverConfig{Retain: time.Minute, Least: 2 * time.Hour}).Retain(t.Context(), now))
	for _, id := range []events.SessionID{"own", "own-cold", "node"} {
		_, err := follow.Open(t.Context(), b, id)
		runtest.WantError(t, fmt.Sprintf("%s, kept for two hours at least", id), err, nil)
	}
	for range 2 {
		runtest.NoError(t, archiver.Retain(t.Context(), now))
		for id, gone := range map[events.SessionID]bool{
			"own": true, "own-cold": true, "own-young": false, "own-forever": false, "huge": false,
			"node": true, "node-cold": true, "node-young": false, "woken": false, "works": false,
			"stamped": false, "stamped-cold": false,
		} {
			_, err := follow.Open(t.Context(), b, id)
			if erased := errors.As(err, new(*events.ErasedError)); erased != gone {
				t.Errorf("%s: got %v, want erased %t", id, err, gone)
			}
		}
	}
	if row := directoryRow(t, b, "own-cold"); row.Erased == nil || row.Erased.By != "retention" || row.Erased.Reason != "kept for 5s after its last event, as client:ann asked at sequence 1" || row.Erased.At != at {
		t.Errorf("tombstone: got %+v, want one that says why", row.Erased)
	}
	stone, err := b.Tombstone(t.Context(), "own-cold")
	runtest.NoError(t, err)
	if got, _, err := proof.ReadTombstone([]byte(stone.Note), []note.Verifier{key}); err != nil || !got.Retention || got.By != "retention" || got.Size != 1 {
		t.Errorf("signed tombstone: got %+v, %v, want that of a retention", got, err)
	}
	runtest.NoError(t, follow.NewArchiver(b, follow.ArchiverConfig{}).Retain(t.Context(), now.Add(time.Hour)))
	_, err = follow.Open(t.Context(), b, "node-young")
	runtest.WantError(t, "without a time of the node's", err, nil)
}

// TestErasingRow: the row of an eraser that died before the tombstone stays, whatever a projector or an archiver
// writes, and the erasure is finished.
func TestErasingRow(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	archiver := follow.NewArchiver(b, follow.ArchiverConfig{})
	for _, id := range []events.SessionID{"projected", "archived"} {
		grow(t, b, id, 0, 3, 1)
		row, err := json.Marshal(follow.Directory{Session: id, DirectorySeq: bus.DirectorySeq{Seq: 2}, Status: projector.StatusErasing, Erased: &follow.Erased{At: 5000, By: "ann", Reason: "asked by " + string(id)}})
		runtest.NoError(t, err)
		_, err = b.Directory().Put(t.Context(), id, row, 0)
		runtest.NoError(t, err)
	}
	mustProject(t, b, "projected")
	if done, err := archiver.Archive(t.Context(), "archived"); !done || err != nil {
		t.Fatalf("archive: got %t, %v", done, err)
	}
	for _, id := range []events.SessionID{"projected", "archived"} {
		if row := directoryRow(t, b, id); row.Status != projector.StatusErasing {
			t.Errorf("row of %s: got %+v, want it erasing", id, row)
		}
	}
	runtest.NoError(t, archiver.Retain(t.Context(), time.UnixMilli(9000)))
	erased(t, b, "projected", 3)
	erased(t, b, "archived", 3)
}
