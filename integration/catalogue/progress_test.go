package catalogue

import (
	"context"
	"net/url"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// outage is a server that stops and restarts with its data.
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
	runtest.WantError(t, "parse address", err, nil)
	o.cfg.Port, err = strconv.Atoi(at.Port())
	runtest.WantError(t, "parse port", err, nil)
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
	b, err := bus.Open(o.t.Context(), bustest.WithKeys(o.t, bus.Config{URL: o.server.URL(), Options: []nats.Option{silent}}))
	runtest.NoError(o.t, err)
	o.t.Cleanup(b.Close)
	return b
}

// testProgressFails stops the server during a call, so that the result cannot be written, and restarts it after
// the worker's first attempt.
func testProgressFails(t *testing.T) {
	o := newOutage(t)
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "once", "{}")), harness.Reply(harness.Text("done")))
	b.Server, b.Bus = o.server, o.open()
	b.Host = b.NewHost(b.Bus)
	runs := make(chan struct{}, 8)
	submitted, down := make(chan struct{}), make(chan struct{})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "once"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		runs <- struct{}{}
		<-submitted
		o.server.Stop()
		close(down)
		return "ran", nil
	})
	on := o.open()
	b.StartWorker(on)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	close(submitted)
	harness.Receive(b, "the outage", down)
	for tried := on.Conn().Stats().OutMsgs; on.Conn().Stats().OutMsgs == tried; { // of the publish that cannot arrive
		if b.Ctx.Err() != nil {
			t.Fatal("the worker never tried to write")
		}
	}
	o.start()
	b.AwaitPolling("the host's connection", func() bool { return b.Bus.Conn().Stats().Reconnects > 0 })
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndFinished)
	runtest.Equal(t, "attempts", record.Attempts, 1)
	runtest.Equal(t, "runs", len(runs), 1)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", "assistant k:once{}", "user k=ran", "assistant done"})
}
