package security

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/workers"
)

// needs is the right that each operation needs. It is written from the meaning of the operations that change
// something, and the APIs are checked against it. An operation that is not listed only reads.
func needs() map[api.Right][]string {
	table := map[api.Right][]string{
		api.RightWrite: {
			"create", "close", "submit", "submit_at", "cancel", "inject", "cancel_inputs", "cancel_inputs_from", "append_nodes", "branch",
			"open_frame", "rewrite", "compact", "cancel_task", "stop_monitor", "take_updates", "put_blob", "invoke_action",
			"take_first_input", "complete", "register_task", "progress_task", "end_task", "transition_task", "unregister_task", "request_cancel_task", "cancel_tasks", "transfer_tasks",
		},
		api.RightApprove:   {"approve", "resolve_tool"},
		api.RightConfigure: {"configure", "apply_tool_state", "set_availability", "add_tool_source", "remove_tool_source", "refresh_catalog", "replace_extensions", "set_protocol_options", "apply_extension"},
		api.RightCommand:   {"start_monitor"},
		api.RightGrant:     {"grant"}, // which follows from the rights to write and to configure
	}
	changing := slices.Concat(slices.Collect(maps.Values(table))...)
	for name := range operation.Named() {
		if !slices.Contains(changing, string(name)) {
			table[api.RightRead] = append(table[api.RightRead], string(name))
		}
	}
	return table
}

// TestSmokeRightsOverNATS has users of the outer account send every operation, with every right and without any.
func TestSmokeRightsOverNATS(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme")
	b.Open(api.CreateRequest{ID: "s1"})
	all := []api.Right{api.RightRead, api.RightWrite, api.RightApprove, api.RightConfigure, api.RightCommand}
	for _, tc := range []struct {
		scopes map[string]api.Reach
		has    []api.Right
	}{
		{nil, all[:4]},
		{map[string]api.Reach{"host@acme": {Scope: "admin"}}, nil},
		{map[string]api.Reach{"alice@acme": {Scope: "read"}}, all[:1]},
		{map[string]api.Reach{"alice@acme": {Scope: "write"}}, all[:4]},
		{map[string]api.Reach{"alice@acme": {Scope: "admin"}}, all},
		{map[string]api.Reach{"alice@acme": {Scope: "read,approve"}}, []api.Right{api.RightRead, api.RightApprove}},
		{map[string]api.Reach{"alice@acme": {Scope: "command"}}, all[4:]},
	} {
		n, err := workers.NewNode(workers.Config{Bus: d.open(bus.Open, d.config("node@acme")), Roles: []workers.Role{workers.RoleAPI}, Scopes: tc.scopes})
		runtest.WantError(t, "node", err, nil)
		runtest.WantError(t, "start", n.Start(b.Ctx), nil)
		served := make(map[string]bool)
		for _, e := range harness.StatsOf(t, b.Bus, 1)[0].Endpoints {
			served[e.Name] = true
		}
		alice := d.conn("alice@acme")
		for right, ops := range needs() {
			for _, op := range ops {
				request, err := api.EncodeRequest(api.Request{Format: api.RequestFormat, Session: "s1", Body: []byte{0xc1}}) // which nothing takes
				runtest.WantError(t, "encode", err, nil)
				m, err := alice.RequestWithContext(b.Ctx, "lash.api."+op, request)
				for errors.Is(err, nats.ErrNoResponders) { // the node's subscription is on its way
					m, err = alice.RequestWithContext(b.Ctx, "lash.api."+op, request)
				}
				runtest.WantError(t, op, err, nil)
				var a api.Response
				runtest.WantError(t, "answer", events.DecodePayload(m.Data, &a), nil)
				allowed := false
				for _, has := range tc.has {
					allowed = allowed || has == right || right == api.RightGrant && has == api.RightWrite
				}
				if refused := errors.Is(api.DecodeError(a.Error), api.ErrForbidden); refused == allowed {
					t.Errorf("%v: %s: got %+v, want it allowed: %v", tc.scopes, op, a.Error, allowed)
				}
				delete(served, op)
			}
		}
		for op := range served {
			t.Errorf("%s: got no right that it needs here", op)
		}
		n.Stop(b.Ctx)
	}
}
