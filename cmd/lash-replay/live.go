package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

// live reads a server: one that runs, or one of its own on a store. It implements [source].
type live struct {
	*bus.Bus
	server *busembed.Server // nil on a server that runs by itself
}

func openServer(ctx context.Context, f *sourceFlags) (*live, error) {
	opts, err := f.connectOptions()
	if err != nil {
		return nil, err
	}
	b, err := bus.OpenReader(ctx, bus.Config{URL: f.NATS, Options: opts, Name: "lash-replay", Prefix: f.Prefix})
	if err != nil {
		return nil, explain(err, f, "is the node running? --store DIR reads the store of a stopped one")
	}
	return &live{Bus: b}, nil
}

func (f *sourceFlags) connectOptions() ([]nats.Option, error) {
	var opts []nats.Option
	for _, path := range []string{f.Creds, f.TLSCA, f.TLSCert, f.TLSKey} {
		if _, err := os.Stat(path); path != "" && err != nil {
			return nil, err
		}
	}
	if (f.TLSCert == "") != (f.TLSKey == "") {
		return nil, errors.New("--tls-cert and --tls-key go together")
	}
	if f.Creds != "" {
		opts = append(opts, nats.UserCredentials(f.Creds))
	}
	if f.TLSCA != "" {
		opts = append(opts, nats.RootCAs(f.TLSCA))
	}
	if f.TLSCert != "" {
		opts = append(opts, nats.ClientCert(f.TLSCert, f.TLSKey))
	}
	return opts, nil
}

// openStore boots a server in this process. It makes no store where there is
// none, and leaves alone one that another process has.
func openStore(ctx context.Context, f *sourceFlags) (*live, error) {
	info, err := os.Stat(filepath.Join(f.Store, "jetstream"))
	if err != nil || !info.IsDir() {
		return nil, fmt.Errorf("there is no store in %s: --store names the directory that a node keeps its histories in", f.Store)
	}
	server, err := busembed.Start(busembed.Config{StoreDir: f.Store})
	if errors.Is(err, busembed.ErrHeld) {
		return nil, fmt.Errorf("%s: %w: stop the node first, or read from it with --nats URL", f.Store, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Store, err)
	}
	b, err := bus.OpenReader(ctx, bus.Config{Options: []nats.Option{server.InProcess()}, Name: "lash-replay", Prefix: f.Prefix})
	if err != nil {
		server.Stop()
		return nil, explain(err, f, "is it a node's store?")
	}
	return &live{Bus: b, server: server}, nil
}

// explain says what to do about a bus that does not open.
func explain(err error, f *sourceFlags, otherwise string) error {
	if errors.Is(err, bus.ErrNotFound) {
		return fmt.Errorf("no sessions with prefix %q here: --prefix NAME names another (%w)", f.Prefix, err)
	}
	return fmt.Errorf("%w: %s", err, otherwise)
}

func (l *live) Log() events.Log { return l.Bus.Log() }

func (l *live) Sessions(ctx context.Context) ([]events.SessionID, error) {
	var list []events.SessionID
	for id, err := range l.Bus.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

func (l *live) Snapshot(ctx context.Context, session events.SessionID) (*follow.Snapshot, error) {
	return follow.Stored(ctx, l.Bus, session)
}

func (l *live) State(ctx context.Context, session events.SessionID) (*projector.State, error) {
	return follow.Open(ctx, l.Bus, session)
}

func (l *live) Close() {
	l.Bus.Close()
	if l.server != nil {
		l.server.Stop()
	}
}
