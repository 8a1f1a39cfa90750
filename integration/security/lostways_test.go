package security

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// TestWaysOutOfLoss loses the last commits of three sessions in a store. Each refuses turns after that, and there are three ways out: one session
// goes on when its stream is put back from a backup, a fork of one has what is left and goes on, and one is erased.
func TestWaysOutOfLoss(t *testing.T) {
	t.Parallel()
	var script []harness.Step
	for n := range 9 {
		script = append(script, harness.Reply(harness.Text(fmt.Sprint("answer ", n))))
	}
	b := harness.StartIdle(t, script...)
	b.StartNode()
	l := &loser{b, b.ServeHTTP(httpapi.Config{}), &backupUser{t, b.Ctx, b.Bus.Conn()}}
	l.restores("restored")
	l.forks("forked")
	l.erases("erased")
}

// loser loses commits of sessions.
type loser struct {
	*harness.System
	http  *harness.HTTP
	clerk *backupUser
}

// lose runs two turns, and loses the second one. It returns the last commit that is left, and a backup of what is lost.
func (l *loser) lose(id events.SessionID) (left events.Seq, lost stream) {
	l.T.Helper()
	l.Open(api.CreateRequest{ID: id})
	l.RunTurn(id, "t1", harness.Text("kept"))
	left = l.LastSeq(id)
	_, err := follow.NewArchiver(l.Bus, follow.ArchiverConfig{}).Archive(l.Ctx, id)
	runtest.WantError(l.T, "archive", err, nil)
	l.RunTurn(id, "t2", harness.Text("lost"))
	runtest.WantError(l.T, "project", follow.NewProjector(l.Bus, nil).Project(l.Ctx, id), nil)
	for name := range l.JetStream().StreamNames(l.Ctx, jetstream.WithStreamListSubject("lash.s."+string(id)+".>")).Name() {
		lost = l.clerk.save(name)
	}
	l.LoseStream(id)
	l.refused(id)
	return left, lost
}

func (l *loser) refused(id events.SessionID) {
	l.T.Helper()
	l.http.WantProblem(http.StatusConflict, "commits_lost", http.MethodPost, "/v1/sessions/"+string(id)+"/turns", `{"text":"go on"}`)
	_, err := l.Submit(l.Ctx, id, harness.TurnRequest("t3", "go on"))
	if !errors.As(err, new(*events.LostError)) {
		l.T.Errorf("submit to %s: got %v, want the loss", id, err)
	}
}

// said are the texts of a session's view.
func (l *loser) said(id events.SessionID) string {
	l.T.Helper()
	view, err := l.View(l.Ctx, id)
	runtest.WantError(l.T, "view", err, nil)
	return fmt.Sprintf("%+v", view)
}

func (l *loser) restores(id events.SessionID) {
	l.T.Helper()
	_, lost := l.lose(id)
	runtest.WantError(l.T, "delete what a node made in its place", l.JetStream().DeleteStream(l.Ctx, lost.name), nil)
	l.clerk.restore(lost)
	l.RunTurn(id, "t3", harness.Text("after"))
	for _, text := range []string{"kept", "lost", "after"} {
		if !strings.Contains(l.said(id), text) {
			l.T.Errorf("the restored session has no %q", text)
		}
	}
	harness.VerifyHistory(l.T, l.Bus, id)
}

func (l *loser) forks(id events.SessionID) {
	l.T.Helper()
	left, _ := l.lose(id)
	l.http.Want(http.StatusCreated, http.MethodPost, "/v1/sessions/"+string(id)+"/fork", `{"id":"copy"}`)
	_, err := l.Fork(l.Ctx, id, api.CreateRequest{ID: "earlier", At: 1})
	runtest.WantError(l.T, "fork at 1", err, nil)
	_, err = l.Fork(l.Ctx, id, api.CreateRequest{ID: "later", At: left + 1})
	runtest.WantError(l.T, "fork at a lost commit", err, events.ErrInvalid)
	l.refused(id)
	runtest.Equal(l.T, "where the fork begins", l.StateOf("copy").Forked.Seq, left)
	runtest.Equal(l.T, "where the earlier fork begins", l.StateOf("earlier").Forked.Seq, 1)
	l.RunTurn("copy", "t3", harness.Text("after"))
	if said := l.said("copy"); !strings.Contains(said, "kept") || !strings.Contains(said, "after") || strings.Contains(said, "lost") {
		l.T.Errorf("fork: got %s, want what is left and the new turn", said)
	}
	harness.VerifyHistory(l.T, l.Bus, "copy")
}

func (l *loser) erases(id events.SessionID) {
	l.T.Helper()
	left, _ := l.lose(id)
	stone, err := l.Erase(l.Ctx, id, "lost")
	runtest.WantError(l.T, "erase", err, nil)
	runtest.Equal(l.T, "the end that was erased", stone.Last, left)
	if _, err := l.Bus.Log().Last(l.Ctx, id); !errors.As(err, new(*events.ErasedError)) || errors.As(err, new(*bus.CutOffError)) {
		l.T.Errorf("got %v, want the erasure", err)
	}
}
