package system

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/plugin"
)

// TestHTTPDocument sends requests for every operation and its every documented response. Each response, of the
// other tests too, is checked against its schema.
func TestHTTPDocument(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("3")), harness.Reply(harness.Call("k", "later", "{}")), harness.Reply(harness.Text("late")), harness.Reply(harness.Text("x")))
	g := &harness.Approver{}
	b.StartNode(g.Factory(events.EffectsNonIdempotent), harness.PluginOf("pend", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
			c.CompletionKey()
			return plugin.Result{Pending: true}, nil
		})
		r.Source("more", harness.SourceOf("extra"))
		plugin.AddAction(r, plugin.ActionDef{Name: "greet"}, func(_ context.Context, _ plugin.ActionContext, in struct{ Name string }) (string, error) {
			return "hello " + in.Name, nil
		})
		r.Compact(0, func(context.Context, plugin.TransformContext) (plugin.Compaction, error) {
			m := plugin.Say(events.RoleUser, "summary")
			return plugin.Compaction{Nodes: []api.AppendNode{{Message: &m}}}, nil
		})
	}))
	d := b.ServeHTTP(httpapi.Config{MaxBodyBytes: 4096, MaxBlobBytes: 4500, MaxRequestsPerCaller: 2, MaxStreamsPerCaller: 4})
	scopes(d)
	refusals(d)
	granted(d)
	sessionLifecycle(d)
	lists(d)
	clientsBodies(d)
	conflicts(d)
	busy(d)
	late(d)
	sendReads(d)
	d.Server.Drain()
	for _, op := range d.Doc.Operations() {
		if op.Scope != "" {
			got := d.Send("admin", op.Method, harness.PathOf(op.Path, "s")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID])
			runtest.Equal(t, op.ID+" of a server that drains", fmt.Sprintf("%d %s %s", got.Status, got.Field("code"), got.Header.Get("Retry-After")), "503 draining 1")
		}
	}
	if list := missing(d.Doc); len(list) > 0 {
		t.Errorf("documented and never produced: %s", strings.Join(list, ", "))
	}
}

// refusals sends every operation the requests that it refuses in any session.
func refusals(d *harness.HTTP) {
	d.T.Helper()
	for _, op := range d.Doc.Operations() {
		body, path := harness.ValidBodies()[op.ID], harness.PathOf(op.Path, "nosuch")+harness.QueryOf(op.ID)
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
			if _, known := d.Doc.Paths[op.Path][strings.ToLower(method)]; !known && d.Doc.Path(method, path) == "" {
				got := d.Send("admin", method, path, "")
				runtest.Equal(d.T, method+" "+op.Path, fmt.Sprint(got.Status, strings.Contains(got.Header.Get("Allow"), op.Method)), "405 true")
				runtest.Equal(d.T, method+" "+op.Path+" says what there is", got.Field("detail"), "the path has no "+method+": it has "+got.Header.Get("Allow"))
			}
		}
		if op.Scope == "" {
			continue
		}
		runtest.Equal(d.T, op.ID+" with a wrong token", d.Send("nobody", op.Method, path, body).Status, 401)
		if strings.Contains(op.Path, "{session}") {
			runtest.Equal(d.T, op.ID+" of no id", d.Send("admin", op.Method, harness.PathOf(op.Path, "a.b")+harness.QueryOf(op.ID), body).Field("code"), "invalid_id")
			got := d.Send("admin", op.Method, path, body)
			lenient := slices.Contains([]string{"closeSession", "getTasks", "takeFirstInput"}, op.ID)
			runtest.Equal(d.T, op.ID+" of no session", got.Status == 404, !lenient)
		}
		if body != "" && !op.Given {
			got := d.Send("admin", op.Method, path, `{"no_such_field":1}`)
			unknownField(d, op, fmt.Sprintf("%d %s %s", got.Status, got.Field("code"), got.Field("detail")))
		}
		if body != "" {
			runtest.Equal(d.T, op.ID+" with a large body", d.Send("admin", op.Method, path, `{"x":"`+strings.Repeat("x", 5000)+`"}`).Field("code"), "body_too_large")
		}
		runtest.Equal(d.T, op.ID+" with an unknown parameter", d.Send("admin", op.Method, path+"&"[:strings.Count(path, "?")]+"?no=1"[strings.Count(path, "?"):], body).Field("code"), "invalid_parameter")
	}
}

