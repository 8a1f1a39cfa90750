package external

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// wholeCallbacks has a call register, move and remove a task, read the usage by source, create a session with an overlay, and copy its
// session as a snapshot.
func wholeCallbacks(t *testing.T, on place) {
	const self = "/v1/sessions/s1"
	request := func(call events.CallID, method, path, body string) harness.Step {
		in := acting{Do: "request", Method: method, Path: path}
		if body != "" {
			in.Body = json.RawMessage(body)
		}
		return acts(t, call, in)
	}
	s := on.start(t,
		request("k1", "PUT", self+"/tasks/work", `{}`), request("k2", "POST", self+"/tasks/work/state", `{"state":"waiting"}`), request("k3", "DELETE", self+"/tasks/work", ""),
		request("k4", "GET", self+"/tasks", ""), request("k5", "GET", self, ""),
		request("k6", "POST", "/v1/sessions", `{"parent":"s1","overlay":{"tools":[{"source":"shelf","name":"lent"}],"without_base":true}}`),
		acts(t, "k7", acting{Do: "copy"}), harness.Reply(harness.Text("done")),
		harness.Reply(harness.Call("k8", "lent", "{}")), harness.Reply(harness.Text("read")))
	s.allowing("registerTask", "transitionTask", "unregisterTask", "getTasks", "getSession", "createSession", "getSnapshot", "configureSession")
	s.own = []plugin.Factory{plugin.Func("shelf", func(r *plugin.Registrar) error {
		set := plugin.NewTools()
		plugin.AddTool(set, plugin.Tool{Name: "lent", Source: "shelf"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "a book", nil })
		return r.Reserve(set)
	})}
	s.node()
	s.program("i1")
	id := s.Open(api.CreateRequest{ID: "s1"})
	s.StartTurn(id, "t1", harness.Text("note it"))
	s.AwaitTurn(id, "t1")
	for call, want := range map[events.CallID]string{
		"k1": `201 `, "k2": `"state":"waiting"`, "k3": `204 `, "k4": `200 {"tasks":[]}`, "k5": `"source":"turn"`, "k6": `201 {"id":"`, "k7": `201 {"id":"`,
	} {
		if got := s.CallResult(id, string(call)); !strings.Contains(got, want) {
			t.Errorf("%s: got %.300q, want %q", call, got, want)
		}
	}
	made := func(call string) events.SessionID {
		var m struct{ ID events.SessionID }
		_, body, _ := strings.Cut(s.CallResult(id, call), " ")
		runtest.WantError(t, "made by "+call, json.Unmarshal([]byte(body), &m), nil)
		return m.ID
	}
	runtest.Equal(t, "copied message", s.Messages(made("k7"))[0], "user note it")
	over := made("k6")
	s.RunTurn(over, "t1", harness.Text("read it"))
	runtest.Equal(t, "result of the overlay's tool", s.CallResult(over, "k8"), "a book")
}
