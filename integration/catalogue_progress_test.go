package integration

import (
	"context"
	"net/url"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// outage is a server that goes away and comes back with what it had.
type outage struct {
	t      *testing.T
	cfg    busembed.Config
	server *busembed.Server
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{t: t, cfg: busembed.Config{StoreDir: t.TempDir(), Listen: true}}
	o.start()
	t.Cleanup(func() { o.server.Stop() })
	at, err := url.Parse(o.server.URL())
	must(t, "parse address", err, nil)
	o.cfg.Port, err = strconv.Atoi(at.Port())
	must(t, "parse port", err, nil)
	return o
}

func (o *outage) start() {
	o.t.Helper()
	var err error
	if o.server, err = busembed.Start(o.cfg); err != nil {
		o.t.Fatal(err)
	}
}

func (o *outage) open() *bus.Bus {
	o.t.Helper()
	silent := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	b, err := bus.Open(o.t.Context(), bus.Config{URL: o.server.URL(), Options: []nats.Option{silent}})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(b.Close)
	return b
}

// testProgressFails takes the server away while a call runs, so that its result
// cannot be written, and brings it back once the worker has tried.
func testProgressFails(t *testing.T) {
	o := newOutage(t)
	b := setupIdle(t, reply(call("k", "once", "{}")), reply(text("done")))
	b.server, b.bus = o.server, o.open()
	b.Host = b.newHost(b.bus)
	runs := make(chan struct{}, 8)
	submitted, down := make(chan struct{}), make(chan struct{})
	plugin.AddTool(b.tools, plugin.Tool{Name: "once"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		runs <- struct{}{}
		<-submitted
		o.server.Stop()
		close(down)
		return "ran", nil
	})
	on := o.open()
	b.work(on)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	close(submitted)
	receive(b, "the outage", down)
	for tried := on.Conn().Stats().OutMsgs; on.Conn().Stats().OutMsgs == tried; { // of the publish that cannot arrive
		if b.ctx.Err() != nil {
			t.Fatal("the worker never tried to write")
		}
	}
	o.start()
	record := b.ended(id, "t1")
	equal(t, "end", record.End, events.EndFinished)
	equal(t, "attempts", record.Attempts, 1)
	equal(t, "runs", len(runs), 1)
	equalLists(t, "messages", b.messages(id), []string{"user go", "assistant k:once{}", "user k=ran", "assistant done"})
}