// unknownField checks the refusal of a body with the field no_such_field: it lists at most 20 of the fields that the document has.
func unknownField(d *harness.HTTP, op harness.Operation, got string) {
	d.T.Helper()
	head, list, _ := strings.Cut(got, ": known are ")
	list, more, cut := strings.Cut(list, " and ")
	names := strings.Split(list, ", ")
	slices.Sort(names)
	want, rest := op.Fields, ""
	if cut {
		rest = fmt.Sprintf("%d more", len(want)-len(names))
		want = slices.DeleteFunc(slices.Clone(want), func(name string) bool { return !slices.Contains(names, name) })
	}
	runtest.Equal(d.T, op.ID+" with an unknown field", head, "400 invalid_body no_such_field: is unknown")
	runtest.EqualLists(d.T, op.ID+": fields that the refusal lists", names, want)
	runtest.Equal(d.T, op.ID+": fields that it does not list", more, rest)
	runtest.Equal(d.T, op.ID+": has fields", len(names) > 0 && len(names) <= 20, true)
}

// sendReads sends the operations that only read a session, and had no response yet.
func sendReads(d *harness.HTTP) {
	d.T.Helper()
	for _, op := range d.Doc.Operations() {
		if op.Right == "read" && strings.Count(op.Path, "{") == 1 && !d.Doc.Produced[op.ID+" 200"] {
			d.Want(200, op.Method, harness.PathOf(op.Path, "s1")+harness.QueryOf(op.ID), harness.ValidBodies()[op.ID])
		}
	}
}

// granted has a caller with the right to approve only read everything.
func granted(d *harness.HTTP) {
	d.T.Helper()
	runtest.Equal(d.T, "create", d.Send("alice", "POST", "/v1/sessions", `{"id":"hers"}`).Status, 201)
	runtest.Equal(d.T, "grant", d.Send("alice", "PUT", "/v1/sessions/hers/grants/bob", `{"rights":["approve"]}`).Status, 204)
	runtest.Equal(d.T, "child of none", d.Send("bob", "POST", "/v1/sessions", `{"parent":"nosuch"}`).Status, 404)
	for _, op := range d.Doc.Operations() {
		if op.Right == "read" && strings.Contains(op.Path, "{session}") {
			runtest.Equal(d.T, op.ID, d.Send("bob", op.Method, harness.PathOf(op.Path, "hers")+harness.QueryOf(op.ID), "").Status, 403)
		}
	}
}

