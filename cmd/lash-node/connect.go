package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/access"
	"github.com/lash-go/lash/session"
)

// clientFlags are those of commands that talk to a node which runs.
type clientFlags struct {
	NATS string `name:"nats" help:"Servers of the node, comma-separated URLs." default:"nats://127.0.0.1:4222" placeholder:"URL"`
	access.Flags
}

// client is a host on a running node's servers.
type client struct {
	*session.Host
	bus *bus.Bus
}

func (f *clientFlags) open(ctx context.Context, s *streams) (*client, error) {
	opts, err := f.Options(s.err)
	if err != nil {
		return nil, err
	}
	b, err := bus.OpenReader(ctx, bus.Config{URL: f.NATS, Options: opts, Name: "lash-node", Prefix: f.Prefix, Inbox: f.Inbox})
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return nil, fmt.Errorf("no sessions with prefix %q here: --prefix NAME names another (%w)", f.Prefix, err)
	case err != nil:
		return nil, fmt.Errorf("%w: is the node running? lash-node serve starts one, --nats URL names its servers", err)
	}
	actor := s.env("USER")
	if actor == "" {
		actor = "lash-node"
	}
	h, err := session.New(session.Config{Bus: b, Actor: actor})
	if err != nil {
		b.Close()
		return nil, err
	}
	return &client{h, b}, nil
}
