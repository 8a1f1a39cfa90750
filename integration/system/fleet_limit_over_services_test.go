package system

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/service"
	"github.com/lash-go/lash/workers"
)

// serves responds to clients for a host until the test ends.
func fleetServes(f *harness.Fleet, h *session.Host) {
	f.T.Helper()
	stop, err := service.Serve(bustest.Open(f.T, f.Server), h, service.Config{})
	runtest.WantError(f.T, "serve", err, nil)
	f.T.Cleanup(func() { _ = stop(f.Ctx) })
}

// httpIsFull checks the HTTP problem of a limit: its name, its size, and the advice to retry.
func httpIsFull(d *harness.HTTP, method, path, body, of string, limit int) {
	d.T.Helper()
	got := d.WantProblem(429, "limit", method, path, body)
	runtest.Equal(d.T, "details", got.Field("details"), fmt.Sprintf("map[limit:%d what:%s]", limit, of))
	runtest.Equal(d.T, "retry after", got.Header.Get("Retry-After"), "1")
}

// TestFleetQueueLimitOverServices submits more turns than the limit, over NATS and over HTTP. A refused turn leaves no
// trace, and is accepted when there is capacity again.
func TestFleetQueueLimitOverServices(t *testing.T) {
	t.Parallel()
	const limit = 6
	f := harness.StartFleet(t)
	id := f.Open(api.CreateRequest{})
	h := limitedHost(f, limit)
	fleetServes(f, h)
	c, d := f.Dial(), f.ServeHTTP(httpapi.Config{Service: h})
	turns := "/v1/sessions/" + string(id) + "/turns"
	for i := 0; i < limit; i += 2 {
		_, err := c.Submit(f.Ctx, id, harness.TurnRequest(events.TurnID(fmt.Sprintf("t%d", i)), "go"))
		runtest.WantError(t, "submit", err, nil)
		d.Want(202, "POST", turns, fmt.Sprintf(`{"id":"t%d","text":"go"}`, i+1))
	}
	_, err := c.Submit(f.Ctx, id, harness.TurnRequest("more", "go"))
	isFull(t, "client", err, "queued turns", limit)
	_, err = c.Run(f.Ctx, id, harness.TurnRequest("more", "go"))
	isFull(t, "run of a client", err, "queued turns", limit)
	httpIsFull(d, "POST", turns, `{"id":"many","text":"go"}`, "queued turns", limit)
	httpIsFull(d, "POST", turns+"?wait=30", `{"id":"many","text":"go"}`, "queued turns", limit)
	_, err = c.Submit(f.Ctx, id, harness.TurnRequest("t1", "go"))
	runtest.WantError(t, "one that waits, once more", err, nil)
	d.Want(202, "POST", turns, `{"id":"t0","text":"go"}`)

	f.Join(workers.Config{Roles: []workers.Role{workers.RoleTurn}})
	runtest.Equal(t, "end", f.AwaitTurn(id, "t5").End, events.EndFinished)
	f.AwaitUnqueued(id)
	runtest.Equal(t, "turns", f.StateOf(id).Turns, limit)
	_, err = c.Run(f.Ctx, id, harness.TurnRequest("more", "go"))
	runtest.WantError(t, "when there is room", err, nil)
	d.Want(200, "POST", turns+"?wait=30", `{"id":"many","text":"go"}`)
}

// TestFleetHotLimitOverServices opens more sessions than the limit of hot ones, over NATS and over HTTP.
func TestFleetHotLimitOverServices(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	f.Open(api.CreateRequest{ID: "s1"})
	on, err := bus.Open(f.Ctx, bustest.WithKeys(f.T, bus.Config{Options: []nats.Option{f.Server.InProcess()}, MaxHot: 1}))
	runtest.WantError(t, "open", err, nil)
	t.Cleanup(on.Close)
	h := f.NewHost(on)
	fleetServes(f, h)
	c, d := f.Dial(), f.ServeHTTP(httpapi.Config{Service: h})
	_, err = c.Create(f.Ctx, api.CreateRequest{ID: "s2"})
	isFull(t, "create", err, "hot sessions", 1)
	_, err = c.Fork(f.Ctx, "s1", api.CreateRequest{ID: "s2"})
	isFull(t, "fork", err, "hot sessions", 1)
	httpIsFull(d, "POST", "/v1/sessions", `{"id":"s2"}`, "hot sessions", 1)
	httpIsFull(d, "POST", "/v1/sessions/s1/fork", `{"id":"s2"}`, "hot sessions", 1)
	d.WantProblem(404, "no_session", "GET", "/v1/sessions/s2", "")
	_, err = c.AppendNodes(f.Ctx, "s1", api.AppendNodesRequest{Nodes: harness.UserMessages("a")})
	runtest.WantError(t, "append to one that exists", err, nil)
}

// TestFleetFullDiskOverServices has a disk without space, and then with it: over each API new requests are refused, by the name of the stream,
// and done as soon as there is space.
func TestFleetFullDiskOverServices(t *testing.T) {
	t.Parallel()
	f := harness.StartFleet(t)
	id := f.Open(api.CreateRequest{ID: "s1"})
	var free atomic.Int64
	on, err := bus.Open(f.Ctx, bustest.WithKeys(f.T, bus.Config{Options: []nats.Option{f.Server.InProcess()}, Free: func() (int64, error) { return free.Load(), nil }}))
	runtest.WantError(t, "open", err, nil)
	t.Cleanup(on.Close)
	h := f.NewHost(on)
	fleetServes(f, h)
	d := f.ServeHTTP(httpapi.Config{Service: h})
	services := map[string]api.Service{"go": h, "nats": f.Dial()}
	requests := map[string]struct {
		send       func(s api.Service, key string) error
		path, body string // with %s for the key
		stream     string
	}{
		"create": {func(s api.Service, key string) error {
			_, err := s.Create(f.Ctx, api.CreateRequest{ID: events.SessionID(key)})
			return err
		}, "/v1/sessions", `{"id":%q}`, "lash-s-"},
		"submit": {func(s api.Service, key string) error {
			_, err := s.Submit(f.Ctx, id, harness.TurnRequest(events.TurnID(key), "go"))
			return err
		}, "/v1/sessions/s1/turns", `{"id":%q,"text":"go"}`, "lash-s-s1"},
	}
	for name, r := range requests {
		free.Store(bus.KeptFree - 1)
		for via, s := range services {
			if err := r.send(s, name+via); !errors.Is(err, events.ErrStorage) || !strings.Contains(err.Error(), "stream "+r.stream) {
				t.Errorf("%s over %s: got %v, want %v of stream %s", name, via, err, events.ErrStorage, r.stream)
			}
		}
		got := d.WantProblem(507, "storage_full", "POST", r.path, fmt.Sprintf(r.body, name+"http"))
		if !strings.Contains(string(got.Body), "stream "+r.stream) {
			t.Errorf("%s over HTTP: got %s, want the stream %s", name, got.Body, r.stream)
		}
		free.Store(2 * bus.KeptFree)
		for via, s := range services {
			runtest.WantError(t, name+" with space over "+via, r.send(s, name+via), nil)
		}
		if got := d.Send("admin", "POST", r.path, fmt.Sprintf(r.body, name+"http")); got.Status >= 300 {
			t.Errorf("%s with space over HTTP: got %d %s", name, got.Status, got.Body)
		}
	}
}
