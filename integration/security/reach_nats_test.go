package security

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// bodiesInSession are requests that name a session, by operation. An operation that is not listed has the zero value
// of its request type.
func bodiesInSession() map[operation.Name]any {
	frame, later := events.FrameID("f1"), events.MillisOf(time.Now().Add(time.Hour))
	return map[operation.Name]any{
		operation.Configure.Name: &api.ConfigureArgs{Current: events.Config{Model: "m2"}}, operation.CloseSession.Name: new("done"),
		operation.Grant.Name:  &api.GrantRequest{To: "guest", Rights: []events.SessionRight{events.GrantRead}},
		operation.Submit.Name: new(turnWith("t1", small(11))), operation.SubmitAt.Name: &api.SubmitAtArgs{At: later, Request: turnWith("t1", small(11))},
		operation.Cancel.Name: &api.CancelArgs{Turn: "t1", Request: api.CancelRequest{ID: "c1"}}, operation.Inject.Name: &api.InjectRequest{ID: "i1", Parts: small(11)},
		operation.CancelInputs.Name: &[]events.InputID{"i1"}, operation.CancelInputsFrom.Name: new(events.InputID("i1")),
		operation.AppendNodes.Name: &api.AppendNodesRequest{Nodes: []api.AppendNode{{ID: "n1", Kind: events.NodePlugin, Type: "x", Body: []byte("{}")}}},
		operation.BranchTo.Name:    new(events.NodeID("")), operation.OpenFrame.Name: &api.FrameRequest{Frame: frame}, operation.Rewrite.Name: &[]api.RewriteMessage{},
		operation.Approve.Name:     &events.ToolApprovalGiven{Effect: harness.AddEffect, Granted: true},
		operation.ResolveTool.Name: &api.ResolveArgs{Key: harness.AddEffect}, operation.ApplyToolState.Name: &api.ToolState{},
		operation.SetToolsAvailability.Name: &api.AvailabilityArgs{Names: []string{}}, operation.CancelTask.Name: new(events.TaskID("k1")),
		operation.ReplaceExtensions.Name: &[]events.Extension{}, operation.AddToolSource.Name: new("more"), operation.RemoveToolSource.Name: new("more"),
		operation.StartMonitor.Name: &events.MonitorSpec{ID: "m1", Command: "true"}, operation.StopMonitor.Name: new(events.MonitorID("m1")),
		operation.TakeMonitorUpdates.Name: new(int64(1)), operation.InvokeAction.Name: &api.ActionArgs{Name: "greet"},
		operation.SetProtocolOptions.Name: &api.ProtocolOptionsArgs{Options: []byte("{}")},
		operation.ApplyExtension.Name:     &events.Extension{Type: "x"}, operation.Complete.Name: &operation.CompleteArgs{Request: plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "x")}}, Source: "x"},
		operation.RegisterTask.Name: &api.TaskRequest{ID: "k2"}, operation.ProgressTask.Name: &api.ProgressArgs{Task: "k2", Message: "x"}, operation.EndOwnTask.Name: &api.EndOwnTaskArgs{Task: "k2", State: events.TaskFailed},
		operation.TransitionOwnTask.Name: &api.TransitionArgs{Task: "k2", State: events.TaskWaiting}, operation.UnregisterOwnTask.Name: new(events.TaskID("k2")),
		operation.RequestCancelTask.Name: &api.RequestCancelTaskArgs{Task: "k2"}, operation.CancelTasks.Name: &[]events.TaskID{}, operation.TransferTasks.Name: &api.TransferArgs{To: "elsewhere", Tasks: []events.TaskID{"k2"}},
	}
}

// natsAPI sends requests to nodes as users of the outer account.
type natsAPI struct {
	*harness.System
	deployed *deployment
	conns    map[string]*nats.Conn // by user
	node     *workers.Node
	start    func() *workers.Node // another one like it
}

// askRaw sends a request and returns any response.
func (n *natsAPI) askRaw(user string, op operation.Name, r api.Request, body any) api.Response {
	n.T.Helper()
	var err error
	r.Format = api.RequestFormat
	r.Body, err = events.EncodePayload(body)
	runtest.WantError(n.T, "encode", err, nil)
	request, err := api.EncodeRequest(r)
	runtest.WantError(n.T, "encode", err, nil)
	m, err := n.exchange(n.Ctx, user, &nats.Msg{Subject: "lash.api." + string(op), Data: request})
	runtest.WantError(n.T, string(op), err, nil)
	var a api.Response
	runtest.WantError(n.T, "answer", events.DecodePayload(m.Data, &a), nil)
	return a
}

