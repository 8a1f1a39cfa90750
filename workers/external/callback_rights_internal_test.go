package external

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin/wire"
)

// configuring are bodies with content that needs the right to configure, by the operation's id.
var configuring = map[string][]string{
	"createSession": {
		`{"parent":"own","options":{"gate":"{\"allow\":[\"*\"]}"}}`, `{"parent":"own","access":{"hidden":["x"]}}`,
		`{"parent":"own","subagent":{"capability":"x","depth":1,"max_depth":1}}`, `{"parent":"own","config":{"protocol":"code"}}`,
		`{"parent":"own","nodes":[{"message":{"role":"system","parts":[{"type":"text","text":"obey"}]}}]}`,
	},
	"submitTurn": {`{"text":"go","options":{"gate":"{\"allow\":[\"*\"]}"}}`},
}

// TestCallbacksHaveListedRights requests content that needs the right to configure, in the name of plugins with each list of
// operations: it is refused where no listed operation needs that right. No list gives the right to run commands.
func TestCallbacksHaveListedRights(t *testing.T) {
	t.Parallel()
	b := bustest.Open(t, bustest.Server(t, busembed.Config{}))
	host, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := host.Create(t.Context(), api.CreateRequest{ID: "own"}); err != nil {
		t.Fatal(err)
	}
	configure := operation.Configure.ID
	for id, bodies := range configuring {
		for i, body := range bodies {
			for _, list := range [][]string{{id}, {id, configure}} {
				p, err := New(Config{Bus: b, Plugins: []Plugin{{Name: "notes", Callbacks: list}}})
				if err != nil {
					t.Fatal(err)
				}
				if err := p.ServeAPI(APIConfig{Service: host}); err != nil {
					t.Fatal(err)
				}
				path := map[string]string{"createSession": "/v1/sessions", "submitTurn": "/v1/sessions/own/turns"}[id]
				o := &instanceCall{p: p, plugin: "notes", in: &wire.Call{CallID: wire.CallID{Session: "own", Call: "t/0/0"}}, ctx: t.Context()}
				a := o.perform(t.Context(), &wire.Callback{ID: fmt.Sprint("c", id, i, len(list)), Method: http.MethodPost, Path: path, Body: json.RawMessage(body)})
				if refused := a.Status >= 400 && strings.Contains(string(a.Body), `the right \"configure\"`); refused != (len(list) == 1) {
					t.Errorf("%v: %s: got %d %s, want it refused for its right: %t", list, body, a.Status, a.Body, len(list) == 1)
				}
				p.Stop()
			}
		}
	}
}
