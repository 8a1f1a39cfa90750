package integration

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// commitsBy lists the commits of a node in a history.
func (s *site) commitsBy(id events.SessionID, node string) (list []events.Entry) {
	s.t.Helper()
	for e, err := range s.bus.Log().Read(s.ctx, id, 1) {
		must(s.t, "read", err, nil)
		if e.Commit.Actor.ID == node {
			list = append(list, e)
		}
	}
	return list
}

// TestWakeHolderHangs freezes the process of a node in the middle of a model
// call, or of a tool call that must not run twice. Its connection lives. Another
// node ends the turn. When the process goes on, with what the call came to at
// hand, it writes nothing of that turn, and runs the next one.
func TestWakeHolderHangs(t *testing.T) {
	t.Parallel()
	id, name := toilSession(0), toilTurn(0)
	for what, tc := range map[string]struct {
		held events.EffectID
		lost int
	}{
		"model": {turn.ModelEffect(name, 0), 0},
		"tool":  {turn.ToolEffect(name, 1, 0), 1},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			onSites(t, func(s *site) {
				w := s.worksite(0)
				w.gate.open()
				s.open(api.CreateRequest{ID: id})
				c := w.process(childConfig{Round: 1, Hold: fmt.Sprintf("%s/%s", id, tc.held)})
				node := c.says(s.ctx, "serves")
				s.submit(id, name, text("do it"))
				c.says(s.ctx, "holds")
				before := len(s.commitsBy(id, node))

				c.signal(syscall.SIGSTOP)
				w.start()
				equal(t, "end", s.ended(id, name).End, events.EndFinished)
				equal(t, "attempts", s.ended(id, name).Attempts, 2)
				w.kills[0]()
				c.release() // what the call comes to is there when the process goes on
				c.signal(syscall.SIGCONT)
				c.says(s.ctx, "released")
				last := s.last(id)
				s.submit(id, toilTurn(1), text("do more"))
				record := s.ended(id, toilTurn(1))
				equal(t, "attempts of the next turn", record.Attempts, 1)
				for _, e := range s.commitsBy(id, node)[before:] {
					if e.Seq <= last || slices.ContainsFunc(e.Commit.Events, func(ev events.Event) bool { return ev.Turn == name }) {
						t.Errorf("commit %d of the frozen node: got %v, want none of what it ran", e.Seq, e.Commit.Events)
					}
				}
				s.unqueued(id)
				c.signal(syscall.SIGKILL)
				sum := w.audit(1, 2)
				equal(t, "takeovers", sum.takeovers, 1)
				equal(t, "lost", sum.lost, tc.lost)
			})
		})
	}
}
