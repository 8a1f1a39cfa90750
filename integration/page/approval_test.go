package page

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers/builtin/subagent"
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
	p.click(".approval .primary:enabled")
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
	runtest.Equal(t, "runs", g.Runs.Load(), 1)
}

// TestApprovalShowsTheText: arguments that JavaScript reads otherwise than the tool are shown byte for byte, in the inbox and in
// the conversation, and a call is allowed only once all of its text is shown.
func TestApprovalShowsTheText(t *testing.T) {
	t.Parallel()
	const twice = `{"A":1,"B":2,"A":9007199254740993}`
	padded := `{"A":1,"B":2,` + strings.Repeat(" ", 9000) + `"A":41}`
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "add", twice)), harness.Reply(harness.Text("Done.")), harness.Reply(harness.Call("k", "add", padded)), harness.Reply(harness.Text("Done.")))
	b.StartNode((&harness.Approver{}).Factory(events.EffectsNonIdempotent))
	one, two := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	b.ParkTurn(one)
	p.open("#/inbox", "admin")
	p.awaitText(".approval pre.code", twice)
	p.run(navigate(p, "#/s/"+string(one)))
	p.awaitText(".conversation .approval pre.code", twice)
	p.click(".approval .primary:enabled")
	b.AwaitTurn(one, "t1")

	b.ParkTurn(two)
	p.run(navigate(p, "#/inbox"))
	p.awaitText(".approval", "Programs may read these arguments in different ways")
	if eval[bool](p, `document.querySelector(".approval .primary").disabled`) != true {
		t.Error("a call whose arguments are shown in part: want that it cannot be allowed")
	}
	p.click(".approval button.quiet")
	p.awaitText(".approval", `"A":41}`)
	p.click(".approval .primary:enabled")
	b.AwaitTurn(two, "t1")
}

// TestAgentAsksInTheConversation answers the question of an agent in the conversation of the session that waits for it.
func TestAgentAsksInTheConversation(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "spawn_agent", `{"capability":"explore","task":"add"}`)), harness.CallAdd(), harness.Reply(harness.Text("It is 3.")), harness.Reply(harness.Text("The agent says 3.")))
	g := &harness.Approver{}
	b.StartNode(g.Factory(events.EffectsNonIdempotent), subagent.Factory(subagent.Config{}))
	id := b.Open(api.CreateRequest{})
	d := serve(t, b, httpapi.Config{})
	p := browse(t, d.URL, desktop)
	p.open("#/s/"+string(id), "admin")
	b.StartTurn(id, "t1", harness.Text("go"))
	p.awaitText(".conversation .approval", "really add?")
	p.awaitText(".conversation .approval a", "agent-")
	p.click(".approval .primary:enabled")
	b.AwaitTurn(id, "t1")
	p.awaitText(".message.assistant", "The agent says 3.")
	runtest.Equal(t, "runs", g.Runs.Load(), 1)
}
