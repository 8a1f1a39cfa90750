package integration

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestApprovalQuick answers the questions of one reply right after each other,
// as they are asked: the turn goes on with both, whether a worker still has it,
// has just let go of it, or takes it up for the first answer.
func TestApprovalQuick(t *testing.T) {
	t.Parallel()
	const rounds = 40
	for workers := range 3 {
		t.Run(fmt.Sprint(workers+1), func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t)
			for range rounds {
				b.model.script = append(b.model.script, reply(call("k1", "add", `{"A":1,"B":2}`), call("k2", "add", `{"A":3,"B":4}`)), reply(text("done")))
			}
			g := &asker{}
			for range workers + 1 {
				b.nodeOn(bustest.Open(t, b.server), g.factory(events.EffectsIdempotent))
			}
			hosts := []*session.Host{b.otherHost(), b.otherHost()}
			id := b.open(api.CreateRequest{})
			for n := range rounds {
				turn := events.TurnID(fmt.Sprint("t", n))
				b.submit(id, turn, text("sums?"))
				b.await(id, "questions of "+string(turn), func(s *projector.State) bool {
					return s.Turn() != nil && s.Turn().ID == turn && len(s.Turn().Asks) == 2
				})
				for i, h := range hosts {
					effect := events.EffectID(fmt.Sprintf("%s/0/%d", turn, i))
					must(t, "answer", h.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: effect, Granted: i == 1}), nil)
				}
				equal(t, "end of "+string(turn), b.ended(id, turn).End, events.EndFinished)
			}
			verified(t, b.bus, id)
		})
	}
}
