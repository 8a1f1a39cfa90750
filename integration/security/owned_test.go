package security

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/workers"
)

// TestSessionsPerCaller has callers make more sessions at once than their limit, over HTTP and over NATS. Those
// above the limit are refused with it; other callers are not affected, and a closed session frees capacity. It is
// one limit for both APIs, and a restarted node applies it.
func TestSessionsPerCaller(t *testing.T) {
	t.Parallel()
	const most = 4
	own := api.Reach{Scope: api.ScopeAdmin, Own: true}
	n := newNATSAPI(t, workers.Config{MaxSessionsPerCaller: most, Scopes: map[string]api.Reach{"alice@acme": own, "host@acme": own}})
	over := func(node *workers.Node) map[string]func(caller, id string) string {
		d := n.ServeHTTP(httpapi.Config{Service: node.Host(), MaxRequestsPerCaller: 8 * most})
		return map[string]func(caller, id string) string{
			"http": func(caller, id string) string {
				switch status, answer := d.StatusOf(caller, "POST", "/v1/sessions", fmt.Sprintf(`{"id":%q}`, id)); {
				case status == 201:
					return "made"
				case status == 429 && strings.Contains(answer, `"details":{"limit":"4","what":"open sessions of their owner"}`):
					return "refused"
				default:
					return fmt.Sprint(status, answer)
				}
			},
			"nats": func(caller, id string) string {
				a := n.askRaw(caller+"@acme", operation.Create.Name, api.Request{}, &api.CreateArgs{Request: api.CreateRequest{ID: events.SessionID(id)}})
				switch {
				case a.Error.Code == "":
					return "made"
				case a.Error.Code == "limit" && a.Error.Details["limit"] == "4" && a.Error.Details["what"] == "open sessions of their owner":
					return "refused"
				default:
					return a.Error.Code + " " + a.Error.Message
				}
			},
		}
	}
	transports := over(n.node)
	burst := func(transport, caller, name string) (made []string) {
		t.Helper()
		var mu sync.Mutex
		var wait sync.WaitGroup
		for i := range 4 * most {
			wait.Go(func() {
				id := fmt.Sprintf("%s-%d", name, i)
				got := transports[transport](caller, id)
				mu.Lock()
				defer mu.Unlock()
				if got == "made" {
					made = append(made, id)
				} else {
					runtest.Equal(t, transport+": "+id, got, "refused")
				}
			})
		}
		wait.Wait()
		return made
	}
	alice, host := burst("http", "alice", "a1"), burst("nats", "host", "h1")
	runtest.Equal(t, "of alice's over http", len(alice), most)
	runtest.Equal(t, "of host's over nats", len(host), most)
	runtest.Equal(t, "of alice's over nats", len(burst("nats", "alice", "a2")), 0)
	runtest.Equal(t, "of bob's", len(burst("http", "bob", "b1")), most)
	runtest.Equal(t, "close", n.askRaw("alice@acme", operation.CloseSession.Name, api.Request{Session: events.SessionID(alice[0])}, new("done")).Error.Code, "")
	runtest.Equal(t, "of alice's after one was closed", len(burst("http", "alice", "a3")), 1)

	n.node.Stop(n.Ctx)
	runtest.WantError(t, "directory", follow.NewProjector(n.Bus, nil).Project(n.Ctx, events.SessionID(alice[0])), nil) // as a projector does within a second or two
	transports = over(n.start())
	runtest.Equal(t, "of alice's after a restart", len(burst("http", "alice", "a4")), 0)
	runtest.Equal(t, "of host's after a restart", len(burst("nats", "host", "h4")), 0)
	runtest.Equal(t, "close", n.askRaw("host@acme", operation.CloseSession.Name, api.Request{Session: events.SessionID(host[0])}, new("done")).Error.Code, "")
	runtest.Equal(t, "of host's after one was closed", len(burst("nats", "host", "h5")), 1)
}
