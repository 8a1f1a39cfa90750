package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/session"
)

// accessFlags say how servers are spoken to.
type accessFlags struct {
	Creds   string `help:"Credentials file for --nats." placeholder:"FILE" type:"path"`
	TLSCA   string `name:"tls-ca" help:"Certificate authority of the servers." placeholder:"FILE" type:"path"`
	TLSCert string `name:"tls-cert" help:"Client certificate." placeholder:"FILE" type:"path"`
	TLSKey  string `name:"tls-key" help:"Key of the client certificate." placeholder:"FILE" type:"path"`
	Prefix  string `help:"Prefix of every stream, bucket and subject." default:"lash"`
	Inbox   string `help:"Prefix of the subjects of replies, which the user may be alone in hearing." default:"_INBOX" placeholder:"NAME"`
}

func (f *accessFlags) options() ([]nats.Option, error) {
	var opts []nats.Option
	if f.Creds != "" {
		opts = append(opts, nats.UserCredentials(f.Creds))
	}
	if f.TLSCA != "" {
		opts = append(opts, nats.RootCAs(f.TLSCA))
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return nil, errors.New("--tls-cert and --tls-key go together")
	}
	if f.TLSCert != "" {
		opts = append(opts, nats.ClientCert(f.TLSCert, f.TLSKey))
	}
	return opts, nil
}

// clientFlags are those of commands that talk to a node which runs.
type clientFlags struct {
	NATS string `name:"nats" help:"Servers of the node, comma-separated URLs." default:"nats://127.0.0.1:4222" placeholder:"URL"`
	accessFlags
}

// client is a host on a running node's servers.
type client struct {
	*session.Host
	bus *bus.Bus
}

func (f *clientFlags) open(ctx context.Context, s *streams) (*client, error) {
	for _, path := range []string{f.Creds, f.TLSCA, f.TLSCert, f.TLSKey} {
		if _, err := os.Stat(path); path != "" && err != nil {
			return nil, err
		}
	}
	opts, err := f.options()
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
