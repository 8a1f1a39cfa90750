package security

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/workers"
)

// privileged is a request with one field that needs the right to configure.
type privileged struct {
	field string
	op    operation.Name
	// nats is its body. SESSION stands for the session that the caller has a grant of, NEW for one to be created.
	nats func(session, fresh events.SessionID) any
	http string // path and body with a space between, likewise, after PUT where that is the method; empty: HTTP has no such field
}

func creates(set func(*api.CreateRequest)) func(session, fresh events.SessionID) any {
	return func(session, fresh events.SessionID) any {
		a := &api.CreateArgs{Request: api.CreateRequest{ID: fresh, Parent: session}}
		set(&a.Request)
		return a
	}
}

func turnContent(set func(*events.TurnInput)) func(session, fresh events.SessionID) any {
	return func(_, fresh events.SessionID) any {
		r := turnWith(string(fresh), small(11))
		set(&r.Input)
		return &r
	}
}

// laterContent is turnContent for a scheduled turn.
func laterContent(set func(*events.TurnInput)) func(session, fresh events.SessionID) any {
	return func(session, fresh events.SessionID) any {
		r := turnContent(set)(session, fresh).(*api.TurnRequest)
		return &api.SubmitAtArgs{At: events.MillisOf(time.Now().Add(time.Hour)), Request: *r}
	}
}

// contents has each such field in each request that has it.
func contents(t *testing.T) []privileged {
	t.Helper()
	system := events.Message{Role: events.RoleSystem, Parts: small(11)}
	nodes := []api.AppendNode{{Message: &events.Message{Role: events.RoleUser, Parts: small(11)}}, {Message: &system}}
	const given = `[{"message":{"role":"user","parts":[{"type":"text","text":"x"}]}},{"message":{"role":"system","parts":[{"type":"text","text":"x"}]}}]`
	head, _, err := projector.New("elsewhere").Snapshot()
	runtest.WantError(t, "snapshot", err, nil)
	create := func(more string) string { return `/v1/sessions {"id":"NEW","parent":"SESSION",` + more + `}` }
	fork := func(more string) string { return `/v1/sessions/SESSION/fork {"id":"NEW",` + more + `}` }
	turn := func(more string) string { return `/v1/sessions/SESSION/turns {"id":"NEW","text":"x",` + more + `}` }
	list := []privileged{
		{"options", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Options = map[string]string{"gate": "{}"} }), create(`"options":{"gate":"{}"}`)},
		{"config.protocol", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Config.Protocol = "code" }), create(`"config":{"protocol":"code"}`)},
		{"config.instructions", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Config.Instructions = "x" }), create(`"config":{"instructions":"x"}`)},
		{"config.layers", operation.Create.Name, creates(func(r *api.CreateRequest) {
			r.Config.Layers = []events.PromptLayer{{Slot: events.SlotIntro, Op: events.LayerClear}}
		}), create(`"config":{"layers":[{"slot":"intro","op":"clear"}]}`)},
		{"config.environment", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Config.Environment = "default" }), create(`"config":{"environment":"default"}`)},
		{"config.retain_ms", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Config.RetainMillis = -1 }), create(`"config":{"retain_ms":-1}`)},
		{"access", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Access.Tools = []string{"x"} }), create(`"access":{"tools":["x"]}`)},
		{"access", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Access.Hidden = []string{"x"} }), fork(`"access":{"hidden":["x"]}`)},
		{"subagent", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Subagent = events.Subagent{Capability: "x", Depth: 1, MaxDepth: 1} }), create(`"subagent":{"capability":"x","depth":1,"max_depth":1}`)},
		{"overlay", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Overlay.WithoutBase = true }), create(`"overlay":{"without_base":true}`)},
		{"overlay", operation.Create.Name, creates(func(r *api.CreateRequest) {
			r.Overlay.Contributions = []events.Contribution{{Slot: events.SlotIntro, Content: "x"}}
		}), fork(`"overlay":{"contributions":[{"slot":"intro","content":"x"}]}`)},
		{"first.role", operation.Create.Name, creates(func(r *api.CreateRequest) { r.First = &system }), create(`"first":{"role":"system","parts":[{"type":"text","text":"x"}]}`)},
		{"nodes[1].message.role", operation.Create.Name, creates(func(r *api.CreateRequest) { r.Nodes = nodes }), create(`"nodes":` + given)},
		{"options", operation.Create.Name, creates(func(r *api.CreateRequest) {
			r.Start, r.From, r.Parent, r.Options = api.StartExisting, r.Parent, "", map[string]string{"gate": "{}"}
		}), fork(`"options":{"gate":"{}"}`)},
		{"snapshot", operation.Create.Name, func(session, fresh events.SessionID) any {
			return &api.CreateArgs{Head: head, Request: api.CreateRequest{ID: fresh, Parent: session, Start: api.StartSnapshot}}
		}, create(`"start":"snapshot","snapshot":{"head":"` + base64.StdEncoding.EncodeToString(head) + `"}`)},
		{"role", operation.Inject.Name, func(_, fresh events.SessionID) any {
			return &api.InjectRequest{ID: events.InputID(fresh), Role: events.RoleSystem, Parts: small(11)}
		}, `/v1/sessions/SESSION/inputs {"id":"NEW","role":"system","text":"x"}`},
		{"nodes[1].message.role", operation.AppendNodes.Name, func(_, _ events.SessionID) any { return &api.AppendNodesRequest{Nodes: nodes} }, `/v1/sessions/SESSION/nodes {"nodes":` + given + `}`},
		{"nodes[1].message.role", operation.OpenFrame.Name, func(_, fresh events.SessionID) any {
			return &api.FrameRequest{Frame: events.FrameID(fresh), Nodes: nodes}
		}, `/v1/sessions/SESSION/frames {"id":"NEW","nodes":` + given + `}`},
		{"messages[0].role", operation.Rewrite.Name, func(_, _ events.SessionID) any { return &[]api.RewriteMessage{{Message: system}} }, `PUT /v1/sessions/SESSION/messages {"messages":[{"role":"system","parts":[{"type":"text","text":"x"}]}]}`},
	}
	for field, ask := range map[string]struct {
		set  func(*events.TurnInput)
		http string
	}{
		"input.plugins": {func(in *events.TurnInput) { in.Plugins = map[string]string{"gate": "{}"} }, `"plugins":{"gate":"{}"}`},
		"input.options": {func(in *events.TurnInput) { in.Options = []byte("{}") }, `"options":{}`},
		"input.layers": {func(in *events.TurnInput) {
			in.Layers = []events.PromptLayer{{Slot: events.SlotIntro, Op: events.LayerClear}}
		}, `"layers":[{"slot":"intro","op":"clear"}]`},
		"input.extension": {func(in *events.TurnInput) { in.Extension = events.Extension{Type: "x", Body: []byte("{}")} }, `"extension":{"type":"x","body":{}}`},
	} {
		now, later := "", ""
		if ask.http != "" {
			now, later = turn(ask.http), turn(`"at_ms":4102444800000,`+ask.http)
		}
		list = append(list, privileged{field, operation.Submit.Name, turnContent(ask.set), now}, privileged{field, operation.SubmitAt.Name, laterContent(ask.set), later})
	}
	return list
}

