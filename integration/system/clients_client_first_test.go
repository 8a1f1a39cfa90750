package system

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/client"
)

// TestClientBeforeNode starts a client on servers without a node so far. The client waits for the first node and
// logs that, and its request waits for a node that responds.
func TestClientBeforeNode(t *testing.T) {
	t.Parallel()
	b := &harness.System{T: t, Ctx: harness.Context(t), Server: bustest.Server(t, busembed.Config{}), Model: &harness.Model{T: t, Script: []harness.Step{harness.Reply(harness.Text("here"))}}}
	waits, done := make(chan string, 1024), make(chan error, 1)
	run := func() error {
		on, err := bus.OpenReader(b.Ctx, bustest.WithKeys(t, bus.Config{Options: []nats.Option{b.Server.InProcess()}, Wait: true, Waiting: func(what string) { waits <- what }}))
		if err != nil {
			return err
		}
		defer on.Close()
		c, err := client.New(client.Config{Bus: on})
		if err == nil {
			_, err = c.Create(b.Ctx, api.CreateRequest{ID: "s"})
		}
		if err == nil {
			_, err = c.Run(b.Ctx, "s", api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{harness.Text("hi")}}})
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
	b.Bus = bustest.Open(t, b.Server)
	b.StartNodeOn(b.Bus)
	runtest.WantError(t, "client", <-done, nil)
}
