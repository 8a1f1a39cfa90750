package security

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/workers"
)

// TestCopyKeepsRestrictions copies a session at every API, with and without the right to configure. What restricts it
// comes with the copy. A copy of the state before the restriction has it too, unless its caller may lift it.
func TestCopyKeepsRestrictions(t *testing.T) {
	t.Parallel()
	for _, scope := range []api.Scope{"read,write", "read,write,configure"} {
		reach := api.Reach{Scope: scope}
		n := newNATSAPI(t, workers.Config{Scopes: map[string]api.Reach{"alice@acme": reach}})
		d := n.ServeHTTP(httpapi.Config{Tokens: []httpapi.Token{{Name: "carol", Digest: sha256.Sum256([]byte("carol" + harness.TokenSecret)), Scope: scope}}})
		id := d.Open(api.CreateRequest{Config: events.Config{Model: "m"}})
		d.AppendTexts(id, "a")
		free := d.StateOf(id)
		d.CommitUnchecked(id, &events.PluginStateSaved{Plugin: "plan_mode", Version: "1", Revision: 1, State: []byte(`{"on":true}`)})
		d.CommitUnchecked(id, &events.ToolSourcesApplied{Sources: []string{"mail"}})
		d.CommitUnchecked(id, &events.SessionOverlaid{WithoutBase: true, Tools: []events.ToolEntry{{Name: "extra"}}})
		d.CommitUnchecked(id, &events.SessionExtended{Extension: events.Extension{Type: "x", Body: []byte("{}")}})
		d.CommitUnchecked(id, &events.ToolStateApplied{Generation: 3, Tools: []events.ToolEntry{{Name: "read_file", Override: events.Overridden(events.AvailOff)}}})
		d.CommitUnchecked(id, &events.SessionConfigured{Config: events.Config{Model: "m", Instructions: "Change nothing.", RetainMillis: 1}})
		restricted := d.StateOf(id)

		fork := api.CreateRequest{Start: api.StartExisting, From: id, PathOnly: true}
		requests := map[string]api.CreateRequest{
			"fork": fork, "existing": {Start: api.StartExisting, From: id}, "current": {Start: api.StartCurrent, Parent: id},
			"fork_at": {Start: api.StartExisting, From: id, PathOnly: true, At: free.Seq}, "existing_at": {Start: api.StartExisting, From: id, At: free.Seq},
		}
		create := operation.Create.Needs
		for name, req := range requests {
			for by, send := range map[string]func(api.CreateRequest) string{
				"host": func(req api.CreateRequest) string {
					_, err := d.Create(api.WithCaller(d.Ctx, api.Caller{Name: "bob", Reach: reach}, create, ""), req)
					runtest.WantError(t, "create", err, nil)
					return ""
				},
				"nats": func(req api.CreateRequest) string {
					return n.askRaw("alice@acme", operation.Create.Name, api.Request{}, &api.CreateArgs{Request: req}).Error.Message
				},
				"http": func(req api.CreateRequest) string {
					path, body := "/v1/sessions", fmt.Sprintf(`{"id":%q,"start":%q,"from":%q,"parent":%q}`, req.ID, req.Start, req.From, req.Parent)
					if req.PathOnly {
						path, body = "/v1/sessions/"+string(id)+"/fork", fmt.Sprintf(`{"id":%q}`, req.ID)
					}
					if a := d.Send("carol", "POST", path, body); a.Status >= 300 {
						return string(a.Body)
					}
					return ""
				},
			} {
				if by == "http" && req.At > 0 { // which has no such field
					continue
				}
				what := fmt.Sprintf("%s of %s by %s", name, scope, by)
				req.ID = events.SessionID(name + "-" + by)
				runtest.Equal(t, what, send(req), "")
				want := restricted
				if req.At > 0 && scope.Has(api.RightConfigure) {
					want = free
				}
				harness.EqualSettings(t, what, d.StateOf(req.ID), want)
			}
		}

		head, _, err := restricted.Clone().Snapshot()
		runtest.WantError(t, "snapshot", err, nil)
		a := d.Send("carol", "POST", "/v1/sessions", `{"id":"own","start":"snapshot","snapshot":{"head":"`+base64.StdEncoding.EncodeToString(head)+`"}}`)
		runtest.Equal(t, "snapshot by "+string(scope), a.Status == 201, scope.Has(api.RightConfigure))
		if a.Status == 201 {
			harness.EqualSettings(t, "snapshot", d.StateOf("own"), restricted)
		}
	}
}
