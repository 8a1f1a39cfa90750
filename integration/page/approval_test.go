package page

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
)

// TestInbox answers approvals of two sessions, one in the inbox and one in its conversation. The history has the caller.
func TestInbox(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("The sum is 3.")), harness.CallAdd(), harness.Reply(harness.Text("Then not.")))
	g := &harness.Approver{}
	b.StartNode(g.Factory(events.EffectsNonIdempotent))
	one, two := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
	d := serve(t, b, httpapi.Config{})
	b.ParkTurn(one)
	p := browse(t, d.URL, desktop)
	p.open("#/inbox", "admin")
	p.awaitText(".approval", "really add?")
	p.awaitText(".approval pre.code", `"A": 1`)
	p.awaitText(".badge", "1")
	p.click(".approval .primary")
	b.AwaitTurn(one, "t1")
	p.awaitText(".inbox", "Nothing waits for an answer.")
	p.run(navigate(p, "#/s/"+string(one)))
	p.awaitText(".answered", "allowed by admin")
	p.awaitText(".message.assistant", "The sum is 3.")

	b.ParkTurn(two)
	p.run(navigate(p, "#/s/"+string(two)))
	p.awaitText(".headline", "Waits for your answer: may add run?")
	p.write(".approval input", "not today")
	p.click(".approval .buttons button:not(.primary)")
	b.AwaitTurn(two, "t1")
	p.awaitText(".answered", "refused by admin: not today")
	for id, granted := range map[events.SessionID]bool{one: true, two: false} {
		given := harness.Find[*events.ToolApprovalGiven](b, id)
		if len(given) != 1 || given[0].By != "admin" || given[0].Granted != granted {
			t.Errorf("answer in %s: got %+v, want one of admin, granted %v", id, given, granted)
		}
	}
	harness.Equal(t, "runs", g.Runs.Load(), 1)
}
