package page

import (
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/session/httpapi"
)

// TestRedacted shows a session whose payloads of tools, and inputs, were redacted: the browser folds it as the server does,
// and says of each such event who redacted it and why, in the list of events, and in place of the message.
func TestRedacted(t *testing.T) {
	t.Parallel()
	b, id := gallery(t)
	b.ByHand(id) // decisions about payloads that are gone
	b.Model.Rescript(harness.Reply(harness.Text("Then not.")))
	harness.WantError(t, "answer", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "t4/0/0"}), nil)
	b.AwaitTurn(id, "t4")
	harness.WantError(t, "close", b.CloseSession(b.Ctx, id, "done"), nil)
	_, err := archive.Redact(b.Ctx, b.Bus, id, events.RedactionRecord{At: 1700000000000, By: "ann", Reason: "asked to <b>twice</b>", What: []string{"tool.*", "turn.requested", "graph.branched"}}, nil)
	harness.WantError(t, "redact", err, nil)

	p := browse(t, serve(t, b, httpapi.Config{Redactions: b.Bus.Redactions}).URL, desktop)
	p.open("#/s/"+string(id)+"/events", "reader")
	if sum := p.compareFolds(id); sum < 10 {
		t.Errorf("compared %d sequences, want all", sum)
	}
	p.awaitText(".events-view", "asked to <b>twice</b>; its digest is")
	p.awaitText(".events-view", "redacted by ann, ")
	p.click("#tab-talk")
	p.awaitText(".conversation", "turn.requested")
	p.awaitText(".conversation", "asked to <b>twice</b>")
}
