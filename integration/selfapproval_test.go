package integration

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
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

// askAs asks for an operation in a session, as alice or bob, and gives the code of the error.
type askAs func(who string, op operation.Name, id events.SessionID, body any) (code string)

// selfApprovalOverHTTP serves sessions whose calls wait for an approval.
func selfApprovalOverHTTP(t *testing.T, forbid bool, script []step) (*bundle, askAs) {
	t.Helper()
	b := setupIdle(t, script...)
	b.Host = b.nodeWith(workers.Config{ForbidSelfApproval: forbid}, approving()).Host()
	d := b.door(httpapi.Config{})
	return b, func(who string, op operation.Name, id events.SessionID, body any) string {
		type object = map[string]any
		method, path := "POST", "/v1/sessions/"+string(id)
		var said object
		switch in := body.(type) {
		case *api.CreateArgs:
			path, said = "/v1/sessions", object{"id": in.Request.ID}
		case *api.GrantRequest:
			method, path, said = "PUT", path+"/grants/"+in.To, object{"rights": in.Rights}
		case *api.TurnRequest:
			path, said = path+"/turns", object{"id": in.ID, "text": in.Input.Parts[0].Text, "when_busy": in.WhenBusy}
		case *api.SubmitAtArgs:
			path, said = path+"/turns", object{"id": in.Request.ID, "text": in.Request.Input.Parts[0].Text, "at_ms": in.At}
		case *api.InjectRequest:
			path, said = path+"/inputs", object{"text": in.Parts[0].Text}
		case *events.ToolApprovalGiven:
			path, said = path+"/approvals", object{"call": in.Effect, "granted": in.Granted}
		default:
			t.Fatalf("%s: got no path for it here", op)
		}
		data, err := json.Marshal(said)
		must(t, "encode", err, nil)
		got := d.ask(who, method, path, string(data))
		if got.status < 400 {
			return ""
		}
		return got.text("code")
	}
}

// selfApprovalOverNATS is the same for users of the outer account; bob is host@acme.
func selfApprovalOverNATS(t *testing.T, forbid bool, script []step) (*bundle, askAs) {
	t.Helper()
	reach := api.Reach{Scope: api.ScopeAdmin, Own: true}
	n := natsDoorOf(t, workers.Config{ForbidSelfApproval: forbid, Scopes: map[string]api.Reach{"alice@acme": reach, "host@acme": reach}}, script...)
	n.nodeWith(workers.Config{Roles: []workers.Role{workers.RoleTurn, workers.RoleTool}}, approving())
	return n.bundle, func(who string, op operation.Name, id events.SessionID, body any) string {
		if op == operation.Create.Name {
			id = ""
		}
		return n.askRaw(map[string]string{"alice": "alice@acme", "bob": "host@acme"}[who], op, api.Request{Session: id}, body).Error.Code
	}
}

func approving() plugin.HostConfig {
	return plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{
		(&asker{}).factory(events.EffectsNonIdempotent), subagent.Factory(subagent.Config{}),
	}}
}

// asksFor is a way in which alice is behind a turn whose call waits.
type asksFor struct {
	script []step
	owner  string // of the session; where that is bob, alice works there with a grant
	both   bool   // bob is behind it too
	ask    func(b *bundle, ask askAs) (asks events.SessionID)
}

func waysToAsk() map[string]asksFor {
	hi := func(id events.TurnID) *api.TurnRequest { return new(turnWith(string(id), []events.Part{text("1+2?")})) }
	submit := func(who string, req *api.TurnRequest) func(b *bundle, ask askAs) events.SessionID {
		return func(b *bundle, ask askAs) events.SessionID {
			equal(b.t, "submit", ask(who, operation.Submit.Name, "s1", req), "")
			return "s1"
		}
	}
	once := []step{theCall(), reply(text("3"))}
	return map[string]asksFor{
		"own":   {once, "alice", false, submit("alice", hi("t1"))},
		"grant": {once, "bob", false, submit("alice", hi("t1"))},
		"timed": {once, "bob", false, func(b *bundle, ask askAs) events.SessionID {
			equal(b.t, "submit", ask("alice", operation.SubmitAt.Name, "s1", &api.SubmitAtArgs{At: events.MillisOf(time.Now().Add(50 * time.Millisecond)), Request: *hi("t1")}), "")
			return "s1"
		}},
		"input": {once, "bob", true, func(b *bundle, ask askAs) events.SessionID {
			equal(b.t, "inject", ask("alice", operation.Inject.Name, "s1", &api.InjectRequest{ID: "i1", Parts: []events.Part{text("2+1!")}}), "")
			return submit("bob", hi("t1"))(b, ask)
		}},
		"timed and asked for": {once, "bob", true, func(b *bundle, ask askAs) events.SessionID {
			equal(b.t, "submit at", ask("alice", operation.SubmitAt.Name, "s1", &api.SubmitAtArgs{At: events.MillisOf(time.Now().Add(time.Hour)), Request: *hi("t1")}), "")
			return submit("bob", hi("t1"))(b, ask)
		}},
		"branch": {[]step{theCall(), theCall(), reply(text("3"))}, "bob", false, func(b *bundle, ask askAs) events.SessionID {
			submit("bob", hi("t1"))(b, ask)
			b.await("s1", "question of bob's turn", hasAsk)
			req := hi("t2")
			req.WhenBusy = api.WhenBusyBranch
			submit("alice", req)(b, ask)
			return session.BranchOf("s1", "t2")
		}},
		"subagent": {[]step{reply(call("c1", "spawn_agent", `{"capability":"explore","task":"look"}`)), theCall(), reply(text("3")), reply(text("done"))}, "alice", false, func(b *bundle, ask askAs) events.SessionID {
			submit("alice", hi("t1"))(b, ask)
			b.until("an agent", func() bool { return len(b.agents("s1")) == 1 })
			return b.agents("s1")[0].Child
		}},
	}
}

