package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// validBodies are requests that an open session grants, by operation; those that are not here have no body.
func validBodies() map[string]string {
	return map[string]string{
		"createSession": `{}`, "configureSession": `{"model":"m2"}`, "forkSession": `{}`, "submitTurn": `{"text":"hello"}`,
		"cancelTurn": `{}`, "injectInput": `{"text":"mind this"}`, "appendNodes": `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","text":"n"}]}}]}`,
		"branchTo": `{"node":""}`, "openFrame": `{"id":"f9"}`, "approve": `{"call":"t1/0/0","granted":true}`,
		"resolveCall": `{"call":"t1/0/0","text":"done"}`, "setTools": `{"names":["add"],"level":"off"}`, "startMonitor": `{"command":"true"}`,
		"grant": `{"rights":["read"]}`, "storeBlob": `{"x":1}`, "rewriteMessages": `{"messages":[]}`, "setProtocolOptions": `{"options":{}}`, "replaceExtensions": `{"extensions":[]}`, "applyExtension": `{"type":"x"}`,
		"applyTools": `{"generation":0,"tools":[]}`, "invokeAction": `{"name":"greet"}`, "complete": `{"messages":[{"role":"user","parts":[{"type":"text","text":"aside"}]}]}`,
		"registerTask": `{}`, "progressTask": `{"message":"on"}`, "endTask": `{"state":"completed"}`, "stopTask": `{}`, "cancelTasks": `{}`,
		"streamCompletion": `{"messages":[{"role":"user","parts":[{"type":"text","text":"aside"}]}]}`,
		"transferTasks":    `{"to":"elsewhere","tasks":["k1"]}`,
	}
}

// at fills the parameters of a path.
func at(path, session string) string {
	return strings.NewReplacer("{session}", session, "{turn}", "t1", "{input}", "i1", "{task}", "k1", "{source}", "more", "{monitor}", "m1", "{caller}", "guest", "{digest}", strings.Repeat("0f", 32)).Replace(path)
}

// query is what an operation cannot do without.
func query(id string) string {
	if id == "getOutput" {
		return "?call=t1/0/0"
	}
	return ""
}

// TestHTTPDocument lives through every operation and its every documented
// answer. Each answer, of the other tests too, is held against its schema.
func TestHTTPDocument(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, theCall(), reply(text("3")), reply(call("k", "later", "{}")), reply(text("late")), reply(text("x")))
	g := &asker{}
	b.node(g.factory(events.EffectsNonIdempotent), declares("pend", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
			c.CompletionKey()
			return plugin.Result{Pending: true}, nil
		})
		r.Source("more", ofNames("extra"))
		plugin.AddAction(r, plugin.ActionDef{Name: "greet"}, func(_ context.Context, _ plugin.ActionContext, in struct{ Name string }) (string, error) {
			return "hello " + in.Name, nil
		})
		r.Compact(0, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
			m := plugin.Say(events.RoleUser, "summary")
			return plugin.Compaction{Nodes: []api.AppendNode{{Message: &m}}}, nil
		})
	}))
	d := b.door(httpapi.Config{MaxBodyBytes: 4096, MaxBlobBytes: 4500, MaxRequestsPerCaller: 2, MaxStreamsPerCaller: 4})
	d.scopes()
	d.refusals()
	d.granted()
	d.life()
	d.lists()
	d.bodies()
	d.conflicts()
	d.busy()
	d.late()
	d.server.Drain()
	for _, op := range d.doc.operations() {
		if op.scope != "" {
			got := d.ask("admin", op.method, at(op.path, "s")+query(op.id), validBodies()[op.id])
			equal(t, op.id+" of a server that drains", fmt.Sprintf("%d %s %s", got.status, got.text("code"), got.header.Get("Retry-After")), "503 draining 1")
		}
	}
	if list := d.doc.missing(); len(list) > 0 {
		t.Errorf("documented and never produced: %s", strings.Join(list, ", "))
	}
}

