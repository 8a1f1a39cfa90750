package integration

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/client"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/service"
	"github.com/lash-go/lash/session/servicetest"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// serving is a node whose sessions are as package servicetest wants them. It ends with the test.
func serving(t *testing.T, on *bus.Bus) (n *workers.Node, kill func()) {
	t.Helper()
	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: []plugin.Factory{servicetest.Plugin()}})
	if err != nil {
		t.Fatal(err)
	}
	n, err = workers.NewNode(workers.Config{
		Bus: on, Plugins: stack, Logger: zaptest.NewLogger(t), Provider: "scripted",
		Providers: map[string]llm.Provider{"scripted": scripted.New(replies)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(limited(t)); err != nil {
		t.Fatal(err)
	}
	stopped := false
	kill = func() {
		if stopped {
			return
		}
		stopped = true
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
		cancel()
		n.Stop(now)
	}
	t.Cleanup(kill)
	return n, kill
}

func replies(_ context.Context, req llm.Request) (scripted.Answer, error) {
	parts, hang := servicetest.Reply(req.Messages[len(req.Messages)-1])
	return scripted.Answer{Response: llm.Response{Parts: parts, Stop: events.StopEnd}, Hang: hang}, nil
}

// offer has a host answer requests until the test ends, or stop is called.
func offer(t *testing.T, on *bus.Bus, h *session.Host) (stop func(context.Context) error) {
	t.Helper()
	stop, err := service.Serve(on, h, service.Config{Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // the test's own has ended
		defer cancel()
		if err := stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// reader opens a bus as a client does, that makes nothing.
func reader(t *testing.T, cfg bus.Config) *bus.Bus {
	t.Helper()
	b, err := bus.OpenReader(limited(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func dial(t *testing.T, on *bus.Bus) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Bus: on, Actor: "ide", Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestServiceHost runs the suite on the host in its process.
func TestServiceHost(t *testing.T) {
	t.Parallel()
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		n, _ := serving(t, bustest.Start(t))
		return servicetest.Started{Service: n.Host()}
	})
}

// TestServiceClient runs it on a client that reads by itself, and asks a node.
func TestServiceClient(t *testing.T) {
	t.Parallel()
	servicetest.Test(t, func(t *testing.T) servicetest.Started {
		server := bustest.Server(t, busembed.Config{})
		on := bustest.Open(t, server)
		n, _ := serving(t, on)
		offer(t, on, n.Host())
		return servicetest.Started{Service: dial(t, reader(t, bus.Config{Options: []nats.Option{server.InProcess()}}))}
	})
}
