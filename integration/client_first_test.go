package integration

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
)

// TestClientBeforeNode starts a client on servers on which no node ever ran: it
// waits for the first one, says so, and its request for one that answers.
func TestClientBeforeNode(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, ctx: limited(t), server: bustest.Server(t, busembed.Config{}), model: &model{t: t, script: []step{reply(text("here"))}}}
	waits, done := make(chan string, 1024), make(chan error, 1)
	run := func() error {
		on, err := bus.OpenReader(b.ctx, bus.Config{Options: []nats.Option{b.server.InProcess()}, Wait: true, Waiting: func(what string) { waits <- what }})
		if err != nil {
			return err
		}
		defer on.Close()
		c, err := client.New(client.Config{Bus: on})
		if err == nil {
			_, err = c.Create(b.ctx, api.CreateRequest{ID: "s"})
		}
		if err == nil {
			_, err = c.Run(b.ctx, "s", api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{text("hi")}}})
		}
		return err
	}
	go func() { done <- run() }()
	<-waits
	select {
	case err := <-done:
		t.Fatalf("before the first node: got %v, want it to wait", err)
	default:
	}
	b.bus = bustest.Open(t, b.server)
	b.nodeOn(b.bus)
	must(t, "client", <-done, nil)
}