// refusals asks every operation for what it refuses whatever the session is.
func (d *door) refusals() {
	d.t.Helper()
	for _, op := range d.doc.operations() {
		body, path := validBodies()[op.id], at(op.path, "nosuch")+query(op.id)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if _, known := d.doc.Paths[op.path][strings.ToLower(method)]; !known && d.doc.path(method, path) == "" {
				got := d.ask("admin", method, path, "")
				equal(d.t, method+" "+op.path, fmt.Sprint(got.status, strings.Contains(got.header.Get("Allow"), op.method)), "405 true")
				equal(d.t, method+" "+op.path+" says what there is", got.text("detail"), "the path has no "+method+": it has "+got.header.Get("Allow"))
			}
		}
		if op.scope == "" {
			continue
		}
		equal(d.t, op.id+" with a wrong token", d.ask("nobody", op.method, path, body).status, 401)
		if strings.Contains(op.path, "{session}") {
			equal(d.t, op.id+" of no id", d.ask("admin", op.method, at(op.path, "a.b")+query(op.id), body).text("code"), "invalid_id")
			got := d.ask("admin", op.method, path, body)
			lenient := slices.Contains([]string{"closeSession", "getTasks", "takeFirstInput"}, op.id)
			equal(d.t, op.id+" of no session", got.status == 404, !lenient)
		}
		if body != "" && !op.given {
			got := d.ask("admin", op.method, path, `{"no_such_field":1}`)
			equal(d.t, op.id+" with an unknown field", fmt.Sprintf("%d %s %s", got.status, got.text("code"), got.text("detail")), `400 invalid_body unknown field "no_such_field"`)
		}
		if body != "" {
			equal(d.t, op.id+" with a large body", d.ask("admin", op.method, path, `{"x":"`+strings.Repeat("x", 5000)+`"}`).text("code"), "body_too_large")
		}
		equal(d.t, op.id+" with an unknown parameter", d.ask("admin", op.method, path+"&"[:strings.Count(path, "?")]+"?no=1"[strings.Count(path, "?"):], body).text("code"), "invalid_parameter")
	}
}

// granted has a caller that may only answer approvals look at everything.
func (d *door) granted() {
	d.t.Helper()
	equal(d.t, "create", d.ask("alice", "POST", "/v1/sessions", `{"id":"hers"}`).status, 201)
	equal(d.t, "grant", d.ask("alice", "PUT", "/v1/sessions/hers/grants/bob", `{"rights":["approve"]}`).status, 204)
	equal(d.t, "child of none", d.ask("bob", "POST", "/v1/sessions", `{"parent":"nosuch"}`).status, 404)
	for _, op := range d.doc.operations() {
		if op.right == "read" && strings.Contains(op.path, "{session}") {
			equal(d.t, op.id, d.ask("bob", op.method, at(op.path, "hers")+query(op.id), "").status, 403)
		}
	}
}

