package external

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
)

// marker is a text that only the session has that callbacks must not reach.
const marker = "only-for-the-owner"

// sessionSpellings are ways to name the session other in a path below /v1.
var sessionSpellings = []string{
	"/sessions/other", "/sessions/%6fther", "/sessions/own/../other", "/sessions/own%2f..%2fother", "/sessions/own/%2e%2e/other",
	"//sessions/other", "/./sessions/other", "/sessions//other", "/sessions/other/", "/sessions/other%00", "/sessions/own?session=other",
	"/sessions/own;other", "/sessions/own%3fother", "/../v1/sessions/other", "/sessions/own#/../other", "/sessions/%20other", "/sessions/other%0d%0aHost:x",
}

// TestCallbacksStayInTheirSession requests every operation of the API, all of which the operator allows, in the name of a
// call in the session own: with each spelling of another session in the path, and with that session in the body. No answer
// has what the other session has, and nothing is written to it.
func TestCallbacksStayInTheirSession(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	host, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []events.SessionID{"own", "other"} {
		req := api.CreateRequest{ID: id}
		if id == "other" {
			req.Labels = map[string]string{"text": marker}
			req.Config.Instructions = marker
		}
		if _, err := host.Create(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := host.Submit(t.Context(), "other", api.TurnRequest{ID: "t1", Input: api.Ask(marker).Input}); err != nil {
		t.Fatal(err)
	}
	before, err := host.State(t.Context(), "other")
	if err != nil {
		t.Fatal(err)
	}
	settings := Plugin{Name: "notes"}
	for _, row := range operation.All() {
		if row.ID != "" {
			settings.Callbacks = append(settings.Callbacks, row.ID)
		}
	}
	p, err := New(Config{Bus: b, Plugins: []Plugin{settings}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := p.ServeAPI(APIConfig{Service: host}); err != nil {
		t.Fatal(err)
	}
	o := &instanceCall{p: p, plugin: "notes", in: &wire.Call{CallID: wire.CallID{Session: "own", Call: "t/0/0"}}, ctx: t.Context()}
	statuses := make(map[int]int)
	ask := func(method, path, body string) {
		a := o.perform(t.Context(), &wire.Callback{ID: "c" + events.DerivedID("", method, path, body), Method: method, Path: path, Body: json.RawMessage(body)})
		statuses[a.Status]++
		if strings.Contains(string(a.Body), marker) {
			t.Errorf("%s %s %s: got %d and %.300s", method, path, body, a.Status, a.Body)
		}
	}
	bodies := []string{
		``, `{}`, `{"parent":"other"}`, `{"id":"evil","parent":"own","start":"existing_session","from":"other"}`, `{"parent":"own","parent":"other"}`,
		`{"to":"other","tasks":["k"]}`, `{"text":"go","session":"other"}`,
	}
	for _, row := range operation.All() {
		if row.Route == "" {
			continue
		}
		method, path := row.HTTP()
		if strings.HasSuffix(path, "/stream") || row == operation.Observe {
			continue // streams are refused, and this test would wait for one that is not
		}
		rest := withoutNames(strings.TrimPrefix(strings.TrimPrefix(path, "/v1"), "/sessions/{session}"))
		for _, spelling := range sessionSpellings {
			ask(method, "/v1"+spelling+rest, `{}`)
		}
		for _, body := range bodies {
			ask(method, "/v1/sessions/own"+rest, body)
			ask(method, "/v1/sessions/other"+rest, body)
		}
	}
	for _, path := range []string{"/v1/sessions", "/v1/search", "/v1/plugins", "/v1/openapi.json", "/metrics", "/readyz", "/v1/sessions?parent=other", "/v1/dead"} {
		ask(http.MethodGet, path, "")
	}
	after, err := host.State(t.Context(), "other")
	if err != nil || after.Seq != before.Seq {
		t.Errorf("the other session: got commit %d, %v, want %d", after.Seq, err, before.Seq)
	}
	if evil, err := host.State(t.Context(), "evil"); err == nil && strings.Contains(evil.Config.Instructions, marker) {
		t.Error("a session has what the other one has")
	}
	if statuses[http.StatusOK]+statuses[http.StatusCreated] == 0 || statuses[http.StatusForbidden]+statuses[http.StatusNotFound] < 100 {
		t.Errorf("statuses: got %v, want some requests for the own session served, and hundreds refused", statuses)
	}
}

// withoutNames replaces the names in a path.
func withoutNames(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "t1"
		}
	}
	return strings.Join(parts, "/")
}
