package system

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestWatchersAfterLoss puts a stream back without two commits while watchers run, one of which is slow. Each ends with an error that says so, and
// has no commit of the new history, whether that is shorter than the lost one, as long, or longer, and than what a watcher buffers.
func TestWatchersAfterLoss(t *testing.T) {
	t.Parallel()
	for _, fresh := range []int{1, 2, 4, 300} {
		t.Run(fmt.Sprint(fresh), func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t)
			id := b.Open(api.CreateRequest{})
			kept := archiveNow(b, id)
			commits(b, id, kept, 2, "lost")
			fast, slow := startWatcher(b, id, kept+2), startWatcher(b, id, kept+1)
			resume := make(chan struct{})
			fast.run(nil)
			slow.run(resume)
			harness.Receive(b, "seen by the fast one", fast.reached)
			harness.Receive(b, "seen by the slow one", slow.reached)
			end := putBack(b, id)
			commits(b, id, end, fresh, "new")
			close(resume)
			for name, w := range map[string]*watcher{"fast": fast, "slow": slow} {
				err := harness.Receive(b, "the end", w.ended)
				if slices.ContainsFunc(w.seen, func(c events.CommitID) bool { return strings.HasPrefix(string(c), "new") }) {
					t.Errorf("%s: got commits %v, want none of the new history", name, w.seen)
				}
				cursor, ok := errors.AsType[*api.CursorError](err)
				if early := errors.As(err, new(*bus.CutOffError)); early { // the watcher read the log before the stream was put back
					continue
				}
				if !ok || cursor.Session != id || !strings.Contains(err.Error(), "again from the start") {
					t.Errorf("%s: got %v, want an error of the cursor that says what to do", name, err)
				}
			}
		})
	}
}

// TestAwaitLostTurn waits for a turn whose commits are lost. The wait ends.
func TestAwaitLostTurn(t *testing.T) {
	t.Parallel()
	for _, fresh := range []int{0, 4} {
		t.Run(fmt.Sprint(fresh), func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t)
			id := b.Open(api.CreateRequest{})
			archiveNow(b, id)
			_, err := b.Submit(b.Ctx, id, harness.TurnRequest("t1", "go"))
			runtest.WantError(t, "submit", err, nil)
			waits, ended := make(chan struct{}), make(chan error, 1)
			ctx := session.WithWaiting(b.Ctx, func() func() { close(waits); return func() {} })
			go func() {
				_, err := b.Await(ctx, id, "t1")
				ended <- err
			}()
			harness.Receive(b, "the wait", waits)
			end := putBack(b, id)
			commits(b, id, end, fresh, "new")
			if err := harness.Receive(b, "the end of the wait", ended); !errors.Is(err, api.ErrUnknownTurn) && !errors.As(err, new(*bus.CutOffError)) {
				t.Errorf("got %v, want %v", err, api.ErrUnknownTurn)
			}
		})
	}
}

// watcher observes a session until an error.
type watcher struct {
	b       *harness.System
	session events.SessionID
	at      events.Seq      // where it reports, and may wait
	reached chan events.Seq // the sequence at
	ended   chan error
	seen    []events.CommitID // after ended
}

func startWatcher(b *harness.System, id events.SessionID, at events.Seq) *watcher {
	return &watcher{b: b, session: id, at: at, reached: make(chan events.Seq, 1), ended: make(chan error, 1)}
}

// run starts to observe. At its sequence it waits for resume, unless that is nil.
func (w *watcher) run(resume <-chan struct{}) {
	go func() {
		var end error
		for seen, err := range w.b.Observe(w.b.Ctx, w.session, 0) {
			if end = err; err != nil {
				break
			}
			if seen.Commit == nil {
				continue
			}
			w.seen = append(w.seen, seen.Commit.ID)
			if seen.Seq == w.at && len(w.reached) == 0 {
				w.reached <- seen.Seq
				if resume != nil {
					<-resume
				}
			}
		}
		w.ended <- end
	}()
}

// archiveNow archives a session, and returns its end.
func archiveNow(b *harness.System, id events.SessionID) events.Seq {
	b.T.Helper()
	last := b.LastSeq(id)
	_, err := follow.NewArchiver(b.Bus, follow.ArchiverConfig{}).Archive(b.Ctx, id)
	runtest.WantError(b.T, "archive", err, nil)
	return last
}

// commits appends n commits after a sequence, whose ids begin with a text.
func commits(b *harness.System, id events.SessionID, after events.Seq, n int, text string) {
	b.T.Helper()
	for i := range n {
		c := &events.Commit{
			ID: events.CommitID(fmt.Sprint(text, "-", i)), Session: id, At: 1, Actor: events.Actor{Kind: events.ActorNode, ID: "n"},
			Events: []events.Event{events.Of("", &events.SessionConfigured{})},
		}
		_, err := b.Bus.Log().Append(b.Ctx, c, after+events.Seq(i))
		runtest.WantError(b.T, "append", err, nil)
	}
}

// putBack writes the row of a session, loses what came after its archive, and puts the stream back without that. It returns the new end.
func putBack(b *harness.System, id events.SessionID) events.Seq {
	b.T.Helper()
	runtest.WantError(b.T, "project", follow.NewProjector(b.Bus, nil).Project(b.Ctx, id), nil)
	loseStream(b, id)
	return bustest.PutBack(b.T, b.Bus, id)
}
