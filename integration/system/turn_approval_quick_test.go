package system

import (
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
)

// TestApprovalQuick answers the approvals of one reply right after each other, as they are requested. The turn
// continues with both, whether a worker still has it, has just released it, or takes it for the first answer.
func TestApprovalQuick(t *testing.T) {
	t.Parallel()
	const rounds = 40
	for workers := range 3 {
		t.Run(fmt.Sprint(workers+1), func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t)
			for range rounds {
				b.Model.Script = append(b.Model.Script, harness.Reply(harness.Call("k1", "add", `{"A":1,"B":2}`), harness.Call("k2", "add", `{"A":3,"B":4}`)), harness.Reply(harness.Text("done")))
			}
			g := &harness.Approver{}
			for range workers + 1 {
				b.StartNodeOn(bustest.Open(t, b.Server), g.Factory(events.EffectsIdempotent))
			}
			hosts := []*session.Host{b.OtherHost(), b.OtherHost()}
			id := b.Open(api.CreateRequest{})
			for n := range rounds {
				turn := events.TurnID(fmt.Sprint("t", n))
				b.StartTurn(id, turn, harness.Text("sums?"))
				b.AwaitState(id, "questions of "+string(turn), func(s *projector.State) bool {
					return s.Turn() != nil && s.Turn().ID == turn && len(s.Turn().Asks) == 2
				})
				for i, h := range hosts {
					effect := events.EffectID(fmt.Sprintf("%s/0/%d", turn, i))
					runtest.WantError(t, "answer", h.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: effect, Granted: i == 1}), nil)
				}
				runtest.Equal(t, "end of "+string(turn), b.AwaitTurn(id, turn).End, events.EndFinished)
			}
			harness.VerifyHistory(t, b.Bus, id)
		})
	}
}