// sessionLifecycle is a session from its creation to its end.
func sessionLifecycle(d *harness.HTTP) {
	d.T.Helper()
	const s = "/v1/sessions/s1"
	made := d.Want(201, "POST", "/v1/sessions", `{"config":{"model":"m1"},"labels":{"a":"b"}}`, "Idempotency-Key", "s1")
	runtest.Equal(d.T, "location", made.Header.Get("Location"), s)
	d.Want(201, "POST", "/v1/sessions", `{"config":{"model":"m1"},"labels":{"a":"b"}}`, "Idempotency-Key", "s1") // the same request again
	d.Want(204, "PATCH", s, `{"model":"m2"}`)
	d.Want(200, "POST", s+"/nodes", `{"nodes":[{"message":{"id":"n1","role":"user","parts":[{"type":"text","text":"before"}]}}]}`)
	d.Want(202, "POST", s+"/turns", `{"id":"t1","text":"1+2?"}`)
	d.AwaitState("s1", "question", harness.HasAsk)
	runtest.Equal(d.T, "model", d.StateOf("s1").Config.Model, "m2")
	response := d.Want(200, "GET", s+"/approvals", "")
	if want := `{"approvals":[{"session":"s1","call":"t1/0/0","tool":"add","args":{"A":1,"B":2},"plugin":"gate","question":"really add?"}]}`; strings.TrimSpace(string(response.Body)) != want {
		d.T.Errorf("approvals: got %s, want %s", response.Body, want)
	}
	runtest.Equal(d.T, "running", strings.Contains(string(d.Want(200, "GET", s, "").Body), `"running":{"id":"t1"`), true)
	runtest.Equal(d.T, "turn that asks", d.Want(202, "GET", s+"/turns/t1", "").Field("status"), "asking")
	runtest.Equal(d.T, "turn that asks, waited for", d.Want(202, "GET", s+"/turns/t1?wait=0.1s", "").Field("status"), "asking")
	runtest.Equal(d.T, "list of turns", strings.Contains(string(d.Want(200, "GET", s+"/turns", "").Body), `{"id":"t1","status":"asking"`), true)
	watchers := []*harness.Stream{d.OpenStream("reader", s+"/turns/t1/stream"), d.OpenStream("reader", s+"/turns/t1/stream?as=activity")}
	question := `"call":"t1/0/0","call_id":"k","name":"add","args":{"A":1,"B":2},"question":"really add?","plugin_id":"gate"}`
	awaitEvent(d, watchers, "tool_approval_asked", question)
	busy := d.WantProblem(409, "turn_running", "DELETE", s, "").Field("detail")
	runtest.Equal(d.T, "what helps: "+busy, strings.HasSuffix(busy, "a turn is running: cancel turn t1, or wait for its end"), true)
	d.Want(204, "POST", s+"/approvals", `{"call":"t1/0/0","granted":true,"reason":"fine"}`)
	awaitEvent(d, watchers, "tool_approval_given", `"call":"t1/0/0","call_id":"k","name":"add","reason":"fine","granted":true,"by":"writer"}`)
	ended := d.Want(200, "GET", s+"/turns/t1?wait=30", "")
	runtest.Equal(d.T, "who approved", harness.Find[*events.ToolApprovalGiven](d.System, "s1")[0].By, "writer")
	runtest.Equal(d.T, "text", strings.Contains(string(ended.Body), `"safe_text":"3"`), true)
	d.Want(200, "GET", s+"/turns/t1", "")
	var record api.AssembledTurn
	runtest.WantError(d.T, "record", json.Unmarshal(ended.Body, &record), nil)
	runtest.Equal(d.T, "output", d.Want(200, "GET", s+"/output?call="+string(record.ToolCalls[0].Call), "").Field("output"), "3")
	watched(d, s)
	runtest.Equal(d.T, "view", strings.Contains(string(d.Want(200, "GET", s+"/view", "").Body), `"text":"before"`), true)
	runtest.Equal(d.T, "receipt", d.Want(200, "POST", s+"/turns/t1/cancel", `{}`).Field("receipt"), "completion_won_race")

	d.Want(201, "POST", s+"/inputs", `{"id":"i1","text":"one"}`)
	d.Want(201, "POST", s+"/inputs", `{"text":"two"}`, "Idempotency-Key", "i2")
	d.WantProblem(409, "different_content", "POST", s+"/inputs", `{"id":"i1","text":"other"}`)
	runtest.Equal(d.T, "cancelled", d.Want(200, "DELETE", s+"/inputs/i1?following=true", "").Field("cancelled"), "[i1 i2]")
	runtest.Equal(d.T, "cancelled again", d.Want(200, "DELETE", s+"/inputs/i1", "").Field("receipt"), "already_cancelled")

	runtest.Equal(d.T, "tools", strings.Contains(string(d.Want(200, "GET", s+"/tools", "").Body), `"name":"add"`), true)
	d.Want(200, "PATCH", s+"/tools", `{"names":["add"],"level":"off"}`)
	runtest.Equal(d.T, "opened", d.Want(200, "POST", s+"/frames", `{"id":"f1","reason":"anew"}`).Field("opened"), "true")
	runtest.Equal(d.T, "compacted", d.Want(200, "POST", s+"/compact", "").Field("opened"), "true")
	d.Want(201, "POST", s+"/fork", `{"id":"s2"}`)
	d.Want(204, "POST", s+"/branch", `{"node":"n1"}`)
	later(d, s)
	monitored(d, s)
	outside(d, s)
	clientsExtended(d)
}