// TestSelfApproval has a caller approve a call of a turn that it is behind, in
// every way that there is. Where that is forbidden it is refused, leaves nothing, and
// may still be denied by it; another caller approves.
func TestSelfApproval(t *testing.T) {
	t.Parallel()
	doors := map[string]func(*testing.T, bool, []step) (*bundle, askAs){"http": selfApprovalOverHTTP, "nats": selfApprovalOverNATS}
	for door, open := range doors {
		for way, w := range waysToAsk() {
			t.Run(door+"_"+way, func(t *testing.T) {
				t.Parallel()
				b, ask := open(t, true, w.script)
				b.asksIn("s1", w, ask)
				id := w.ask(b, ask)
				asked := b.question(id)
				before := b.last(id)
				equal(t, "alice approves", ask("alice", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: asked, Granted: true}), "self_approval")
				if w.both {
					equal(t, "bob approves", ask("bob", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: asked, Granted: true}), "self_approval")
				}
				equal(t, "commits", b.last(id), before)
				switch {
				case w.both:
					equal(t, "alice denies", ask("alice", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: asked}), "")
				case w.owner == "bob":
					equal(t, "bob approves", ask("bob", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: asked, Granted: true}), "")
				default: // and the turn goes on, also the one that waits for its agent
					equal(t, "grant", ask("alice", operation.Grant.Name, id, &api.GrantRequest{To: peer(door), Rights: []events.SessionRight{events.GrantApprove}}), "")
					equal(t, "bob approves", ask("bob", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: asked, Granted: true}), "")
					equal(t, "end", b.ended("s1", "t1").End, events.EndFinished)
				}
			})
		}
		t.Run(door+"_allowed", func(t *testing.T) {
			t.Parallel()
			w := waysToAsk()["own"]
			b, ask := open(t, false, w.script)
			b.asksIn("s1", w, ask)
			id := w.ask(b, ask)
			equal(t, "alice approves", ask("alice", operation.Approve.Name, id, &events.ToolApprovalGiven{Effect: b.question(id), Granted: true}), "")
		})
	}
}

// TestSelfApprovalLocksTheGate has a caller who may configure ask for a gate without questions.
func TestSelfApprovalLocksTheGate(t *testing.T) {
	t.Parallel()
	for forbid, want := range map[bool]error{true: api.ErrForbidden, false: nil} {
		b := setupIdle(t)
		b.Host = b.nodeWith(workers.Config{ForbidSelfApproval: forbid}, approving()).Host()
		alice := scoped(b.ctx, api.ScopeAdmin, operation.Create.Name, "")
		_, err := b.Create(alice, api.CreateRequest{ID: "s1", Options: map[string]string{gate.ID: `{"allow":["*"]}`}})
		must(t, fmt.Sprintf("options of the gate, where self-approval is forbidden %v", forbid), err, want)
	}
}

// peer is bob's name as a door authenticates it.
func peer(door string) string { return map[string]string{"http": "bob", "nats": "host"}[door] }

// asksIn creates the session, in which alice and bob may everything that can be granted.
func (b *bundle) asksIn(id events.SessionID, w asksFor, ask askAs) {
	b.t.Helper()
	equal(b.t, "create", ask(w.owner, operation.Create.Name, id, &api.CreateArgs{Request: api.CreateRequest{ID: id}}), "")
	if w.owner != "alice" {
		all := []events.SessionRight{events.GrantRead, events.GrantWrite, events.GrantApprove}
		equal(b.t, "grant", ask(w.owner, operation.Grant.Name, id, &api.GrantRequest{To: "alice", Rights: all}), "")
	}
}

// question waits until a session there may be none of yet asks for an approval, and gives the call.
func (b *bundle) question(id events.SessionID) (effect events.EffectID) {
	b.t.Helper()
	b.until(fmt.Sprint("a question in ", id), func() bool {
		list, err := b.Approvals(b.ctx, id)
		if err == nil && len(list) > 0 {
			effect = list[0].Effect
		}
		return effect != ""
	})
	return effect
}