// life is a session from its creation to its end.
func (d *door) life() {
	d.t.Helper()
	const s = "/v1/sessions/s1"
	made := d.want(201, "POST", "/v1/sessions", `{"config":{"model":"m1"},"labels":{"a":"b"}}`, "Idempotency-Key", "s1")
	equal(d.t, "location", made.header.Get("Location"), s)
	d.want(201, "POST", "/v1/sessions", `{"config":{"model":"m1"},"labels":{"a":"b"}}`, "Idempotency-Key", "s1") // the same request again
	d.want(204, "PATCH", s, `{"model":"m2"}`)
	d.want(200, "POST", s+"/nodes", `{"nodes":[{"message":{"id":"n1","role":"user","parts":[{"type":"text","text":"before"}]}}]}`)
	d.want(202, "POST", s+"/turns", `{"id":"t1","text":"1+2?"}`)
	d.await("s1", "question", hasAsk)
	equal(d.t, "model", d.state("s1").Config.Model, "m2")
	asked := d.want(200, "GET", s+"/approvals", "")
	if want := `{"approvals":[{"call":"t1/0/0","tool":"add","args":{"A":1,"B":2},"plugin":"gate","question":"really add?"}]}`; strings.TrimSpace(string(asked.body)) != want {
		d.t.Errorf("approvals: got %s, want %s", asked.body, want)
	}
	equal(d.t, "running", strings.Contains(string(d.want(200, "GET", s, "").body), `"running":{"id":"t1"`), true)
	equal(d.t, "turn that asks", d.want(202, "GET", s+"/turns/t1", "").text("status"), "asking")
	equal(d.t, "turn that asks, waited for", d.want(202, "GET", s+"/turns/t1?wait=0.1s", "").text("status"), "asking")
	equal(d.t, "list of turns", strings.Contains(string(d.want(200, "GET", s+"/turns", "").body), `{"id":"t1","status":"asking"`), true)
	watchers := []*sse{d.stream("reader", s+"/turns/t1/stream"), d.stream("reader", s+"/turns/t1/stream?as=activity")}
	question := `"call":"t1/0/0","call_id":"k","name":"add","args":{"A":1,"B":2},"question":"really add?","plugin_id":"gate"}`
	d.told(watchers, "tool_approval_asked", question)
	busy := d.refused(409, "turn_running", "DELETE", s, "").text("detail")
	equal(d.t, "what helps: "+busy, strings.HasSuffix(busy, "a turn is running: cancel turn t1, or wait for its end"), true)
	d.want(204, "POST", s+"/approvals", `{"call":"t1/0/0","granted":true,"reason":"fine"}`)
	d.told(watchers, "tool_approval_given", `"call":"t1/0/0","call_id":"k","name":"add","reason":"fine","granted":true,"by":"writer"}`)
	ended := d.want(200, "GET", s+"/turns/t1?wait=30", "")
	equal(d.t, "who approved", find[*events.ToolApprovalGiven](d.bundle, "s1")[0].By, "writer")
	equal(d.t, "text", strings.Contains(string(ended.body), `"safe_text":"3"`), true)
	d.want(200, "GET", s+"/turns/t1", "")
	var record api.AssembledTurn
	must(d.t, "record", json.Unmarshal(ended.body, &record), nil)
	equal(d.t, "output", d.want(200, "GET", s+"/output?call="+string(record.ToolCalls[0].Call), "").text("output"), "3")
	d.watched(s)
	equal(d.t, "view", strings.Contains(string(d.want(200, "GET", s+"/view", "").body), `"text":"before"`), true)
	equal(d.t, "receipt", d.want(200, "POST", s+"/turns/t1/cancel", `{}`).text("receipt"), "completion_won_race")

	d.want(201, "POST", s+"/inputs", `{"id":"i1","text":"one"}`)
	d.want(201, "POST", s+"/inputs", `{"text":"two"}`, "Idempotency-Key", "i2")
	d.refused(409, "different_content", "POST", s+"/inputs", `{"id":"i1","text":"other"}`)
	equal(d.t, "cancelled", d.want(200, "DELETE", s+"/inputs/i1?following=true", "").text("cancelled"), "[i1 i2]")
	equal(d.t, "cancelled again", d.want(200, "DELETE", s+"/inputs/i1", "").text("receipt"), "already_cancelled")

	equal(d.t, "tools", strings.Contains(string(d.want(200, "GET", s+"/tools", "").body), `"name":"add"`), true)
	d.want(200, "PATCH", s+"/tools", `{"names":["add"],"level":"off"}`)
	equal(d.t, "opened", d.want(200, "POST", s+"/frames", `{"id":"f1","reason":"anew"}`).text("opened"), "true")
	equal(d.t, "compacted", d.want(200, "POST", s+"/compact", "").text("opened"), "true")
	d.want(201, "POST", s+"/fork", `{"id":"s2"}`)
	d.want(204, "POST", s+"/branch", `{"node":"n1"}`)
	d.later(s)
	d.monitored(s)
	d.outside(s)
	d.extended()
}

// told waits until each watcher of a turn is told of an event, and closes those that are told of an answer.
func (d *door) told(watchers []*sse, typ, rest string) {
	d.t.Helper()
	for _, w := range watchers {
		list := w.until(func(m received) bool { return strings.Contains(m.data, `"type":"`+typ+`","turn"`) })
		if last := list[len(list)-1].data; !strings.Contains(last, rest) {
			d.t.Errorf("%s: got %s, want %s in it", typ, last, rest)
		}
		if typ == "tool_approval_given" {
			w.close()
		}
	}
}

