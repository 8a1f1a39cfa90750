package security

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/builtin/subagent"
)

// requestAs sends an operation to a session, as alice or bob, and returns the code of the error.
type requestAs func(who string, op operation.Name, id events.SessionID, body any) (code string)

// selfApprovalOverHTTP serves sessions whose calls wait for an approval.
func selfApprovalOverHTTP(t *testing.T, forbid bool, script []harness.Step) (*harness.System, requestAs) {
	t.Helper()
	b := harness.StartIdle(t, script...)
	b.Host = b.StartNodeWith(workers.Config{ForbidSelfApproval: forbid}, approving()).Host()
	d := b.ServeHTTP(httpapi.Config{})
	return b, func(who string, op operation.Name, id events.SessionID, body any) string {
		type object = map[string]any
		method, path := "POST", "/v1/sessions/"+string(id)
		var response object
		switch in := body.(type) {
		case *api.CreateArgs:
			path, response = "/v1/sessions", object{"id": in.Request.ID}
		case *api.GrantRequest:
			method, path, response = "PUT", path+"/grants/"+in.To, object{"rights": in.Rights}
		case *api.TurnRequest:
			path, response = path+"/turns", object{"id": in.ID, "text": in.Input.Parts[0].Text, "when_busy": in.WhenBusy}
		case *api.SubmitAtArgs:
			path, response = path+"/turns", object{"id": in.Request.ID, "text": in.Request.Input.Parts[0].Text, "at_ms": in.At}
		case *events.MonitorSpec:
			method, path, response = "PUT", path+"/monitors/"+string(in.ID), object{"command": in.Command}
		case *api.InjectRequest:
			path, response = path+"/inputs", object{"text": in.Parts[0].Text}
		case *events.ToolApprovalGiven:
			path, response = path+"/approvals", object{"call": in.Effect, "granted": in.Granted}
		default:
			t.Fatalf("%s: got no path for it here", op)
		}
		data, err := json.Marshal(response)
		runtest.WantError(t, "encode", err, nil)
		got := d.Send(who, method, path, string(data))
		if got.Status < 400 {
			return ""
		}
		return got.Field("code")
	}
}

// selfApprovalOverNATS is the same for users of the outer account; bob is host@acme.
func selfApprovalOverNATS(t *testing.T, forbid bool, script []harness.Step) (*harness.System, requestAs) {
	t.Helper()
	reach := api.Reach{Scope: api.ScopeAdmin, Own: true}
	n := newNATSAPI(t, workers.Config{ForbidSelfApproval: forbid, Scopes: map[string]api.Reach{"alice@acme": reach, "host@acme": reach}}, script...)
	n.StartNodeWith(workers.Config{Roles: []workers.Role{workers.RoleTurn, workers.RoleTool, workers.RoleTask}}, approving())
	return n.System, func(who string, op operation.Name, id events.SessionID, body any) string {
		if op == operation.Create.Name {
			id = ""
		}
		return n.askRaw(map[string]string{"alice": "alice@acme", "bob": "host@acme"}[who], op, api.Request{Session: id}, body).Error.Code
	}
}

func approving() plugin.BuilderConfig {
	return plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{
		(&harness.Approver{}).Factory(events.EffectsNonIdempotent), subagent.Factory(subagent.Config{}),
	}}
}

// requestMethod is a way in which alice causes a turn whose call waits.
type requestMethod struct {
	script  []harness.Step
	owner   string // of the session; where that is bob, alice works there with a grant
	both    bool   // bob is behind it too
	request func(b *harness.System, request requestAs) (asks events.SessionID)
}

func requestMethods() map[string]requestMethod {
	hi := func(id events.TurnID) *api.TurnRequest {
		return new(turnWith(string(id), []events.Part{harness.Text("1+2?")}))
	}
	submit := func(who string, req *api.TurnRequest) func(b *harness.System, ask requestAs) events.SessionID {
		return func(b *harness.System, ask requestAs) events.SessionID {
			runtest.Equal(b.T, "submit", ask(who, operation.Submit.Name, "s1", req), "")
			return "s1"
		}
	}
	once := []harness.Step{harness.CallAdd(), harness.Reply(harness.Text("3"))}
	return map[string]requestMethod{
		"own":   {once, "alice", false, submit("alice", hi("t1"))},
		"grant": {once, "bob", false, submit("alice", hi("t1"))},
		"timed": {once, "bob", false, func(b *harness.System, ask requestAs) events.SessionID {
			runtest.Equal(b.T, "submit", ask("alice", operation.SubmitAt.Name, "s1", &api.SubmitAtArgs{At: events.MillisOf(time.Now().Add(50 * time.Millisecond)), Request: *hi("t1")}), "")
			return "s1"
		}},
		"input": {once, "bob", true, func(b *harness.System, ask requestAs) events.SessionID {
			runtest.Equal(b.T, "inject", ask("alice", operation.Inject.Name, "s1", &api.InjectRequest{ID: "i1", Parts: []events.Part{harness.Text("2+1!")}}), "")
			return submit("bob", hi("t1"))(b, ask)
		}},
		"monitor": {once, "alice", false, func(b *harness.System, ask requestAs) events.SessionID {
			runtest.Equal(b.T, "start a monitor", ask("alice", operation.StartMonitor.Name, "s1", &events.MonitorSpec{ID: "m1", Command: "echo 1+2?"}), "")
			return "s1"
		}},
		"timed and asked for": {once, "bob", true, func(b *harness.System, ask requestAs) events.SessionID {
			runtest.Equal(b.T, "submit at", ask("alice", operation.SubmitAt.Name, "s1", &api.SubmitAtArgs{At: events.MillisOf(time.Now().Add(time.Hour)), Request: *hi("t1")}), "")
			return submit("bob", hi("t1"))(b, ask)
		}},
		"branch": {[]harness.Step{harness.CallAdd(), harness.CallAdd(), harness.Reply(harness.Text("3"))}, "bob", false, func(b *harness.System, ask requestAs) events.SessionID {
			submit("bob", hi("t1"))(b, ask)
			b.AwaitState("s1", "question of bob's turn", harness.HasAsk)
			req := hi("t2")
			req.WhenBusy = api.WhenBusyBranch
			submit("alice", req)(b, ask)
			return session.BranchOf("s1", "t2")
		}},
		"subagent": {[]harness.Step{harness.Reply(harness.Call("c1", "spawn_agent", `{"capability":"explore","task":"look"}`)), harness.CallAdd(), harness.Reply(harness.Text("3")), harness.Reply(harness.Text("done"))}, "alice", false, func(b *harness.System, ask requestAs) events.SessionID {
			submit("alice", hi("t1"))(b, ask)
			b.AwaitPolling("an agent", func() bool { return len(b.Subagents("s1")) == 1 })
			return b.Subagents("s1")[0].Child
		}},
	}
}

