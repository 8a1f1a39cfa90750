package external

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestCallIsLostWhereItMayRun ends the connection of the node after a call that must not run twice was sent, and has the
// instance die afterwards. The call may run, so its result is lost, and it is not reported as not started.
func TestCallIsLostWhereItMayRun(t *testing.T) {
	t.Parallel()
	for name, sent := range map[string]bool{"after_the_call": true, "without_the_instance": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{Listen: true})
			on, err := bus.Open(t.Context(), bus.Config{URL: server.URL()})
			if err != nil {
				t.Fatal(err)
			}
			defer on.Close()
			p, err := New(Config{Bus: on, Plugins: []Plugin{{Name: "notes"}}})
			if err != nil {
				t.Fatal(err)
			}
			nc, err := nats.Connect(server.URL())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			subject := "lash.plugin.notes.i1.call"
			if !sent {
				subject += ".other"
			}
			_, err = nc.Subscribe(subject, func(*nats.Msg) {
				p.registry.Received("notes", 2*wire.Lease) // the instance gives no sign of life for so long
				on.Close()
			})
			if err = errors.Join(err, nc.Flush()); err != nil {
				t.Fatal(err)
			}
			if !sent {
				time.AfterFunc(50*time.Millisecond, func() { p.registry.Received("notes", 2*wire.Lease) })
			}
			run := p.handler("notes", "write", false, nil)
			call := plugin.Call{Session: "s", Effect: "t1/0/0", Holder: "i1"}
			got, err := run(t.Context(), call, json.RawMessage(`{}`))
			if sent && (err != nil || got.Outcome != events.OutcomeLost) {
				t.Errorf("got %+v, %v, want a lost result", got, err)
			}
			failure, ok := errors.AsType[*plugin.Failure](err)
			if !sent && (!ok || failure.Class != plugin.ClassUnavailable) {
				t.Errorf("got %+v, %v, want an unavailable instance", got, err)
			}
		})
	}
}

// TestErrorsAfterTheCall lists the errors after which a call has not reached the instance.
func TestErrorsAfterTheCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{bus.ErrNoResponder, false},
		{events.ErrTooLarge, false},
		{nats.ErrSlowConsumer, true},
		{nats.ErrConnectionClosed, true},
		{errSilent, true},
		{context.Canceled, true},
	} {
		if got := reached(c.err); got != c.want {
			t.Errorf("%v: got %v, want %v", c.err, got, c.want)
		}
	}
}
