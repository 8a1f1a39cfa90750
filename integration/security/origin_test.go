package security

import (
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// TestOriginIsAuthenticated has a user of NATS cancel a turn in another user's name: the history, and the
// response, have its own.
func TestOriginIsAuthenticated(t *testing.T) {
	t.Parallel()
	n := newNATSAPI(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": {Scope: api.ScopeWrite}}})
	n.Open(api.CreateRequest{ID: "s1"})
	a := n.askRaw("alice@acme", operation.SubmitAt.Name, api.Request{Session: "s1"}, &api.SubmitAtArgs{At: events.MillisOf(time.Now().Add(time.Hour)), Request: turnWith("t1", small(1))})
	runtest.Equal(t, "submit", a.Error.Code, "")
	a = n.askRaw("alice@acme", operation.Cancel.Name, api.Request{Session: "s1"}, &api.CancelArgs{Turn: "t1", Request: api.CancelRequest{Origin: "boss", Reason: "enough"}})
	runtest.Equal(t, "cancel", a.Error.Code, "")
	var met api.CancelResponse
	runtest.WantError(t, "answer", events.DecodePayload(a.Body, &met), nil)
	runtest.Equal(t, "origin in the answer", met.Evidence.Origin, "alice")
	runtest.Equal(t, "origin in the history", harness.Find[*events.TurnCancelRequested](n.System, "s1")[0].Origin, "alice")
}

// TestCompletionOfOldSession requests a completion in a session whose retention is shorter than a later lock
// allows: archivers apply the lock, and completions still run.
func TestCompletionOfOldSession(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Text("aside")))
	id := b.Open(api.CreateRequest{Config: events.Config{RetainMillis: 1000}})
	n, _ := locked(b)
	got, err := n.Host().Complete(b.Ctx, id, plugin.CompletionRequest{Messages: []events.Message{{Role: events.RoleUser, Parts: []events.Part{harness.Text("x")}}}}, "client")
	runtest.WantError(t, "complete", err, nil)
	runtest.Equal(t, "reply", got.Text, "aside")
}