// TestContentNeedsConfigure sends every field that decides with what a session runs, over both APIs. With the
// right to configure it is accepted. Without it is refused by name, whether the scope lacks the right or the grant
// does.
func TestContentNeedsConfigure(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reach   api.Reach
		parent  bool // it is made in a session of another owner, with a grant
		allowed bool
	}{
		"write":               {api.Reach{Scope: "read,write"}, false, false},
		"write_below":         {api.Reach{Scope: "read,write"}, true, false},
		"approve":             {api.Reach{Scope: "read,write,approve,command"}, true, false},
		"own":                 {api.Reach{Scope: "read,write", Own: true}, true, false},
		"grant":               {api.Reach{Scope: api.ScopeAdmin, Own: true}, true, false},
		"configure":           {api.Reach{Scope: "read,write,configure"}, false, true},
		"configure_in_others": {api.Reach{Scope: api.ScopeWrite}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNATSAPI(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": tc.reach}})
			d := n.ServeHTTP(httpapi.Config{Tokens: []httpapi.Token{{
				Name: "carol", Digest: sha256.Sum256([]byte("carol" + harness.TokenSecret)), Scope: tc.reach.Scope, Own: tc.reach.Own,
			}}})
			for i, c := range contents(t) {
				for transport, caller := range map[string]string{"nats": "alice", "http": "carol"} {
					id, fresh := events.SessionID(fmt.Sprintf("s-%d-%s", i, transport)), events.SessionID(fmt.Sprintf("n-%d-%s", i, transport))
					owner := api.WithRequestMeta(d.Ctx, api.RequestMeta{Actor: "owner"})
					_, err := d.Create(owner, api.CreateRequest{ID: id})
					runtest.WantError(t, "create", err, nil)
					rights := []events.SessionRight{events.GrantRead, events.GrantWrite}
					runtest.WantError(t, "grant", d.Grant(d.Ctx, id, api.GrantRequest{To: caller, Rights: rights}), nil)
					before, from := d.LastSeq(id), id
					if !tc.parent && c.op == operation.Create.Name {
						from = ""
					}
					var code, message string
					switch {
					case transport == "nats":
						if args, ok := c.nats(from, fresh).(*api.CreateArgs); ok && args.Request.Start == api.StartExisting {
							from = id // of everything else
						}
						a := n.askRaw("alice@acme", c.op, api.Request{Session: id}, c.nats(from, fresh))
						code, message = a.Error.Code, a.Error.Message
					case c.http != "":
						request, put := strings.CutPrefix(strings.ReplaceAll(c.http, "NEW", string(fresh)), "PUT ")
						path, body, _ := strings.Cut(request, " ")
						path = strings.ReplaceAll(path, "SESSION", string(id))
						a := d.Send("carol", map[bool]string{false: "POST", true: "PUT"}[put], path, strings.ReplaceAll(body, "SESSION", string(from)))
						if a.Status >= 300 {
							code, message = a.Field("code"), a.Field("detail")
							runtest.Equal(t, "status", a.Status, 403)
						}
					default:
						continue
					}
					what := fmt.Sprintf("%s of %s over %s", c.field, c.op, transport)
					if tc.allowed {
						runtest.Equal(t, what, code+message, "")
						continue
					}
					if code != "forbidden" || !strings.Contains(message, c.field+": ") {
						t.Errorf("%s: got %q %q, want the field forbidden", what, code, message)
					}
					runtest.Equal(t, "commits after "+what, d.LastSeq(id), before)
					d.WantNoSession(fresh)
				}
			}
		})
	}
}

