package archive_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/sessiontest"
)

// readBack writes the archive of a log and reads it.
func readBack(t *testing.T, b *sessiontest.System, log events.Log) *events.Archive {
	t.Helper()
	var file bytes.Buffer
	_, err := archive.Write(t.Context(), log, b.Bus, sessiontest.ID, &file)
	runtest.NoError(t, err)
	a, err := events.ReadArchive(&file, 1<<30)
	runtest.NoError(t, err)
	return a
}

// appendAt appends a commit after a sequence.
func appendAt(t *testing.T, b *sessiontest.System, last events.Seq, list ...events.Event) {
	t.Helper()
	c := &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: sessiontest.ID, At: 1, Actor: events.Actor{Kind: events.ActorNode}, Salt: session.NewSalt(), Events: list,
	}
	_, err := b.Bus.Log().Append(t.Context(), c, last)
	runtest.NoError(t, err)
}

// TestRestoreNamesRedacted: an event without payload folds to nothing, so that a finished turn would run again. The error
// names the first one.
func TestRestoreNamesRedacted(t *testing.T) {
	t.Parallel()
	b := sessiontest.Start(t)
	req := api.Ask("secret")
	req.ID = "t1"
	_, err := b.Host.Submit(t.Context(), sessiontest.ID, req)
	runtest.NoError(t, err)
	appendAt(t, b, 2, events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w2"}), events.Of("t1", &events.TurnCompleted{End: events.EndFinished}))
	for kind, at := range map[events.Kind]string{
		events.KindSessionOpened: "sequence 1, event 0, session.opened: ", events.KindTurnRequested: "sequence 2, event 0, turn.requested: ",
		events.KindTurnStarted: "sequence 3, event 0, turn.started: ", events.KindTurnCompleted: "sequence 3, event 1, turn.completed: ",
	} {
		a := readBack(t, b, archive.Redacted(b.Bus.Log(), func(e events.Entry, i int) bool { return e.Commit.Events[i].Kind == kind }))
		other := bustest.Start(t)
		if _, err := archive.Restore(t.Context(), other, a); !errors.Is(err, archive.ErrRedacted) || !strings.Contains(err.Error(), at) {
			t.Errorf("%s redacted: got %v, want %v with %q", kind, err, archive.ErrRedacted, at)
		}
		if _, err := other.Log().Last(t.Context(), sessiontest.ID); !errors.Is(err, events.ErrNoSession) {
			t.Errorf("%s redacted: got %v, want no session", kind, err)
		}
	}
}

// TestRestoreWakes: an imported session with work left has a wake, so that it ends like any other and is not kept forever.
func TestRestoreWakes(t *testing.T) {
	t.Parallel()
	b := sessiontest.Start(t)
	restored := func() map[bus.WakeKey]bool {
		other := bustest.Start(t)
		_, err := archive.Restore(t.Context(), other, readBack(t, b, b.Bus.Log()))
		runtest.NoError(t, err)
		wakes, err := other.Wakes(t.Context())
		runtest.NoError(t, err)
		return wakes
	}
	runtest.Equal(t, "without work", len(restored()), 0)
	req := api.Ask("go")
	req.ID = "t1"
	_, err := b.Host.Submit(t.Context(), sessiontest.ID, req)
	runtest.NoError(t, err)
	key := bus.WakeKey{Class: bus.ClassTurn, Session: sessiontest.ID}
	if got := restored(); len(got) != 1 || !got[key] {
		t.Errorf("queued: got %v, want %v", got, key)
	}
	appendAt(t, b, 2, events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w2"}))
	if got := restored(); len(got) != 1 || !got[key] {
		t.Errorf("running: got %v, want %v", got, key)
	}
}

// TestRestoreAfterLoss restores an archive of a session whose stream is lost, with commits after the archive that its rows have. It
// continues, with other commits, and no row or state has what is lost.
func TestRestoreAfterLoss(t *testing.T) {
	t.Parallel()
	for _, lost := range []int{1, 3} {
		for _, more := range []int{1, 2, 4} {
			b := sessiontest.Start(t)
			a := readBack(t, b, b.Bus.Log())
			last, err := b.Bus.Log().Last(t.Context(), sessiontest.ID)
			runtest.NoError(t, err)
			configure := func(model string, n int) {
				for i := range n {
					appendAt(t, b, last+events.Seq(i), events.Of("", &events.SessionConfigured{Config: events.Config{Model: model}}))
				}
			}
			configure("lost", lost)
			s, err := follow.Whole(t.Context(), b.Bus, sessiontest.ID)
			if err == nil {
				_, err = follow.Save(t.Context(), b.Bus, s)
			}
			if err == nil {
				err = follow.PutCold(t.Context(), b.Bus, s)
			}
			runtest.NoError(t, err)
			js, err := jetstream.New(b.Bus.Conn())
			if err == nil {
				err = js.DeleteStream(t.Context(), "lash-s-"+string(sessiontest.ID))
			}
			runtest.NoError(t, err)
			_, err = archive.Restore(t.Context(), b.Bus, a)
			runtest.NoError(t, err)
			configure("new", more)
			got, err := follow.Whole(t.Context(), b.Bus, sessiontest.ID)
			if err != nil || got.Seq != last+events.Seq(more) || got.Config.Model != "new" {
				t.Errorf("%d lost, %d more: got %+v, %v, want sequence %d", lost, more, got, err, last+events.Seq(more))
				continue
			}
			want, err := follow.At(t.Context(), b.Bus.Log(), b.Bus, sessiontest.ID, got.Seq)
			if err != nil || want.LastCommit() != got.LastCommit() {
				t.Errorf("%d lost, %d more: got the state after %q, %v, want %q", lost, more, got.LastCommit(), err, want.LastCommit())
			}
		}
	}
}
