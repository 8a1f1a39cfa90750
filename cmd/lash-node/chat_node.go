package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/lash-node/serve"
)

// runs reports whether the server at own.URL answers with the key of the store. The library refuses a server that
// requires no key.
func runs(own busembed.Access) bool {
	if own.URL == "" {
		return false
	}
	conn, err := nats.Connect(own.URL, own.Option(), nats.NoReconnect())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// errNoKey: the chat would start a node without a model.
var errNoKey = errors.New("set OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY and name a model with --model, without which the models of the provider are listed; or name the servers of a node that runs with --nats URL; --provider scripted talks without a model")

// startNode runs a node in this process, on an embedded server. Other terminals find that server in the store. Errors:
// [busembed.ErrInUse] where the store has a running server.
func (c *chatCmd) startNode(ctx context.Context, s *streams, own busembed.Access) (*serve.Node, error) {
	if c.Provider == "" && !serve.HasKey(s.Env) {
		return nil, fmt.Errorf("no node runs in %s, and there is no model for one that starts here: %w", c.Store, errNoKey)
	}
	return serve.Start(ctx, s, serve.Config{Logger: zap.NewNop()}, func(flags *serve.Command) {
		flags.Store, flags.Listen, flags.Grace = c.Store, listenAt(ctx, own.URL), stopGrace
		flags.Prefix, flags.Inbox, flags.Bodies = c.Prefix, c.Inbox, c.Bodies
		flags.PluginFlags, flags.ModelFlags, flags.Provider, flags.Model = c.PluginFlags, c.ModelFlags, c.Provider, c.Model
	})
}

// nodeFlags are the flags that start the same node again, each after a space.
func (c *chatCmd) nodeFlags() (flags string) {
	if c.Provider != "" {
		flags += " --provider " + connect.Quoted(c.Provider)
	}
	if c.Model != "" {
		flags += " --model " + connect.Quoted(c.Model)
	}
	if c.Config != "" {
		flags += " --config " + connect.Quoted(c.Config)
	}
	for _, setting := range c.Set {
		flags += " --set " + connect.Quoted(setting)
	}
	return flags + c.Given()
}

// listenAt is the address at which the store's server listened before, because other terminals reconnect to it. It is
// any free port where another program uses that one.
func listenAt(ctx context.Context, before string) string {
	const anyPort = "127.0.0.1:0"
	u, err := url.Parse(before)
	if err != nil || u.Port() == "" {
		return anyPort
	}
	on, err := new(net.ListenConfig).Listen(ctx, "tcp", u.Host)
	if err != nil {
		return anyPort
	}
	_ = on.Close()
	return u.Host
}