// awaitEvent waits until each watcher of a turn has received an event, and closes those that received an answer.
func awaitEvent(d *harness.HTTP, watchers []*harness.Stream, typ, rest string) {
	d.T.Helper()
	for _, w := range watchers {
		list := w.Until(func(m harness.Message) bool { return strings.Contains(m.Data, `"type":"`+typ+`","turn"`) })
		if last := list[len(list)-1].Data; !strings.Contains(last, rest) {
			d.T.Errorf("%s: got %s, want %s in it", typ, last, rest)
		}
		if typ == "tool_approval_given" {
			w.Close()
		}
	}
}

// watched reads the history of the ended turn in both forms.
func watched(d *harness.HTTP, s string) {
	d.T.Helper()
	stream := d.OpenStream("reader", s+"/events?cursor=0")
	last := fmt.Sprint(d.LastSeq("s1"))
	var kinds []string
	for _, m := range stream.Until(func(m harness.Message) bool { return m.ID == last }) {
		var c struct {
			Events []struct{ Kind, Actor string }
		}
		runtest.WantError(d.T, "commit", json.Unmarshal([]byte(m.Data), &c), nil)
		for _, e := range c.Events {
			kinds = append(kinds, e.Kind)
			if e.Kind == "session.opened" {
				runtest.Equal(d.T, "who opened it", e.Actor, "client:writer")
			}
		}
	}
	stream.Close()
	var want []string
	for _, e := range d.History("s1") {
		want = append(want, string(e.Kind))
	}
	runtest.EqualLists(d.T, "kinds", kinds, want)

	turn := d.OpenStream("reader", s+"/turns/t1/stream")
	var types []string
	for _, m := range turn.Until(func(m harness.Message) bool { return strings.Contains(m.Data, `"type":"done"`) }) {
		var e api.SessionEvent
		runtest.WantError(d.T, "session event", json.Unmarshal([]byte(m.Data), &e), nil)
		types = append(types, string(e.Type))
	}
	wantTypes := []string{
		"llm_request", "llm_response", "token_usage", "tool_call_start", "tool_approval_asked", "tool_approval_given", "tool_call",
		"llm_request", "llm_response", "token_usage", "turn_outcome", "done",
	}
	types = slices.DeleteFunc(types, func(s string) bool { return s == "text_delta" }) // there may be some
	runtest.EqualLists(d.T, "turn's events", types, wantTypes)
	if m, err := turn.Next(); err == nil {
		d.T.Errorf("after done: got %v, want the end of the stream", m)
	}
	turn.Close()
}

// later runs a turn whose call is answered from outside the fleet.
func later(d *harness.HTTP, s string) {
	d.T.Helper()
	d.Want(202, "POST", s+"/turns?wait=0.2s", `{"id":"t2","text":"wait"}`)
	d.AwaitState("s1", "pending call", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 1 && s.Turn().Calls[0].Pended
	})
	d.Want(204, "POST", s+"/results", `{"call":"t2/0/0","text":"from outside","outcome":"success"}`)
	d.Want(200, "GET", s+"/turns/t2", "", "Prefer", "respond-async, wait=30")
	seq := d.Want(200, "POST", s+"/turns?wait=30s", `{"text":"the same again"}`, "Idempotency-Key", "t3").Header.Get("Lash-Seq")
	if again := d.Want(200, "POST", s+"/turns?wait=30s", `{"text":"the same again"}`, "Idempotency-Key", "t3").Header.Get("Lash-Seq"); seq == "" || again != seq {
		d.T.Errorf("got sequence %q, and %q again", seq, again)
	}
	d.WantProblem(409, "different_content", "POST", s+"/turns?wait=30s", `{"text":"other"}`, "Idempotency-Key", "t3")
}

