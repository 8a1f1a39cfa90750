package system

import (
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
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/keyring"
)

// TestLossWhileNodeRuns loses the stream of a session that continued after its archive, and puts the stream back without its commits, while a node and a host with
// cached states run all the time. The turns after it are of the history that is left: neither prompts nor views have what is lost, also
// where the new history is as long as the lost one before they look.
func TestLossWhileNodeRuns(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []int{0, 1, 2} { // turns that other processes run before this one looks
		t.Run(fmt.Sprint(elsewhere), func(t *testing.T) {
			t.Parallel()
			var script []harness.Step
			for n := range 8 {
				script = append(script, harness.Reply(harness.Text(fmt.Sprint("answer ", n))))
			}
			b := harness.StartIdle(t, script...)
			b.StartNode()
			id := b.Open(api.CreateRequest{})
			b.RunTurn(id, "t1", harness.Text("kept"))
			_, err := follow.NewArchiver(b.Bus, follow.ArchiverConfig{}).Archive(b.Ctx, id)
			runtest.WantError(t, "archive", err, nil)
			b.RunTurn(id, "t2", harness.Text("lost one"))
			b.RunTurn(id, "t3", harness.Text("lost two"))
			runtest.WantError(t, "project", follow.NewProjector(b.Bus, nil).Project(b.Ctx, id), nil)
			b.StateOf(id)
			loseStream(b, id)
			operator := bustest.Open(t, b.Server)
			if _, err := operator.Log().Last(b.Ctx, id); !errors.As(err, new(*bus.CutOffError)) {
				t.Fatalf("got %v, want the loss", err)
			}
			bustest.PutBack(t, operator, id)
			other := b.NewHost(operator)
			for n := range elsewhere {
				turn := events.TurnID(fmt.Sprint("other", n))
				_, err := other.Submit(b.Ctx, id, harness.TurnRequest(turn, "elsewhere"))
				runtest.WantError(t, "submit elsewhere", err, nil)
				_, err = other.Await(b.Ctx, id, turn)
				runtest.WantError(t, "await elsewhere", err, nil)
			}
			b.RunTurn(id, "last", harness.Text("new"))
			requests := b.Model.Requests()
			prompt := strings.Join(b.Model.Prompt(len(requests)-1), "\n")
			view, err := b.View(b.Ctx, id)
			runtest.WantError(t, "view", err, nil)
			for what, text := range map[string]string{"prompt": prompt, "view": fmt.Sprintf("%+v", view)} {
				if !strings.Contains(text, "kept") || !strings.Contains(text, "new") || strings.Contains(text, "lost") || strings.Count(text, "elsewhere") < elsewhere {
					t.Errorf("%s: got %.2000s", what, text)
				}
			}
		})
	}
}

// TestEraseAfterLoss erases a session whose commits are lost: its signed tombstone names the end that was there.
func TestEraseAfterLoss(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	keys, err := keyring.Open(t.TempDir(), time.Now())
	runtest.WantError(t, "keys", err, nil)
	h, err := session.New(session.Config{Bus: b.Bus, Actor: "tester", Plugins: session.NoPlugins(), Signer: keys.Signer})
	runtest.WantError(t, "host", err, nil)
	id := b.Open(api.CreateRequest{})
	last := b.LastSeq(id)
	_, err = follow.NewArchiver(b.Bus, follow.ArchiverConfig{}).Archive(b.Ctx, id)
	runtest.WantError(t, "archive", err, nil)
	_, err = b.Submit(b.Ctx, id, harness.TurnRequest("lost", "go"))
	runtest.WantError(t, "submit", err, nil)
	runtest.WantError(t, "project", follow.NewProjector(b.Bus, nil).Project(b.Ctx, id), nil)
	loseStream(b, id)
	if _, err := h.State(b.Ctx, id); !errors.As(err, new(*bus.CutOffError)) {
		t.Fatalf("got %v, want the loss", err)
	}
	stone, err := h.Erase(b.Ctx, id, "lost")
	runtest.WantError(t, "erase", err, nil)
	if stone.Note == "" || stone.Last != last || stone.Reason != "lost" {
		t.Errorf("tombstone: got %+v, want a signed one at %d", stone, last)
	}
	if _, err := h.State(b.Ctx, id); !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("erased: got %v", err)
	}
	if _, err := h.Create(b.Ctx, api.CreateRequest{ID: id}); !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("created again: got %v", err)
	}
}

// loseStream deletes the stream of a session that continued after its archive.
func loseStream(b *harness.System, id events.SessionID) {
	b.T.Helper()
	b.LoseStream(id)
}