// watched reads the history of the ended turn in both forms.
func (d *door) watched(s string) {
	d.t.Helper()
	stream := d.stream("reader", s+"/events?cursor=0")
	last := fmt.Sprint(d.last("s1"))
	var kinds []string
	for _, m := range stream.until(func(m received) bool { return m.id == last }) {
		var c struct {
			Events []struct{ Kind, Actor string }
		}
		must(d.t, "commit", json.Unmarshal([]byte(m.data), &c), nil)
		for _, e := range c.Events {
			kinds = append(kinds, e.Kind)
			if e.Kind == "session.opened" {
				equal(d.t, "who opened it", e.Actor, "client:writer")
			}
		}
	}
	stream.close()
	var want []string
	for _, e := range d.history("s1") {
		want = append(want, string(e.Kind))
	}
	equalLists(d.t, "kinds", kinds, want)

	turn := d.stream("reader", s+"/turns/t1/stream")
	var types []string
	for _, m := range turn.until(func(m received) bool { return strings.Contains(m.data, `"type":"done"`) }) {
		var e api.SessionEvent
		must(d.t, "session event", json.Unmarshal([]byte(m.data), &e), nil)
		types = append(types, string(e.Type))
	}
	wantTypes := []string{
		"llm_request", "llm_response", "token_usage", "tool_call_start", "tool_approval_asked", "tool_approval_given", "tool_call",
		"llm_request", "llm_response", "token_usage", "turn_outcome", "done",
	}
	types = slices.DeleteFunc(types, func(s string) bool { return s == "text_delta" }) // there may be some
	equalLists(d.t, "turn's events", types, wantTypes)
	if m, err := turn.next(); err == nil {
		d.t.Errorf("after done: got %v, want the end of the stream", m)
	}
	turn.close()
}

// later is a turn whose call somebody outside answers.
func (d *door) later(s string) {
	d.t.Helper()
	d.want(202, "POST", s+"/turns?wait=0.2s", `{"id":"t2","text":"wait"}`)
	d.await("s1", "pending call", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 1 && s.Turn().Calls[0].Pended
	})
	d.want(204, "POST", s+"/results", `{"call":"t2/0/0","text":"from outside","outcome":"success"}`)
	d.want(200, "GET", s+"/turns/t2", "", "Prefer", "respond-async, wait=30")
	asked := d.want(200, "POST", s+"/turns?wait=30s", `{"text":"the same again"}`, "Idempotency-Key", "t3").header.Get("Lash-Seq")
	if again := d.want(200, "POST", s+"/turns?wait=30s", `{"text":"the same again"}`, "Idempotency-Key", "t3").header.Get("Lash-Seq"); asked == "" || again != asked {
		d.t.Errorf("got sequence %q, and %q again", asked, again)
	}
	d.refused(409, "different_content", "POST", s+"/turns?wait=30s", `{"text":"other"}`, "Idempotency-Key", "t3")
}

// monitored runs a command and takes its line.
func (d *door) monitored(s string) {
	d.t.Helper()
	got := d.ask("admin", "PUT", s+"/monitors/m1", `{"command":"echo line","wake":"notify"}`)
	equal(d.t, "started", got.status, 204)
	d.await("s1", "its line", func(s *projector.State) bool { return len(s.Feed.Updates) > 0 })
	equal(d.t, "monitors", strings.Contains(string(d.want(200, "GET", s+"/monitors", "").body), `"command":"echo line"`), true)
	equal(d.t, "updates", strings.Contains(string(d.want(200, "POST", s+"/monitors/updates", "").body), `"message":"`), true)
	equal(d.t, "tasks", strings.Contains(string(d.want(200, "GET", s+"/tasks", "").body), `"id":"monitor-m1","kind":"monitor"`), true)
	d.want(200, "GET", s+"/tasks/monitor-m1", "")
	d.want(204, "DELETE", s+"/monitors/m1", "")
	d.want(200, "POST", s+"/tasks/monitor-m1/cancel", "")
}

