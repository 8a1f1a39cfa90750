package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
)

// importCase is one kind of session to import, and how.
type importCase struct {
	name    string
	make    func(b *harness.System, id events.SessionID) // on the fleet where the archive comes from
	restore func(context.Context, *bus.Bus, *events.Archive) (archive.Restored, error)
	turns   int  // that run on a node after the import
	woken   bool // the import stores a wake
	least   int  // requests of an import
}

func importCases() []importCase {
	ask := func(b *harness.System, id events.SessionID, at time.Time) {
		_, err := b.SubmitAt(b.Ctx, id, at, harness.TurnRequest("t1", "go"))
		runtest.WantError(b.T, "submit", err, nil)
	}
	return []importCase{
		{name: "finished", restore: archive.RestoreIdle, least: 8, make: func(b *harness.System, id events.SessionID) {
			b.RunTurn(id, "t1", harness.Text(strings.Repeat(string(id)+" ", 100_000))) // a body outside the log
		}},
		{name: "queued turn", restore: archive.Restore, turns: 1, woken: true, least: 8, make: func(b *harness.System, id events.SessionID) {
			_, err := b.Submit(b.Ctx, id, harness.TurnRequest("t1", "go"))
			runtest.WantError(b.T, "submit", err, nil)
		}},
		{name: "turn that is due", restore: archive.Restore, turns: 1, least: 8, make: func(b *harness.System, id events.SessionID) {
			ask(b, id, time.Now().Add(time.Second))
		}},
		{name: "turn of tomorrow", restore: archive.Restore, least: 8, make: func(b *harness.System, id events.SessionID) {
			ask(b, id, time.Now().Add(24*time.Hour))
		}},
	}
}

// archiveFrom makes a session on a fleet, and reads its archive.
func archiveFrom(b *harness.System, id events.SessionID, fill func(*harness.System, events.SessionID)) *events.Archive {
	b.T.Helper()
	b.Open(api.CreateRequest{ID: id})
	fill(b, id)
	var file bytes.Buffer
	_, err := archive.Write(b.Ctx, b.Bus.Log(), b.Bus, id, &file)
	runtest.WantError(b.T, "export", err, nil)
	a, err := events.ReadArchive(&file, 1<<30)
	runtest.WantError(b.T, "read archive", err, nil)
	return a
}

// TestImportKilledAnywhere kills an import before each of its requests. The session is absent or whole then, nothing lists a
// half one, and an import that is repeated completes it. On a node afterwards every turn that was left runs once, and no other one.
func TestImportKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, c := range importCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var script []harness.Step
			for range 200 {
				script = append(script, harness.Reply(harness.Text("done")))
			}
			from, to := harness.StartIdle(t, script...), harness.StartIdle(t, script...)
			if c.turns == 0 {
				from.StartNode()
			}
			var ids []events.SessionID
			absent, whole := 0, 0
			for finished := false; !finished; {
				id := events.SessionID(fmt.Sprintf("s%d", len(ids)+1))
				a := archiveFrom(from, id, c.make)
				finished = bustest.KilledAt(t, to.Server, len(ids)+1, false, func(ctx context.Context, victim *bus.Bus) error {
					_, err := c.restore(ctx, victim, a)
					return err
				})
				if wantAbsentOrWhole(to, a) {
					whole++
				} else {
					absent++
				}
				_, err := c.restore(to.Ctx, to.Bus, a)
				runtest.WantError(t, "repeated", err, nil)
				if !wantAbsentOrWhole(to, a) {
					t.Errorf("%s: absent after the repetition", id)
				}
				wakes, err := to.Bus.Wakes(to.Ctx)
				runtest.WantError(t, "wakes", err, nil)
				runtest.Equal(t, "wake of "+string(id), wakes[bus.WakeKey{Class: bus.ClassTurn, Session: id}], c.woken)
				ids = append(ids, id)
			}
			if len(ids) < c.least || absent == 0 || whole < 2 {
				t.Errorf("got %d requests, %d times no session and %d times a whole one", len(ids), absent, whole)
			}
			wantTurnsOnce(to, ids, c.turns)
		})
	}
}

// wantAbsentOrWhole compares a session with its archive, and reports whether it is there.
func wantAbsentOrWhole(b *harness.System, a *events.Archive) bool {
	b.T.Helper()
	_, err := b.OtherHost().State(b.Ctx, a.Session)
	row, rowErr := b.Bus.Directory().Get(b.Ctx, a.Session)
	runtest.WantError(b.T, "row", rowErr, nil)
	if errors.Is(err, events.ErrNoSession) {
		if row.Revision != 0 {
			b.T.Errorf("%s: there is a row of a session that is not there: %s", a.Session, row.Value)
		}
		return false
	}
	runtest.WantError(b.T, "state", err, nil)
	want, err := a.Log.Last(b.Ctx, a.Session)
	runtest.WantError(b.T, "end of the archive", err, nil)
	runtest.Equal(b.T, "commits", b.LastSeq(a.Session), want)
	for e, err := range a.Log.Read(b.Ctx, a.Session, 1) {
		runtest.WantError(b.T, "archive", err, nil)
		for have, err := range b.Bus.Log().Read(b.Ctx, a.Session, e.Seq) {
			runtest.WantError(b.T, "history", err, nil)
			if !bytes.Equal(have.Data, e.Data) {
				b.T.Errorf("%s: commit %d differs", a.Session, e.Seq)
			}
			break
		}
	}
	for digest := range a.Blobs {
		if bustest.Encrypted() {
			break // names in the archive are of what is stored
		}
		body, err := b.Bus.Blob(b.Ctx, projector.RefOf(a.Blobs[digest]))
		if err != nil || !bytes.Equal(body, a.Blobs[digest]) {
			b.T.Errorf("%s: body %s: %v", a.Session, digest, err)
		}
	}
	return true
}

// wantTurnsOnce starts a node, and waits until every session has had so many turns more. No other turn starts.
func wantTurnsOnce(b *harness.System, ids []events.SessionID, turns int) {
	b.T.Helper()
	before := make(map[events.SessionID]int)
	for _, id := range ids {
		before[id] = turnStarts(b, id)
	}
	b.StartNode()
	for _, id := range ids {
		if turns > 0 {
			b.AwaitTurn(id, "t1")
		}
	}
	b.Open(api.CreateRequest{ID: "last"}) // its turn runs after those that have a wake
	b.RunTurn("last", "t1", harness.Text("go"))
	runtest.Equal(b.T, "requests of the model", len(b.Model.Requests()), turns*len(ids)+1)
	for _, id := range ids {
		runtest.Equal(b.T, "turns started of "+string(id), turnStarts(b, id)-before[id], turns)
	}
}

// turnStarts counts the starts of turns in a history.
func turnStarts(b *harness.System, id events.SessionID) (n int) {
	b.T.Helper()
	for e, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.WantError(b.T, "history", err, nil)
		for i := range e.Commit.Events {
			if e.Commit.Events[i].Kind == events.KindTurnStarted {
				n++
			}
		}
	}
	return n
}