// TestUnknownProtocolIsRefused requests a protocol that the node does not have: it is refused by name, without an effect.
// A session with such a protocol, as of another node, refuses requests that need it, and can be configured for
// another one.
func TestUnknownProtocolIsRefused(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	old := "/v1/sessions/" + string(b.Open(api.CreateRequest{Config: events.Config{Protocol: "nosuch"}})) // by a host that has no plugins
	b.StartNode()
	d := b.ServeHTTP(httpapi.Config{})
	id := b.Open(api.CreateRequest{})
	before := b.LastSeq(id)
	for _, ask := range [][2]string{
		{"POST", `{"id":"never","config":{"protocol":"nosuch"}}`}, {"PATCH", `{"protocol":"nosuch"}`},
	} {
		path := map[string]string{"POST": "/v1/sessions", "PATCH": "/v1/sessions/" + string(id)}[ask[0]]
		got := d.WantProblem(400, "invalid", ask[0], path, ask[1])
		for _, want := range []string{`"field":"config.protocol"`, "no plugin of this node registers a protocol of this name: check the name"} {
			if !strings.Contains(string(got.Body), want) {
				t.Errorf("%v: got %s, want %s in it", ask, got.Body, want)
			}
		}
		runtest.Equal(t, "when to come again", got.Header.Get("Retry-After"), "")
	}
	for _, ask := range [][3]string{
		{"GET", old + "/tools", ""},
		{"POST", old + "/nodes", harness.ValidBodies()["appendNodes"]},
		{"PATCH", old, `{"model":"m2"}`},
		{"POST", old + "/turns", harness.ValidBodies()["submitTurn"]},
	} {
		got := d.WantProblem(503, "unavailable", ask[0], ask[1], ask[2])
		if !strings.Contains(got.Field("detail"), "config.protocol: ") {
			t.Errorf("%v: got %s, want the field", ask, got.Body)
		}
	}
	b.WantNoSession("never")
	runtest.Equal(t, "commits", b.LastSeq(id), before)
	d.Want(204, "PATCH", old, `{"protocol":"standard"}`)
	d.Want(200, "GET", old+"/tools", "")
}