// bodies stores a body, has messages refer to it, and reads it.
func (d *door) bodies() {
	d.t.Helper()
	const s = "/v1/sessions/s1"
	for _, size := range []int{1, 4096, 4500} {
		body := strings.Repeat("b", size)
		stored := d.want(201, "POST", s+"/blobs", body)
		ref := strings.TrimSpace(string(stored.body))
		d.want(200, "POST", s+"/nodes", `{"nodes":[{"message":{"role":"user","parts":[{"type":"attachment","media_type":"image/png","blob":`+ref+`}]}}]}`)
		d.want(201, "POST", s+"/inputs", `{"id":"blob`+fmt.Sprint(size)+`","parts":[{"type":"text","blob":`+ref+`}]}`)
		got := d.want(200, "GET", stored.header.Get("Location"), "")
		equal(d.t, "body", string(got.body), body)
		want := fmt.Sprintf("%d attachment application/octet-stream nosniff", size)
		equal(d.t, "header", fmt.Sprint(got.header.Get("Content-Length"), " ", got.header.Get("Content-Disposition"), " ", got.header.Get("Content-Type"), " ", got.header.Get("X-Content-Type-Options")), want)
		head := d.ask("reader", "HEAD", stored.header.Get("Location"), "")
		equal(d.t, "head", fmt.Sprint(head.status, " ", head.header.Get("Content-Length"), " ", len(head.body)), fmt.Sprint(200, " ", size, " 0"))
		d.want(200, "DELETE", s+"/inputs/blob"+fmt.Sprint(size), "")
	}
	got := d.refused(404, "unknown_blob", "GET", at(s+"/blobs/{digest}", ""), "")
	equal(d.t, "unknown body", got.status, 404)
	d.refused(400, "invalid", "GET", s+"/blobs/0F", "")
	d.refused(400, "invalid", "POST", s+"/blobs", "")
	none := `{"digest":"` + strings.Repeat("0f", 32) + `","size":1}`
	for path, body := range map[string]string{
		"/turns": `{"parts":[{"type":"text","blob":` + none + `}]}`, "/inputs": `{"parts":[{"type":"text","blob":` + none + `}]}`,
		"/nodes":  `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":` + none + `}]}}]}`,
		"/frames": `{"id":"f7","nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":` + none + `}]}}]}`,
	} {
		d.refused(404, "unknown_blob", "POST", s+path, body)
		d.refused(400, "invalid_parameter", "POST", s+path, strings.Replace(body, `"blob"`, `"text":"x","blob"`, 1))
	}
	d.refused(400, "invalid_parameter", "POST", "/v1/sessions", `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":`+none+`}]}}]}`)
}

// lists asks for lists as they are, and with parameters that are refused.
func (d *door) lists() {
	d.t.Helper()
	turns := d.want(200, "GET", "/v1/sessions/s1/turns?limit=1", "")
	equal(d.t, "next turn", d.want(200, "GET", "/v1/sessions/s1/turns?limit=1&cursor="+turns.text("next"), "").status, 200)
	view := d.want(200, "GET", "/v1/sessions/s1/view?at=2", "")
	equal(d.t, "sequence of the view", view.text("seq"), "2")
	d.want(200, "GET", "/v1/sessions?label=a=b&label=c=d&status=open&parent=s9&owner=writer&created_from_ms=1&created_to_ms=2&updated_from_ms=3&updated_to_ms=4&limit=1000", "")
	d.want(200, "GET", "/v1/approvals?limit=1", "")
	for _, path := range []string{"/v1/sessions", "/v1/approvals", "/v1/sessions/s1/turns"} {
		if path != "/v1/sessions/s1/turns" {
			equal(d.t, path+" without the right", d.ask("approver", "GET", path, "").status, 403)
		}
		for _, bad := range []string{"limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=1&limit=2"} {
			got := d.refused(400, "invalid_parameter", "GET", path+"?"+bad, "")
			equal(d.t, "field", strings.Contains(got.text("details"), "field:limit"), true)
		}
		got := d.refused(400, "invalid", "GET", path+"?cursor=%00", "")
		equal(d.t, "field", strings.Contains(got.text("details"), "field:cursor"), true)
	}
	for _, bad := range []string{"label=a", "label==b", "label=a=b&label=a=c", "created_from_ms=-1", "created_to_ms=99999999999999999999", "updated_from_ms=x", "status=open&status=closed"} {
		d.refused(400, "invalid_parameter", "GET", "/v1/sessions?"+bad, "")
	}
	for _, bad := range []string{"status=else", "parent=a.b", "owner=a%20b", "label=a=" + strings.Repeat("x", 2000)} {
		equal(d.t, bad, d.ask("writer", "GET", "/v1/sessions?"+bad, "").status, 400)
	}
	for _, bad := range []string{"at=0", "at=-1", "at=x", "at=99999999999999999999"} {
		equal(d.t, bad, d.ask("writer", "GET", "/v1/sessions/s1/view?"+bad, "").status, 400)
	}
}

