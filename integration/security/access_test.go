package security

import (
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/service"
)

// TestRequestsOverNATSAreRecorded sends requests that succeed and that are refused, from the outer account and
// from the nodes' account. The access log names the user that the server authenticated, and not the name that a
// client sends.
func TestRequestsOverNATSAreRecorded(t *testing.T) {
	t.Parallel()
	d := install(t).boot()
	b := d.bundleOf("node@acme")
	var mu sync.Mutex
	var records []accesslog.Record
	stop, err := service.Serve(b.Bus, b.Host, service.Config{
		Scopes: map[string]api.Reach{"alice@acme": {Scope: api.ScopeRead}}, Access: func(r accesslog.Record) {
			mu.Lock()
			defer mu.Unlock()
			records = append(records, r)
		},
	})
	runtest.WantError(t, "serve", err, nil)
	t.Cleanup(func() { _ = stop(b.Ctx) })
	for _, user := range []string{"alice@acme", "node@acme"} {
		c, err := client.New(client.Config{Bus: d.open(bus.OpenReader, d.config(user)), Actor: "boss"})
		runtest.WantError(t, "client", err, nil)
		var want error
		if user == "alice@acme" {
			want = api.ErrForbidden
		}
		_, err = c.Create(b.Ctx, api.CreateRequest{ID: "s1"})
		runtest.WantError(t, "create", err, want)
		runtest.WantError(t, "close", c.CloseSession(b.Ctx, "s1", "done"), want)
	}
	runtest.WantError(t, "stop", stop(b.Ctx), nil)
	var got []string
	for _, r := range records {
		got = append(got, r.API+" "+r.Operation+" "+r.Caller+" ("+r.Remote+") "+string(r.Session)+" "+r.Code)
		if r.Read == 0 || r.Written == 0 || r.Duration <= 0 {
			t.Errorf("got %+v, want bytes and a duration", r)
		}
	}
	runtest.EqualLists(t, "records", got, []string{
		"nats create alice (alice@acme)  forbidden", "nats close alice (alice@acme) s1 forbidden", "nats create (inside) ()  ", "nats close (inside) () s1 ",
	})
}
