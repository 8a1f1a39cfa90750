package integration

import (
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/service"
	"github.com/lash-go/lash/workers"
)

// dialled is a client on a connection of its own.
func (f *fleet) dialled() *client.Client {
	f.t.Helper()
	return dial(f.t, reader(f.t, bus.Config{Options: []nats.Option{f.server.InProcess()}}))
}

// serves answers clients for a host until the test ends.
func (f *fleet) serves(h *session.Host) {
	f.t.Helper()
	stop, err := service.Serve(bustest.Open(f.t, f.server), h, service.Config{})
	must(f.t, "serve", err, nil)
	f.t.Cleanup(func() { _ = stop(f.ctx) })
}

// isFull wants what HTTP says of a limit: who it is, how much, and to come back.
func (d *door) isFull(method, path, body, of string, limit int) {
	d.t.Helper()
	got := d.refused(429, "limit", method, path, body)
	equal(d.t, "details", got.text("details"), fmt.Sprintf("map[limit:%d what:%s]", limit, of))
	equal(d.t, "retry after", got.header.Get("Retry-After"), "1")
}

// TestFleetQueueLimitDoors submits more turns than may wait, over NATS and over
// HTTP. What is refused was never there, and comes in when there is room again.
func TestFleetQueueLimitDoors(t *testing.T) {
	t.Parallel()
	const limit = 6
	f := setupFleet(t)
	id := f.open(api.CreateRequest{})
	h := f.limitedHost(limit)
	f.serves(h)
	c, d := f.dialled(), f.door(httpapi.Config{Service: h})
	turns := "/v1/sessions/" + string(id) + "/turns"
	for i := 0; i < limit; i += 2 {
		_, err := c.Submit(f.ctx, id, asksTurn(events.TurnID(fmt.Sprintf("t%d", i)), "go"))
		must(t, "submit", err, nil)
		d.want(202, "POST", turns, fmt.Sprintf(`{"id":"t%d","text":"go"}`, i+1))
	}
	_, err := c.Submit(f.ctx, id, asksTurn("more", "go"))
	isFull(t, "client", err, "queued turns", limit)
	_, err = c.Run(f.ctx, id, asksTurn("more", "go"))
	isFull(t, "run of a client", err, "queued turns", limit)
	d.isFull("POST", turns, `{"id":"many","text":"go"}`, "queued turns", limit)
	d.isFull("POST", turns+"?wait=30", `{"id":"many","text":"go"}`, "queued turns", limit)
	_, err = c.Submit(f.ctx, id, asksTurn("t1", "go"))
	must(t, "one that waits, once more", err, nil)
	d.want(202, "POST", turns, `{"id":"t0","text":"go"}`)

	f.join(workers.Config{Roles: []workers.Role{workers.RoleTurn}})
	equal(t, "end", f.ended(id, "t5").End, events.EndFinished)
	f.unqueued(id)
	equal(t, "turns", f.state(id).Turns, limit)
	_, err = c.Run(f.ctx, id, asksTurn("more", "go"))
	must(t, "when there is room", err, nil)
	d.want(200, "POST", turns+"?wait=30", `{"id":"many","text":"go"}`)
}

// TestFleetHotLimitDoors opens more sessions than may be hot, over NATS and over HTTP.
func TestFleetHotLimitDoors(t *testing.T) {
	t.Parallel()
	f := setupFleet(t)
	f.open(api.CreateRequest{ID: "s1"})
	on, err := bus.Open(f.ctx, bus.Config{Options: []nats.Option{f.server.InProcess()}, MaxHot: 1})
	must(t, "open", err, nil)
	t.Cleanup(on.Close)
	h := f.newHost(on)
	f.serves(h)
	c, d := f.dialled(), f.door(httpapi.Config{Service: h})
	_, err = c.Create(f.ctx, api.CreateRequest{ID: "s2"})
	isFull(t, "create", err, "hot sessions", 1)
	_, err = c.Fork(f.ctx, "s1", api.CreateRequest{ID: "s2"})
	isFull(t, "fork", err, "hot sessions", 1)
	d.isFull("POST", "/v1/sessions", `{"id":"s2"}`, "hot sessions", 1)
	d.isFull("POST", "/v1/sessions/s1/fork", `{"id":"s2"}`, "hot sessions", 1)
	d.refused(404, "no_session", "GET", "/v1/sessions/s2", "")
	_, err = c.AppendNodes(f.ctx, "s1", api.AppendNodesRequest{Nodes: says("a")})
	must(t, "append to one that exists", err, nil)
}
