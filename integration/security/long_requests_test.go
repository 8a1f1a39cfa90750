package security

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// TestLongRequestsDelayNoOthers has a user send as many actions at once as a node runs, none of which ends.
// Those above the user's share are refused, another user's action starts, and short requests have responses, also
// when programs of the nodes' own account occupy all slots for long ones.
func TestLongRequestsDelayNoOthers(t *testing.T) {
	t.Parallel()
	const all, share = 64, 16
	began, release := make(chan struct{}, 2*all), make(chan struct{})
	plugins, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{harness.PluginOf("slow", func(r *plugin.Registrar) {
		r.Action(plugin.ActionDef{Name: "wait"}, func(ctx context.Context, _ plugin.ActionContext, _ json.RawMessage) (plugin.Result, error) {
			began <- struct{}{}
			select {
			case <-release:
			case <-ctx.Done():
			}
			return plugin.Result{Text: "done"}, nil
		})
	})}})
	runtest.WantError(t, "plugins", err, nil)
	n := newNATSAPI(t, workers.Config{Plugins: plugins, Scopes: map[string]api.Reach{"alice@acme": {Scope: api.ScopeAdmin}, "host@acme": {Scope: api.ScopeAdmin}}})
	n.Open(api.CreateRequest{ID: "s1"})
	codes := make(chan string, 2*all)
	var requests sync.WaitGroup
	ask := func(times int, who string) {
		for range times {
			requests.Go(func() {
				codes <- n.askRaw(who, operation.InvokeAction.Name, api.Request{Session: "s1"}, &api.ActionArgs{Name: "wait"}).Error.Code
			})
		}
	}
	ask(all, "alice@acme")
	for range all - share {
		runtest.Equal(t, "an action above the share", harness.Receive(n.System, "an answer", codes), "limit")
	}
	for range share {
		harness.Receive(n.System, "an action of alice's", began)
	}
	ask(1, "host@acme")
	harness.Receive(n.System, "an action of another user", began)
	inside, data := n.inside(&api.ActionArgs{Name: "wait"})
	for range all { // more than there is room for besides
		requests.Go(func() { _, _ = n.Bus.Request(inside, string(operation.InvokeAction.Name), data, 1<<40, nil) })
	}
	for range all - share - 1 {
		harness.Receive(n.System, "an action of a node's program", began)
	}
	for _, who := range []string{"alice@acme", "host@acme"} {
		a := n.askRaw(who, operation.Create.Name, api.Request{}, &api.CreateArgs{Request: api.CreateRequest{ID: events.SessionID("of-" + who[:4])}})
		runtest.Equal(t, "create by "+who, a.Error.Code, "")
	}
	close(release)
	for range share + 1 {
		runtest.Equal(t, "an action", harness.Receive(n.System, "an answer", codes), "")
	}
	requests.Wait()
}

// inside sends a request for an action as a program of the nodes' own account does.
func (n *natsAPI) inside(args *api.ActionArgs) (context.Context, []byte) {
	n.T.Helper()
	body, err := events.EncodePayload(args)
	runtest.WantError(n.T, "encode", err, nil)
	data, err := api.EncodeRequest(api.Request{Format: api.RequestFormat, Session: "s1", Body: body})
	runtest.WantError(n.T, "encode", err, nil)
	return n.Ctx, data
}
