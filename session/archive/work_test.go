package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/sessiontest"
)

// TestRestoreIdle restores an archive of each kind of work that a node would continue by itself, such as a monitor's command.
// It is refused by name, and the server gets nothing; a session without work is restored.
func TestRestoreIdle(t *testing.T) {
	t.Parallel()
	monitor := events.MonitorSpec{ID: "m1", Command: "touch pwned", Persistent: true, RestartOnRestore: true, Wake: events.WakeNotify}
	started := func(t *testing.T, b *sessiontest.System) {
		t.Helper()
		runtest.NoError(t, b.Host.StartMonitor(t.Context(), sessiontest.ID, monitor))
	}
	asked := func(t *testing.T, b *sessiontest.System) {
		t.Helper()
		req := api.Ask("go")
		req.ID = "t1"
		_, err := b.Host.Submit(t.Context(), sessiontest.ID, req)
		runtest.NoError(t, err)
	}
	for name, c := range map[string]struct {
		prepare func(*testing.T, *sessiontest.System)
		want    string // the first work
	}{
		"nothing":       {func(*testing.T, *sessiontest.System) {}, ""},
		"a queued turn": {asked, "turn t1"},
		"a running turn": {func(t *testing.T, b *sessiontest.System) {
			asked(t, b)
			appendAt(t, b, 2, events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w2"}))
		}, "turn t1"},
		"a turn that ended": {func(t *testing.T, b *sessiontest.System) {
			asked(t, b)
			appendAt(t, b, 2, events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w2"}), events.Of("t1", &events.TurnCompleted{End: events.EndFinished}))
		}, ""},
		"a scheduled turn": {func(t *testing.T, b *sessiontest.System) {
			req := api.Ask("go")
			req.ID = "t2"
			_, err := b.Host.SubmitAt(t.Context(), sessiontest.ID, time.Now().Add(time.Hour), req)
			runtest.NoError(t, err)
		}, "turn t2"},
		"a monitor": {started, "task monitor-m1"},
		"a monitor that starts with the session": {func(t *testing.T, b *sessiontest.System) {
			appendAt(t, b, 1, events.Of("", &events.MonitorRegistered{Spec: monitor}), events.Of("", &events.MonitorArmed{Monitor: "m1"}))
		}, "monitor m1"},
		"a closed session": {func(t *testing.T, b *sessiontest.System) {
			appendAt(t, b, 1, events.Of("", &events.MonitorRegistered{Spec: monitor}), events.Of("", &events.MonitorArmed{Monitor: "m1"}))
			runtest.NoError(t, b.Host.CloseSession(t.Context(), sessiontest.ID, ""))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := sessiontest.Start(t)
			c.prepare(t, b)
			other := bustest.Start(t)
			_, err := archive.RestoreIdle(t.Context(), other, readBack(t, b, b.Bus.Log()))
			_, missing := other.Log().Last(t.Context(), sessiontest.ID)
			if c.want == "" {
				if err != nil || missing != nil {
					t.Fatalf("got %v, %v, want the session", err, missing)
				}
				return
			}
			work := new(archive.WorkError)
			if !errors.As(err, &work) || work.Work[0] != c.want {
				t.Errorf("got %v, want a refusal that names %s", err, c.want)
			}
			runtest.WantError(t, "missing", missing, events.ErrNoSession)
		})
	}
}

// TestRestoreIdleRefusesUnfinishedCreation restores archives of sessions whose creators died after each number of their commits. Only the
// one whose creation is complete is restored.
func TestRestoreIdleRefusesUnfinishedCreation(t *testing.T) {
	t.Parallel()
	const commits = 4
	b := bustest.Start(t)
	for has := 1; has <= commits; has++ {
		id := events.SessionID(fmt.Sprint("s", has))
		var file bytes.Buffer
		w, err := events.NewArchiveWriter(&file, id, 1)
		for n := range has {
			payload := events.Payload(&events.SessionOpened{Commits: commits - 1})
			if n > 0 {
				payload = &events.GraphAppended{Nodes: []events.NewNode{{ID: events.NodeID(fmt.Sprint("n", n)), Kind: events.NodePlugin, Type: "x", Body: []byte("{}")}}}
			}
			err = errors.Join(err, w.Commit(events.Entry{Seq: events.Seq(n + 1), Commit: &events.Commit{
				ID: events.CommitID(ulid.Make().String()), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"}, Events: []events.Event{events.Of("", payload)},
			}}))
		}
		if err = errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		a, err := events.ReadArchive(&file, 1<<20)
		runtest.NoError(t, err)
		_, err = archive.RestoreIdle(t.Context(), b, a)
		work := new(archive.WorkError)
		switch {
		case has == commits:
			runtest.WantError(t, "complete", err, nil)
		case !errors.As(err, &work) || work.Work[0] != fmt.Sprint("creation ", commits-has):
			t.Errorf("%d of %d commits: got %v, want the creation named", has, commits, err)
		}
	}
}
