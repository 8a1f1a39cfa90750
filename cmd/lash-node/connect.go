package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/access"
	"github.com/lash-go/lash/session"
)

// clientFlags are those of commands that talk to a node which runs.
type clientFlags struct {
	Store string `help:"Directory of the node's embedded server, which says where it listens and has the key to it. Defaults to .lash." default:".lash" placeholder:"DIR" type:"path"`
	NATS  string `name:"nats" help:"Servers of the node, comma-separated URLs. Defaults to the embedded server of --store." placeholder:"URL"`
	access.Flags
}

// client is a host on a running node's servers.
type client struct {
	*session.Host
	bus   *bus.Bus
	where string // flags that lead there
}

func (f *clientFlags) open(ctx context.Context, s *streams) (*client, error) {
	servers := f.NATS
	if servers == "" {
		own, err := busembed.ReadAccess(f.Store)
		if err != nil || own.URL == "" {
			return nil, fmt.Errorf("no node has an embedded server in %s: --store DIR names another directory, --nats URL names servers", f.Store)
		}
		servers = own.URL
	}
	opts, err := f.Options(servers, f.Store, s.Err)
	if err != nil {
		return nil, err
	}
	over := s.Waiting("the servers at %s", bus.Redacted(servers))
	b, err := bus.OpenReader(ctx, bus.Config{URL: servers, Options: opts, Name: "lash-node", Prefix: f.Prefix, Inbox: f.Inbox})
	over()
	if err != nil {
		return nil, f.Explain(err, "is the node running? lash-node serve starts one, --nats URL names its servers")
	}
	actor := cmp.Or(s.Env("USER"), "lash-node")
	h, err := session.New(session.Config{Bus: b, Actor: actor})
	if err != nil {
		b.Close()
		return nil, err
	}
	return &client{h, b, f.where()}, nil
}

// where are the flags that lead another command to the same place, as this one was given them, each after a space.
func (f *clientFlags) where() string {
	where := ""
	if f.NATS != "" {
		where = " --nats " + access.Quoted(bus.Redacted(f.NATS))
	}
	if own, err := filepath.Abs(access.DefaultStore); err != nil || f.Store != own {
		where += " --store " + access.Quoted(f.Store)
	}
	return where + f.Where()
}
