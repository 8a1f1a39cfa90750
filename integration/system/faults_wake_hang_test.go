package system

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// commitsBy lists the commits of a node in a history.
func (s *site) commitsBy(id events.SessionID, node string) (list []events.Entry) {
	s.T.Helper()
	for e, err := range s.Bus.Log().Read(s.Ctx, id, 1) {
		runtest.WantError(s.T, "read", err, nil)
		if e.Commit.Actor.ID == node {
			list = append(list, e)
		}
	}
	return list
}

// TestWakeOwnerHangs freezes the process of a node during a model call, or during a tool call that must not run
// twice. Its connection stays open. Another node ends the turn. The first process continues with the result of its
// call: it writes nothing to that turn, and runs the next one.
func TestWakeOwnerHangs(t *testing.T) {
	t.Parallel()
	id, name := workloadSession(0), workloadTurn(0)
	for what, tc := range map[string]struct {
		blocked events.EffectID
		lost    int
	}{
		"model": {turn.ModelEffect(name, 0), 0},
		"tool":  {turn.ToolEffect(name, 1, 0), 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			onSites(t, func(s *site) {
				w := s.wakeFixture(0)
				w.gate.open()
				s.Open(api.CreateRequest{ID: id})
				c := w.process(childConfig{Round: 1, BlockAt: fmt.Sprintf("%s/%s", id, tc.blocked)})
				node := c.awaitLine(s.Ctx, "serves")
				s.StartTurn(id, name, harness.Text("do it"))
				c.awaitLine(s.Ctx, "holds")
				before := len(s.commitsBy(id, node))

				c.signal(syscall.SIGSTOP)
				w.start()
				runtest.Equal(t, "end", s.AwaitTurn(id, name).End, events.EndFinished)
				runtest.Equal(t, "attempts", s.AwaitTurn(id, name).Attempts, 2)
				w.kills[0]()
				c.release() // the result of the call is there when the process continues
				c.signal(syscall.SIGCONT)
				c.awaitLine(s.Ctx, "released")
				last := s.LastSeq(id)
				s.StartTurn(id, workloadTurn(1), harness.Text("do more"))
				record := s.AwaitTurn(id, workloadTurn(1))
				runtest.Equal(t, "attempts of the next turn", record.Attempts, 1)
				for _, e := range s.commitsBy(id, node)[before:] {
					if e.Seq <= last || slices.ContainsFunc(e.Commit.Events, func(ev events.Event) bool { return ev.Turn == name }) {
						t.Errorf("commit %d of the frozen node: got %v, want none of what it ran", e.Seq, e.Commit.Events)
					}
				}
				s.AwaitUnqueued(id)
				c.signal(syscall.SIGKILL)
				sum := w.audit(1, 2)
				runtest.Equal(t, "takeovers", sum.takeovers, 1)
				runtest.Equal(t, "lost", sum.lost, tc.lost)
			})
		})
	}
}