// conflicts asks for what the session as it stands does not grant.
func (d *door) conflicts() {
	d.t.Helper()
	d.refused(409, "session_exists", "POST", "/v1/sessions", `{"id":"s1"}`)
	d.refused(409, "session_exists", "POST", "/v1/sessions/s1/fork", `{"id":"s2"}`)
	got := d.refused(409, "cursor", "GET", "/v1/sessions/s1/events?cursor=99999", "")
	equal(d.t, "cursor", strings.Contains(got.text("details"), "cursor:99999"), true)
	got = d.refused(409, "stale_branch", "POST", "/v1/sessions/s1/nodes", `{"nodes":[],"requires_ancestor":"nosuch"}`)
	equal(d.t, "stale branch", strings.Contains(got.text("details"), "required:nosuch"), true)

	d.saidOtherwise()

	d.want(204, "PUT", "/v1/sessions/s2/grants/you", `{"rights":["read"]}`, "Idempotency-Key", "taken")
	d.want(204, "DELETE", "/v1/sessions/s2?reason=done", "")
	for _, op := range d.doc.operations() {
		_, conflicts := d.doc.Paths[op.path][strings.ToLower(op.method)].Responses["409"]
		if conflicts && strings.Contains(op.path, "{session}") && op.id != "watchEvents" {
			_ = d.ask("admin", op.method, at(op.path, "s2")+query(op.id), validBodies()[op.id], "Idempotency-Key", "taken")
		}
	}
}

// saidOtherwise answers and resolves calls twice, while the turn waits for another one.
func (d *door) saidOtherwise() {
	d.t.Helper()
	const s = "/v1/sessions/s3"
	d.want(201, "POST", "/v1/sessions", `{"id":"s3"}`)
	d.model.rescript(
		reply(call("a", "add", `{"A":1,"B":2}`), call("b", "add", `{"A":3,"B":4}`)), reply(call("a", "later", "{}"), call("b", "later", "{}")), reply(text("end")),
	)
	d.want(202, "POST", s+"/turns", `{"id":"t1","text":"1+2?"}`)
	d.await("s3", "questions", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Asks) == 2 })
	d.want(204, "POST", s+"/approvals", `{"call":"t1/0/0","granted":false}`)
	d.refused(409, "different_content", "POST", s+"/approvals", `{"call":"t1/0/0","granted":true}`)
	d.want(204, "POST", s+"/approvals", `{"call":"t1/0/1","granted":true}`)
	d.await("s3", "pending calls", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && t.Iteration == 1 && len(t.Calls) == 2 && t.Calls[0].Pended && t.Calls[1].Pended
	})
	d.want(204, "POST", s+"/results", `{"call":"t1/1/0","text":"once"}`)
	d.refused(409, "resolved", "POST", s+"/results", `{"call":"t1/1/0","text":"other"}`)
	d.want(204, "POST", s+"/results", `{"call":"t1/1/1","text":"and twice"}`)
	d.want(200, "GET", s+"/turns/t1?wait=30", "")
}

