package integration

import (
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// TestOriginIsAuthenticated has a user of NATS cancel a turn in another one's
// name: the history, and the answer, have its own.
func TestOriginIsAuthenticated(t *testing.T) {
	t.Parallel()
	n := natsDoorOf(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": {Scope: api.ScopeWrite}}})
	n.open(api.CreateRequest{ID: "s1"})
	a := n.askRaw("alice@acme", operation.SubmitAt.Name, api.Request{Session: "s1"}, &api.SubmitAtArgs{At: events.MillisOf(time.Now().Add(time.Hour)), Request: turnWith("t1", small(1))})
	equal(t, "submit", a.Error.Code, "")
	a = n.askRaw("alice@acme", operation.Cancel.Name, api.Request{Session: "s1"}, &api.CancelArgs{Turn: "t1", Request: api.CancelRequest{Origin: "boss", Reason: "enough"}})
	equal(t, "cancel", a.Error.Code, "")
	var met api.CancelAnswer
	must(t, "answer", events.DecodePayload(a.Body, &met), nil)
	equal(t, "origin in the answer", met.Evidence.Origin, "alice")
	equal(t, "origin in the history", find[*events.TurnCancelRequested](n.bundle, "s1")[0].Origin, "alice")
}

// TestCompletionOfOldSession asks the model of a session that is kept for a
// shorter time than a later lock allows: archivers hold it to that, and completions go on.
func TestCompletionOfOldSession(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("aside")))
	id := b.open(api.CreateRequest{Config: events.Config{RetainMillis: 1000}})
	n, _ := b.locked()
	got, err := n.Host().Complete(b.ctx, id, plugin.CompletionRequest{Messages: []events.Message{{Role: events.RoleUser, Parts: []events.Part{text("x")}}}}, "client")
	must(t, "complete", err, nil)
	equal(t, "reply", got.Text, "aside")
}