// monitored runs a command and takes its line.
func monitored(d *harness.HTTP, s string) {
	d.T.Helper()
	got := d.Send("admin", "PUT", s+"/monitors/m1", `{"command":"echo line","wake":"notify"}`)
	runtest.Equal(d.T, "started", got.Status, 204)
	d.AwaitState("s1", "its line", func(s *projector.State) bool { return len(s.Feed.Updates) > 0 })
	runtest.Equal(d.T, "monitors", strings.Contains(string(d.Want(200, "GET", s+"/monitors", "").Body), `"command":"echo line"`), true)
	runtest.Equal(d.T, "updates", strings.Contains(string(d.Want(200, "POST", s+"/monitors/updates", "").Body), `"message":"`), true)
	runtest.Equal(d.T, "tasks", strings.Contains(string(d.Want(200, "GET", s+"/tasks", "").Body), `"id":"monitor-m1","kind":"monitor"`), true)
	d.Want(200, "GET", s+"/tasks/monitor-m1", "")
	d.Want(204, "DELETE", s+"/monitors/m1", "")
	d.Want(200, "POST", s+"/tasks/monitor-m1/cancel", "")
}

// bodies stores a body, has messages refer to it, and reads it.
func clientsBodies(d *harness.HTTP) {
	d.T.Helper()
	const s = "/v1/sessions/s1"
	for _, size := range []int{1, 4096, 4500} {
		body := strings.Repeat("b", size)
		stored := d.Want(201, "POST", s+"/blobs", body)
		ref := strings.TrimSpace(string(stored.Body))
		d.Want(200, "POST", s+"/nodes", `{"nodes":[{"message":{"role":"user","parts":[{"type":"attachment","media_type":"image/png","blob":`+ref+`}]}}]}`)
		d.Want(201, "POST", s+"/inputs", `{"id":"blob`+fmt.Sprint(size)+`","parts":[{"type":"text","blob":`+ref+`}]}`)
		got := d.Want(200, "GET", stored.Header.Get("Location"), "")
		runtest.Equal(d.T, "body", string(got.Body), body)
		want := fmt.Sprintf("%d attachment application/octet-stream nosniff", size)
		runtest.Equal(d.T, "header", fmt.Sprint(got.Header.Get("Content-Length"), " ", got.Header.Get("Content-Disposition"), " ", got.Header.Get("Content-Type"), " ", got.Header.Get("X-Content-Type-Options")), want)
		head := d.Send("reader", "HEAD", stored.Header.Get("Location"), "")
		runtest.Equal(d.T, "head", fmt.Sprint(head.Status, " ", head.Header.Get("Content-Length"), " ", len(head.Body)), fmt.Sprint(200, " ", size, " 0"))
		d.Want(200, "DELETE", s+"/inputs/blob"+fmt.Sprint(size), "")
	}
	got := d.WantProblem(404, "unknown_blob", "GET", harness.PathOf(s+"/blobs/{digest}", ""), "")
	runtest.Equal(d.T, "unknown body", got.Status, 404)
	d.WantProblem(400, "invalid", "GET", s+"/blobs/0F", "")
	d.WantProblem(400, "invalid", "POST", s+"/blobs", "")
	none := `{"digest":"` + strings.Repeat("0f", 32) + `","size":1}`
	for path, body := range map[string]string{
		"/turns": `{"parts":[{"type":"text","blob":` + none + `}]}`, "/inputs": `{"parts":[{"type":"text","blob":` + none + `}]}`,
		"/nodes":  `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":` + none + `}]}}]}`,
		"/frames": `{"id":"f7","nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":` + none + `}]}}]}`,
	} {
		d.WantProblem(404, "unknown_blob", "POST", s+path, body)
		d.WantProblem(400, "invalid_parameter", "POST", s+path, strings.Replace(body, `"blob"`, `"text":"x","blob"`, 1))
	}
	d.WantProblem(400, "invalid_parameter", "POST", "/v1/sessions", `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","blob":`+none+`}]}}]}`)
}