// TestSelfApproval has a caller approve a call of a turn that it caused, in every way. Where that is forbidden the
// approval is refused, without an effect; the caller may still deny the call, and another caller approves.
func TestSelfApproval(t *testing.T) {
	t.Parallel()
	transports := map[string]func(*testing.T, bool, []harness.Step) (*harness.System, requestAs){"http": selfApprovalOverHTTP, "nats": selfApprovalOverNATS}
	for transport, open := range transports {
		for method, w := range requestMethods() {
			t.Run(transport+"_"+method, func(t *testing.T) {
				t.Parallel()
				b, ask := open(t, true, w.script)
				openAndAsk(b, "s1", w, ask)
				id := w.request(b, ask)
				call := question(b, id)
				before := b.LastSeq(id)
				runtest.Equal(t, "alice approves", ask("alice", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: call, Granted: true}), "self_approval")
				if w.both {
					runtest.Equal(t, "bob approves", ask("bob", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: call, Granted: true}), "self_approval")
				}
				runtest.Equal(t, "commits", b.LastSeq(id), before)
				switch {
				case w.both:
					runtest.Equal(t, "alice denies", ask("alice", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: call}), "")
				case w.owner == "bob":
					runtest.Equal(t, "bob approves", ask("bob", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: call, Granted: true}), "")
				default: // and the turn goes on, also the one that waits for its agent
					runtest.Equal(t, "grant", ask("alice", operation.Grant.Name, id, &api.GrantRequest{To: peer(transport), Rights: []events.SessionRight{events.GrantApprove}}), "")
					runtest.Equal(t, "bob approves", ask("bob", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: call, Granted: true}), "")
					runtest.Equal(t, "end", b.AwaitTurn("s1", firstTurn(b, "s1")).End, events.EndFinished)
				}
			})
		}
		t.Run(transport+"_allowed", func(t *testing.T) {
			t.Parallel()
			w := requestMethods()["own"]
			b, ask := open(t, false, w.script)
			openAndAsk(b, "s1", w, ask)
			id := w.request(b, ask)
			runtest.Equal(t, "alice approves", ask("alice", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: question(b, id), Granted: true}), "")
		})
	}
}

// TestSelfApprovalLocksTheGate has a caller with the right to configure request a gate without approvals.
func TestSelfApprovalLocksTheGate(t *testing.T) {
	t.Parallel()
	for forbid, want := range map[bool]error{true: api.ErrForbidden, false: nil} {
		b := harness.StartIdle(t)
		b.Host = b.StartNodeWith(workers.Config{ForbidSelfApproval: forbid}, approving()).Host()
		alice := scoped(b.Ctx, api.ScopeAdmin, operation.Create.Name, "")
		_, err := b.Create(alice, api.CreateRequest{ID: "s1", Options: map[string]string{gate.ID: `{"allow":["*"]}`}})
		runtest.WantError(t, fmt.Sprintf("options of the gate, where self-approval is forbidden %v", forbid), err, want)
	}
}

// peer is bob's name as an API authenticates it.
func peer(transport string) string {
	return map[string]string{"http": "bob", "nats": "host"}[transport]
}

// openAndAsk creates the session, in which alice and bob have every right that can be granted.
func openAndAsk(b *harness.System, id events.SessionID, w requestMethod, ask requestAs) {
	b.T.Helper()
	runtest.Equal(b.T, "create", ask(w.owner, operation.Create.Name, id, &api.CreateArgs{Request: api.CreateRequest{ID: id}}), "")
	if w.owner != "alice" {
		all := []events.SessionRight{events.GrantRead, events.GrantWrite, events.GrantApprove}
		runtest.Equal(b.T, "grant", ask(w.owner, operation.Grant.Name, id, &api.GrantRequest{To: "alice", Rights: all}), "")
	}
}

// question waits until a session, which may not exist yet, requests an approval, and returns the call.
func question(b *harness.System, id events.SessionID) (effect events.EffectID) {
	b.T.Helper()
	b.AwaitPolling(fmt.Sprint("a question in ", id), func() bool {
		list, err := b.Approvals(b.Ctx, id)
		if err == nil && len(list) > 0 {
			effect = list[0].Effect
		}
		return effect != ""
	})
	return effect
}

// firstTurn is the id of a session's first turn.
func firstTurn(b *harness.System, id events.SessionID) events.TurnID {
	b.T.Helper()
	for _, ev := range b.History(id) {
		if ev.Kind == events.KindTurnRequested {
			return ev.Turn
		}
	}
	b.T.Fatal("the session has no turn")
	return ""
}
