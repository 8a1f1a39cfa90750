package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// bodiesInSession are requests that name a session, by operation.
func bodiesInSession() map[api.Operation]any {
	frame, later := events.FrameID("f1"), events.MillisOf(time.Now().Add(time.Hour))
	return map[api.Operation]any{
		api.OpConfigure: &api.ConfigureArgs{Current: events.Config{Model: "m2"}}, api.OpClose: new("done"),
		api.OpGrant:  &api.GrantRequest{To: "guest", Rights: []events.SessionRight{events.GrantRead}},
		api.OpSubmit: new(turnWith("t1", small(11))), api.OpSubmitAt: &api.SubmitAtArgs{At: later, Request: turnWith("t1", small(11))},
		api.OpCancel: &api.CancelArgs{Turn: "t1", Request: api.CancelRequest{ID: "c1"}}, api.OpInject: &api.InjectRequest{ID: "i1", Parts: small(11)},
		api.OpCancelInputs: &[]events.InputID{"i1"}, api.OpCancelInputsFrom: new(events.InputID("i1")),
		api.OpAppendNodes: &api.AppendNodesRequest{Nodes: []api.AppendNode{{ID: "n1", Kind: events.NodePlugin, Type: "x", Body: []byte("{}")}}},
		api.OpBranch:      new(events.NodeID("")), api.OpOpenFrame: &api.FrameRequest{Frame: frame}, api.OpRewrite: &[]api.RewriteArg{},
		api.OpCompact: &struct{}{}, api.OpApprove: &events.ToolApprovalGiven{Effect: theEffect, Granted: true},
		api.OpResolveTool: &api.ResolveArgs{Key: theEffect}, api.OpToolState: &struct{}{}, api.OpApplyToolState: &api.ToolState{},
		api.OpSetAvailability: &api.AvailabilityArgs{Names: []string{}}, api.OpCancelTask: new(events.TaskID("k1")),
		api.OpStartMonitor: &events.MonitorSpec{ID: "m1", Command: "true"}, api.OpStopMonitor: new(events.MonitorID("m1")),
		api.OpMonitorSnapshot: &struct{}{}, api.OpTakeUpdates: new(int64(1)), api.OpActions: &struct{}{}, api.OpInvokeAction: &api.ActionArgs{Name: "greet"},
		api.OpToolCatalog: &struct{}{}, api.OpTakeFirstInput: &struct{}{}, api.OpProtocolOptions: &api.ProtocolOptionsArgs{Options: []byte("{}")},
		api.OpApplyExtension: &events.Extension{Type: "x"}, api.OpComplete: &session.CompleteArgs{Request: plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "x")}}, Source: "x"},
		api.OpRegisterTask: &api.TaskRequest{ID: "k2"}, api.OpProgressTask: &api.ProgressArgs{Task: "k2", Message: "x"}, api.OpEndTask: &api.EndTaskArgs{Task: "k2", State: events.TaskFailed},
		api.OpRequestCancel: &api.RequestCancelArgs{Task: "k2"}, api.OpCancelTasks: &[]events.TaskID{}, api.OpTransferTasks: &api.TransferArgs{To: "elsewhere", Tasks: []events.TaskID{"k2"}},
	}
}

// natsDoor asks nodes for operations, as users of the outer account.
type natsDoor struct {
	*bundle
	conns map[string]*nats.Conn // by user
	node  *workers.Node
	start func() *workers.Node // another one like it
}