// late asks when there is no time left: nobody knows what came of it, and no
// client may take the answer for leave to ask again.
func (d *door) late() {
	d.t.Helper()
	server, err := httpapi.New(httpapi.Config{Service: d.Host, Tokens: tokens(), RequestTimeout: time.Nanosecond})
	must(d.t, "new server", err, nil)
	defer server.Drain()
	d.strangers()
	over, cancel := context.WithDeadline(d.ctx, time.Now())
	defer cancel()
	for _, op := range d.doc.operations() {
		if op.scope == "" {
			continue
		}
		path, w := at(op.path, "s1"), httptest.NewRecorder()
		r := httptest.NewRequestWithContext(over, op.method, path+query(op.id), strings.NewReader(validBodies()[op.id]))
		r.Header.Set("Authorization", "Bearer other"+secret)
		if op.scope == "admin" {
			r.Header.Set("Authorization", "Bearer admin"+secret)
		}
		server.ServeHTTP(w, r)
		d.doc.check(d.t, op.method, path, w.Code, w.Header(), w.Body.Bytes())
		equal(d.t, op.id+" too late", fmt.Sprintf("%d %q", w.Code, w.Header().Get("Retry-After")), `504 ""`)
	}
}

// strangers ask for what needs no caller, until they have had as many bytes as a caller may: they are one.
func (d *door) strangers() {
	d.t.Helper()
	server, err := httpapi.New(httpapi.Config{Service: d.Host, Tokens: tokens(), MaxBytesPerMinute: 1000})
	must(d.t, "new server", err, nil)
	defer server.Drain()
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		for _, op := range d.doc.operations() {
			if op.scope != "" {
				continue
			}
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequestWithContext(d.ctx, op.method, op.path, nil))
			d.doc.check(d.t, op.method, op.path, w.Code, w.Header(), w.Body.Bytes())
			equal(d.t, op.id+" for strangers", w.Code, want)
		}
	}
}

// slowBody is a request's body that does not come.
type slowBody struct {
	read chan<- struct{} // tells that somebody waits for it
	end  <-chan struct{}
}

func (s slowBody) Read([]byte) (int, error) {
	s.read <- struct{}{}
	<-s.end
	return 0, io.EOF
}

// hold fills a token's slots with requests whose bodies do not come, until release.
func (d *door) hold(token string, n int) (release func()) {
	d.t.Helper()
	read, end := make(chan struct{}, n), make(chan struct{})
	var held sync.WaitGroup
	for range n {
		r := httptest.NewRequestWithContext(limited(d.t), http.MethodPost, "/v1/sessions", slowBody{read, end})
		r.Header.Set("Authorization", "Bearer "+token+secret)
		held.Go(func() { d.server.ServeHTTP(httptest.NewRecorder(), r) })
	}
	for range n {
		receive(d.bundle, "a held request", read)
	}
	return func() {
		close(end)
		held.Wait()
	}
}

// takesLong tells operations that are held open for as long as their work takes.
func takesLong(id string) bool {
	return id == "invokeAction" || id == "complete" || id == "streamCompletion"
}

// busy holds all the requests and all the streams of a token that nothing else had streams with.
func (d *door) busy() {
	d.t.Helper()
	release := d.hold("admin", 2)
	for _, op := range d.doc.operations() {
		if op.scope == "" {
			equal(d.t, op.id, d.ask("", op.method, op.path, "").status, 200)
			continue
		}
		if takesLong(op.id) {
			continue
		}
		if _, held := d.doc.Paths[op.path][strings.ToLower(op.method)].Responses["200"].Content["text/event-stream"]; !held {
			got := d.ask("admin", op.method, at(op.path, "s1")+query(op.id), validBodies()[op.id])
			equal(d.t, op.id+" of a busy token", fmt.Sprintf("%d %s %s", got.status, got.text("code"), got.header.Get("Retry-After")), "429 too_many_requests 1")
		}
	}
	equal(d.t, "another token", d.ask("reader", "GET", "/v1/sessions/s1", "").status, 200)
	release()
	for range 4 {
		d.stream("admin", "/v1/sessions/s1/events")
	}
	for _, op := range d.doc.operations() {
		path, held := at(op.path, "s1"), op.id == "watchEvents" || op.id == "watchTurn" || takesLong(op.id)
		if op.id == "submitTurn" || op.id == "getTurn" {
			path, held = path+"?wait=1", true
		}
		if held {
			equal(d.t, op.id, d.ask("admin", op.method, path, validBodies()[op.id]).text("code"), "too_many_streams")
		}
	}
	d.stream("other", "/v1/sessions/s1/events") // which another token has its own of
}
