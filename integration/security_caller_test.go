package integration

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/gate"
)

// TestCallerIsAuthenticated has a client that calls itself the boss do all that
// clients do. The history names the user that the server authenticated.
func TestCallerIsAuthenticated(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme", reply(call("c1", "wipe", `{}`)), reply(text("done")))
	wipe := plugin.OfTool(plugin.Tool{Name: "wipe", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) { return "wiped", nil })
	b.node(wipe, gate.Factory(gate.Config{Options: gate.Options{Ask: []string{"*"}}}))
	c, err := client.New(client.Config{Bus: d.open(bus.OpenReader, d.config("alice@acme")), Actor: "boss", Logger: zaptest.NewLogger(t)})
	must(t, "client", err, nil)
	id, err := c.Create(b.ctx, api.CreateRequest{})
	must(t, "create", err, nil)
	_, err = c.Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("hi")}}})
	must(t, "submit", err, nil)
	b.until("a question", func() bool { return len(find[*events.ToolApprovalAsked](b, id)) == 1 })
	must(t, "approve", c.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: find[*events.ToolApprovalAsked](b, id)[0].Effect, Granted: true, By: "boss"}), nil)
	_, err = c.Await(b.ctx, id, "t1")
	must(t, "await", err, nil)
	_, err = c.Inject(b.ctx, id, api.InjectRequest{ID: "i1", Parts: []events.Part{text("more")}})
	must(t, "inject", err, nil)
	_, err = c.CancelInputs(b.ctx, id, "i1")
	must(t, "cancel input", err, nil)
	must(t, "close", c.CloseSession(b.ctx, id, "done"), nil)

	asked := map[events.Kind]bool{
		events.KindSessionOpened: true, events.KindTurnRequested: true, events.KindToolApprovalGiven: true, events.KindInputInjected: true,
		events.KindInputCancelled: true, events.KindSessionClosed: true,
	}
	for entry, err := range b.bus.Log().Read(b.ctx, id, 1) {
		must(t, "read", err, nil)
		for i := range entry.Commit.Events {
			if kind := entry.Commit.Events[i].Kind; asked[kind] {
				equal(t, "actor of "+string(kind), entry.Commit.Actor, events.Actor{Kind: events.ActorClient, ID: "alice"})
				delete(asked, kind)
			}
		}
	}
	for kind := range asked {
		t.Errorf("%s: got no commit", kind)
	}
	equal(t, "who approved", find[*events.ToolApprovalGiven](b, id)[0].By, "alice")
}

// TestCallerWritesNoHeader has a client say in a header of its own who it is.
func TestCallerWritesNoHeader(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme")
	b.node()
	b.open(api.CreateRequest{ID: "s1"})
	data, err := events.EncodePayload(new("done"))
	must(t, "encode", err, nil)
	request, err := api.EncodeRequest(api.Request{Format: api.RequestFormat, Actor: "boss", Session: "s1", Body: data})
	must(t, "encode", err, nil)
	_, err = d.conn("alice@acme").RequestMsgWithContext(b.ctx, &nats.Msg{
		Subject: "lash.api.close", Data: request, Header: nats.Header{"Nats-Request-Info": {`{"acc":"acme","user":"boss@acme"}`}},
	})
	must(t, "request", err, nil)
	for entry, err := range b.bus.Log().Read(b.ctx, "s1", 2) {
		must(t, "read", err, nil)
		equal(t, "who closed", entry.Commit.Actor, events.Actor{Kind: events.ActorClient, ID: "alice"})
	}
	equal(t, "closed", b.state("s1").Status, projector.StatusClosed)
}
