package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/workers"
)

// startNode runs a node in this process, on an embedded server that other terminals find in its store.
// [busembed.ErrHeld]: there is one in the store.
func (c *chatCmd) startNode(ctx context.Context, s *streams) (*chatting, error) {
	serve := &serveCmd{
		Store: c.Store, Listen: c.listen(), Profile: busembed.ProfileInterval, Replicas: 1, pluginFlags: c.pluginFlags, Provider: c.Provider, Model: c.Model,
	}
	quiet := &streams{err: io.Discard} // where it listens, other terminals read in the store
	server, err := serve.embedded(quiet)
	if err != nil && !errors.Is(err, busembed.ErrHeld) && serve.Listen != anyPort {
		serve.Listen = anyPort // another program has the port
		server, err = serve.embedded(quiet)
	}
	if err != nil {
		return nil, err
	}
	b, node, err := c.nodeOn(ctx, s, serve, server)
	if err != nil {
		server.Stop()
		return nil, err
	}
	return &chatting{bus: b, where: c.where(), stop: func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		late := time.AfterFunc(2*time.Second, func() {
			write(s.err, "lash-node: waiting for the running turn; what is left of it goes on when a node starts here again\n")
		})
		defer late.Stop()
		node.Stop(grace)
		b.Close()
		server.Stop()
	}}, nil
}

// anyPort is where a server listens that others find by its store.
const anyPort = "127.0.0.1:0"

// listen is where the store's server listened before: terminals that are left wait for it there.
func (c *chatCmd) listen() string {
	own, err := busembed.ReadAccess(c.Store)
	if err != nil {
		return anyPort
	}
	before, err := url.Parse(own.URL)
	if err != nil || before.Port() == "" {
		return anyPort
	}
	return before.Host
}

// nodeOn runs the node, as serve's flags say.
func (c *chatCmd) nodeOn(ctx context.Context, s *streams, serve *serveCmd, server *busembed.Server) (*bus.Bus, *workers.Node, error) {
	plugins, err := serve.plugins(s)
	if err != nil {
		return nil, nil, err
	}
	providers, err := serve.providers(s)
	if err != nil {
		return nil, nil, err
	}
	if err := serve.checkModel(ctx, s, providers[serve.Provider]); err != nil {
		return nil, nil, err
	}
	b, err := bus.Open(ctx, bus.Config{Options: []nats.Option{server.InProcess()}, Prefix: c.Prefix, Inbox: c.Inbox})
	if err != nil {
		return nil, nil, err
	}
	node, err := workers.NewNode(workers.Config{Bus: b, Providers: providers, Provider: serve.Provider, Model: c.Model, Plugins: plugins, Name: serve.name()})
	if err == nil {
		err = node.Start(ctx)
	}
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	return b, node, nil
}
