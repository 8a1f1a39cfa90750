package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/keyring"
)

// clientFlags are the flags of commands that connect to a running node.
type clientFlags struct {
	Store string `help:"Directory of the node's embedded server, which says where it listens and has the key to it. Defaults to .lash." default:".lash" placeholder:"DIR" type:"path"`
	NATS  string `name:"nats" help:"Servers of the node, comma-separated URLs. Defaults to the embedded server of --store." placeholder:"URL"`
	connect.Flags
	actor string        // of the commits. Defaults to lash-node
	role  string        // of a user that may do what the command does. Defaults to node
	keys  *keyring.Keys // sign tombstones and redactions. Defaults to none
}

// personFlags are the flags of commands that write in the name of a person.
type personFlags struct {
	clientFlags
	As string `help:"Your name, as the history records it. Defaults to the user of the operating system." placeholder:"NAME"`
}

// with is [clientFlags.with] in the name of the person.
func (f *personFlags) with(ctx context.Context, s *streams, do func(ctx context.Context, on *client) error) error {
	f.actor = cmp.Or(f.As, s.UserName("lash-node"))
	if err := events.CheckToken("actor", f.actor); err != nil {
		return fmt.Errorf("--as %q: %w", f.actor, err)
	}
	return f.clientFlags.with(ctx, s, do)
}

// client is a host on a running node's servers.
type client struct {
	*session.Host
	bus   *bus.Bus
	where string // flags that connect another command to the same servers
}

// with connects and calls do. It returns an error where the servers refuse an operation to the user.
func (f *clientFlags) with(ctx context.Context, s *streams, do func(ctx context.Context, on *client) error) error {
	ctx, end, option := connect.EndOnRefusal(ctx, s.Err)
	defer end()
	on, err := f.open(ctx, s, option)
	if err == nil {
		defer on.bus.Close()
		if err = do(ctx, on); errors.Is(err, events.ErrOutcomeUnknown) && on.bus.Answers(ctx) != nil {
			err = f.explain(err)
		}
	}
	if refused := connect.Refused(ctx); err != nil && refused != nil {
		return f.explain(refused)
	}
	return err
}

// explain adds advice to errors of connections and of requests.
func (f *clientFlags) explain(err error) error {
	return f.Explain(err, cmp.Or(f.role, connect.Node), "is the node running? lash-node serve starts one, --store DIR or --nats URL names its servers")
}

func (f *clientFlags) open(ctx context.Context, s *streams, more nats.Option) (*client, error) {
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
	keys, err := f.BodiesKeys()
	if err != nil {
		return nil, err
	}
	b, err := connect.Open(ctx, bus.OpenReader, bus.Config{
		URL: servers, Options: append(opts, more), Name: "lash-node", Prefix: f.Prefix, Inbox: f.Inbox, Keys: keys,
		Pending: connect.Pending(s, servers),
	}, f.NATS != "")
	if err != nil {
		return nil, f.explain(err)
	}
	cfg := session.Config{Bus: b, Actor: cmp.Or(f.actor, "lash-node")}
	if f.keys != nil {
		cfg.Signer = f.keys.Signer
	}
	h, err := session.New(cfg)
	if err != nil {
		b.Close()
		return nil, err
	}
	return &client{h, b, f.where()}, nil
}

// where returns the flags of this command that connect another command to the same servers, each after a space.
func (f *clientFlags) where() string {
	where := ""
	if f.NATS != "" {
		where = " --nats " + connect.Quoted(bus.WithoutPasswords(f.NATS))
	}
	if own, err := filepath.Abs(connect.DefaultStore); err != nil || f.Store != own {
		where += " --store " + connect.Quoted(f.Store)
	}
	return where + f.Where()
}
