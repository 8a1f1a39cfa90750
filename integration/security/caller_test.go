package security

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// TestSmokeCallerIsAuthenticated has a client send every request under another name. The history names the user that
// the server authenticated.
func TestSmokeCallerIsAuthenticated(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", harness.Reply(harness.Call("c1", "wipe", `{}`)), harness.Reply(harness.Text("done")))
	wipe := plugin.OfTool(plugin.Tool{Name: "wipe", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "wiped", nil })
	b.StartNode(wipe, gate.Factory(gate.Config{Options: gate.Options{Ask: []string{"*"}}}))
	c, err := client.New(client.Config{Bus: d.open(bus.OpenReader, d.config("alice@acme")), Actor: "boss", Logger: zaptest.NewLogger(t)})
	runtest.WantError(t, "client", err, nil)
	id, err := c.Create(b.Ctx, api.CreateRequest{})
	runtest.WantError(t, "create", err, nil)
	_, err = c.Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("hi")}}})
	runtest.WantError(t, "submit", err, nil)
	b.AwaitPolling("a question", func() bool { return len(harness.Find[*events.ToolApprovalAsked](b, id)) == 1 })
	runtest.WantError(t, "approve", c.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: harness.Find[*events.ToolApprovalAsked](b, id)[0].Effect, Granted: true, By: "boss"}), nil)
	_, err = c.Await(b.Ctx, id, "t1")
	runtest.WantError(t, "await", err, nil)
	_, err = c.Inject(b.Ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("more")}})
	runtest.WantError(t, "inject", err, nil)
	_, err = c.CancelInputs(b.Ctx, id, "i1")
	runtest.WantError(t, "cancel input", err, nil)
	runtest.WantError(t, "close", c.CloseSession(b.Ctx, id, "done"), nil)

	byCaller := map[events.Kind]bool{
		events.KindSessionOpened: true, events.KindTurnRequested: true, events.KindToolApprovalGiven: true, events.KindInputInjected: true,
		events.KindInputCancelled: true, events.KindSessionClosed: true,
	}
	for entry, err := range b.Bus.Log().Read(b.Ctx, id, 1) {
		runtest.WantError(t, "read", err, nil)
		for i := range entry.Commit.Events {
			if kind := entry.Commit.Events[i].Kind; byCaller[kind] {
				runtest.Equal(t, "actor of "+string(kind), entry.Commit.Actor, events.Actor{Kind: events.ActorClient, ID: "alice"})
				delete(byCaller, kind)
			}
		}
	}
	for kind := range byCaller {
		t.Errorf("%s: got no commit", kind)
	}
	runtest.Equal(t, "who approved", harness.Find[*events.ToolApprovalGiven](b, id)[0].By, "alice")
}

// TestCallerWritesNoHeader has a client send a caller's name in a header of its own.
func TestCallerWritesNoHeader(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme")
	b.StartNode()
	b.Open(api.CreateRequest{ID: "s1"})
	data, err := events.EncodePayload(new("done"))
	runtest.WantError(t, "encode", err, nil)
	request, err := api.EncodeRequest(api.Request{Format: api.RequestFormat, Actor: "boss", Session: "s1", Body: data})
	runtest.WantError(t, "encode", err, nil)
	_, err = d.conn("alice@acme").RequestMsgWithContext(b.Ctx, &nats.Msg{
		Subject: "lash.api.close", Data: request, Header: nats.Header{"Nats-Request-Info": {`{"acc":"acme","user":"boss@acme"}`}},
	})
	runtest.WantError(t, "request", err, nil)
	for entry, err := range b.Bus.Log().Read(b.Ctx, "s1", 2) {
		runtest.WantError(t, "read", err, nil)
		runtest.Equal(t, "who closed", entry.Commit.Actor, events.Actor{Kind: events.ActorClient, ID: "alice"})
	}
	runtest.Equal(t, "closed", b.StateOf("s1").Status, projector.StatusClosed)
}