// askRaw asks for an operation and gives the answer, whatever it is.
func (n *natsDoor) askRaw(user string, op api.Operation, r api.Request, body any) api.Answer {
	n.t.Helper()
	var err error
	r.Format = api.RequestFormat
	r.Body, err = events.EncodePayload(body)
	must(n.t, "encode", err, nil)
	request, err := api.EncodeRequest(r)
	must(n.t, "encode", err, nil)
	inbox := n.conns[user].NewRespInbox()
	sub, err := n.conns[user].SubscribeSync(inbox)
	must(n.t, "subscribe", err, nil)
	defer func() { _ = sub.Unsubscribe() }()
	var m *nats.Msg
	for err = nats.ErrNoResponders; errors.Is(err, nats.ErrNoResponders); { // the node's subscription is on its way
		must(n.t, "publish", n.conns[user].PublishRequest("lash.api."+string(op), inbox, request), nil)
		for m, err = sub.NextMsgWithContext(n.ctx); err == nil && len(m.Data) == 0; { // a node that takes long says so
			m, err = sub.NextMsgWithContext(n.ctx)
		}
	}
	must(n.t, string(op), err, nil)
	var a api.Answer
	must(n.t, "answer", events.DecodePayload(m.Data, &a), nil)
	return a
}

// natsDoorOf serves users of the outer account, each with its reach.
func natsDoorOf(t *testing.T, cfg workers.Config, script ...step) *natsDoor {
	t.Helper()
	d := install(t).boot()
	n := &natsDoor{bundle: d.bundleOf("node@acme", script...), conns: make(map[string]*nats.Conn)}
	n.start = func() *workers.Node {
		cfg.Bus, cfg.Roles = d.open(bus.Open, d.config("node@acme")), []workers.Role{workers.RoleAPI}
		node, err := workers.NewNode(cfg)
		must(t, "node", err, nil)
		must(t, "start", node.Start(n.ctx), nil)
		t.Cleanup(func() { node.Stop(t.Context()) })
		return node
	}
	n.node = n.start()
	for user := range cfg.Scopes {
		n.conns[user] = d.conn(user)
	}
	return n
}

// TestReachOverNATS has a user ask for every operation in a session that it
// does not reach, and in one that there is none of: the answers are the same.
// With grants of every kind it gets what these say.
func TestReachOverNATS(t *testing.T) {
	t.Parallel()
	n := natsDoorOf(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin, Own: true}, "host@acme": {Scope: api.ScopeAdmin, Own: true}}})
	bodies, known := bodiesInSession(), 0
	for right, ops := range needs() {
		for _, name := range ops {
			op := api.Operation(name)
			if op == api.OpCreate || op == api.OpPutBlob {
				continue // they name no session
			}
			known++
			if bodies[op] == nil {
				t.Errorf("%s: got no body for it here", op)
				continue
			}
			for m, rights := range [][]events.SessionRight{{}, {"read"}, {"write"}, {"approve"}, {"read", "write", "approve"}} {
				id := events.SessionID(fmt.Sprintf("%s-%d", op, m))
				a := n.askRaw("host@acme", api.OpCreate, api.Request{}, &api.CreateArgs{Request: api.CreateRequest{ID: id}})
				equal(t, "create", a.Error.Code, "")
				a = n.askRaw("host@acme", api.OpGrant, api.Request{Session: id}, &api.GrantRequest{To: "alice", Rights: rights})
				equal(t, "grant", a.Error.Code, "")
				before := n.last(id)
				got := n.askRaw("alice@acme", op, api.Request{Session: id, Key: "k1"}, bodies[op])
				what := fmt.Sprintf("%s with a grant of %v", op, rights)
				switch {
				case len(rights) == 0:
					none := n.askRaw("alice@acme", op, api.Request{Session: "nosuch", Key: "k1"}, bodies[op])
					equal(t, what, got.Error.Code+" "+got.Error.Message, none.Error.Code+" "+strings.ReplaceAll(none.Error.Message, "nosuch", string(id)))
					equal(t, what, string(got.Body), string(none.Body))
				case slices.Contains(rights, events.SessionRight(right)):
					if got.Error.Code == "forbidden" || got.Error.Code == "no_session" {
						t.Errorf("%s: got %v, want it allowed", what, got.Error)
					}
					continue
				default:
					equal(t, what, got.Error.Code, "forbidden")
				}
				equal(t, "commits after "+what, n.last(id), before)
				equal(t, what, n.state(id).Owner, "host")
			}
		}
	}
	equal(t, "operations", len(bodies), known)
}