// lists reads lists, and sends parameters that are refused.
func lists(d *harness.HTTP) {
	d.T.Helper()
	turns := d.Want(200, "GET", "/v1/sessions/s1/turns?limit=1", "")
	runtest.Equal(d.T, "next turn", d.Want(200, "GET", "/v1/sessions/s1/turns?limit=1&cursor="+turns.Field("next"), "").Status, 200)
	view := d.Want(200, "GET", "/v1/sessions/s1/view?at=2", "")
	runtest.Equal(d.T, "sequence of the view", view.Field("seq"), "2")
	d.Want(200, "GET", "/v1/sessions?label=a=b&label=c=d&status=open&parent=s9&owner=writer&created_from_ms=1&created_to_ms=2&updated_from_ms=3&updated_to_ms=4&limit=1000", "")
	d.Want(200, "GET", "/v1/approvals?limit=1", "")
	runtest.Equal(d.T, "plugins", string(d.Want(200, "GET", "/v1/plugins", "").Body), "{\"plugins\":[]}\n")
	runtest.Equal(d.T, "plugins without the right", d.Send("approver", "GET", "/v1/plugins", "").Status, 403)
	for _, path := range []string{"/v1/sessions", "/v1/approvals", "/v1/sessions/s1/turns"} {
		if path != "/v1/sessions/s1/turns" {
			runtest.Equal(d.T, path+" without the right", d.Send("approver", "GET", path, "").Status, 403)
		}
		for _, bad := range []string{"limit=0", "limit=1001", "limit=-1", "limit=x", "limit=", "limit=1&limit=2"} {
			got := d.WantProblem(400, "invalid_parameter", "GET", path+"?"+bad, "")
			runtest.Equal(d.T, "field", strings.Contains(got.Field("details"), "field:limit"), true)
		}
		got := d.WantProblem(400, "invalid", "GET", path+"?cursor=%00", "")
		runtest.Equal(d.T, "field", strings.Contains(got.Field("details"), "field:cursor"), true)
	}
	for _, bad := range []string{"label=a", "label==b", "label=a=b&label=a=c", "created_from_ms=-1", "created_to_ms=99999999999999999999", "updated_from_ms=x", "status=open&status=closed"} {
		d.WantProblem(400, "invalid_parameter", "GET", "/v1/sessions?"+bad, "")
	}
	d.Want(200, "GET", "/v1/search?text=a&text=b&tool=t&actor=me&outcome=lost&since_ms=1&until_ms=2&label=a=b&label=c=&matches=20&limit=100", "")
	runtest.Equal(d.T, "search without the right", d.Send("approver", "GET", "/v1/search?text=a", "").Status, 403)
	for _, bad := range []string{"limit=0", "limit=101", "matches=0", "matches=21", "since_ms=x", "until_ms=-1", "label=a", "tool=a&tool=b"} {
		d.WantProblem(400, "invalid_parameter", "GET", "/v1/search?text=a&"+bad, "")
	}
	unknown := d.WantProblem(400, "invalid_parameter", "GET", "/v1/sessions/s1/turns?limt=1", "")
	runtest.Equal(d.T, "unknown parameter", unknown.Field("detail"), `"limt" is no parameter here: known are limit, cursor`)
	none := d.WantProblem(400, "invalid_parameter", "GET", "/v1/sessions/s1/tools?x=1", "")
	runtest.Equal(d.T, "no parameters", none.Field("detail"), `"x" is no parameter here: there is none`)
	for _, bad := range []string{"status=else", "parent=a.b", "owner=a%20b", "label=a=" + strings.Repeat("x", 2000)} {
		runtest.Equal(d.T, bad, d.Send("writer", "GET", "/v1/sessions?"+bad, "").Status, 400)
	}
	after := d.WantProblem(400, "invalid", "GET", "/v1/sessions/s1/view?at=1000000", "")
	runtest.Equal(d.T, "view after the end", strings.Contains(after.Field("detail"), "at: is 1000000, the last sequence is "+d.Want(200, "GET", "/v1/sessions/s1/view", "").Field("seq")), true)
	runtest.Equal(d.T, "field", strings.Contains(after.Field("details"), "field:at"), true)
	for _, bad := range []string{"at=0", "at=-1", "at=x", "at=99999999999999999999"} {
		runtest.Equal(d.T, bad, d.Send("writer", "GET", "/v1/sessions/s1/view?"+bad, "").Status, 400)
	}
}