// exchange sends a request until a node receives it, and returns the response. A node that takes long sends empty messages before.
func (n *natsAPI) exchange(ctx context.Context, user string, m *nats.Msg) (got *nats.Msg, err error) {
	m.Reply = n.conns[user].NewRespInbox()
	sub, err := n.conns[user].SubscribeSync(m.Reply)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	for err = nats.ErrNoResponders; errors.Is(err, nats.ErrNoResponders); { // the node's subscription is on its way
		if err = n.conns[user].PublishMsg(m); err != nil {
			return nil, err
		}
		for got, err = sub.NextMsgWithContext(ctx); err == nil && len(got.Data) == 0; {
			got, err = sub.NextMsgWithContext(ctx)
		}
	}
	return got, err
}

// newNATSAPI serves users of the outer account, each with its reach.
func newNATSAPI(t *testing.T, cfg workers.Config, script ...harness.Step) *natsAPI {
	t.Helper()
	d := install(t).boot()
	n := &natsAPI{System: d.bundleOf("node@acme", script...), deployed: d, conns: make(map[string]*nats.Conn)}
	n.start = func() *workers.Node {
		cfg.Bus, cfg.Roles = d.open(bus.Open, d.config("node@acme")), []workers.Role{workers.RoleAPI}
		node, err := workers.NewNode(cfg)
		runtest.WantError(t, "node", err, nil)
		runtest.WantError(t, "start", node.Start(n.Ctx), nil)
		t.Cleanup(func() { node.Stop(t.Context()) })
		return node
	}
	n.node = n.start()
	for user := range cfg.Scopes {
		n.conns[user] = d.conn(user)
	}
	return n
}

// TestReachOverNATS has a user send every operation to a session without a grant, and to one that does not exist:
// the responses are the same. With grants of every kind it may do what they allow. The owner may do everything.
func TestReachOverNATS(t *testing.T) {
	t.Parallel()
	n := newNATSAPI(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin, Own: true}, "host@acme": {Scope: api.ScopeAdmin, Own: true}}})
	bodies := bodiesInSession()
	for right, ops := range needs() {
		for _, name := range ops {
			op := operation.Name(name)
			if op == operation.Create.Name || op == operation.StoreBlob.Name || op == operation.ExternalPlugins.Name {
				continue // they name no session
			}
			if bodies[op] == nil {
				bodies[op] = operation.Named()[op].In
			}
			for m, rights := range [][]events.SessionRight{{}, {"read"}, {"write"}, {"approve"}, {"read", "write", "approve"}} {
				id := events.SessionID(fmt.Sprintf("%s-%d", op, m))
				a := n.askRaw("host@acme", operation.Create.Name, api.Request{}, &api.CreateArgs{Request: api.CreateRequest{ID: id}})
				runtest.Equal(t, "create", a.Error.Code, "")
				a = n.askRaw("host@acme", operation.Grant.Name, api.Request{Session: id}, &api.GrantRequest{To: "alice", Rights: rights})
				runtest.Equal(t, "grant", a.Error.Code, "")
				before := n.LastSeq(id)
				got := n.askRaw("alice@acme", op, api.Request{Session: id, Key: "k1"}, bodies[op])
				what := fmt.Sprintf("%s with a grant of %v", op, rights)
				switch {
				case len(rights) == 0:
					none := n.askRaw("alice@acme", op, api.Request{Session: "nosuch", Key: "k1"}, bodies[op])
					runtest.Equal(t, what, got.Error.Code+" "+got.Error.Message, none.Error.Code+" "+strings.ReplaceAll(none.Error.Message, "nosuch", string(id)))
					runtest.Equal(t, what, string(got.Body), string(none.Body))
				case slices.Contains(rights, events.SessionRight(right)):
					if got.Error.Code == "forbidden" || got.Error.Code == "no_session" {
						t.Errorf("%s: got %v, want it allowed", what, got.Error)
					}
					continue
				default:
					runtest.Equal(t, what, got.Error.Code, "forbidden")
				}
				runtest.Equal(t, "commits after "+what, n.LastSeq(id), before)
				runtest.Equal(t, what, n.StateOf(id).Owner, "host")
				if len(rights) > 0 {
					continue
				}
				if got := n.askRaw("host@acme", op, api.Request{Session: id, Key: "k2"}, bodies[op]); got.Error.Code == "forbidden" || got.Error.Code == "no_session" {
					t.Errorf("%s by the owner: got %v, want it allowed", op, got.Error)
				}
			}
		}
	}
}
