package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
)

// openBus opens the bus. It starts the embedded server where --nats is not set.
func (c *Command) openBus(ctx context.Context, s *program.Streams, n *Node, log *zap.Logger) error {
	cfg, err := c.servers(s, n, log)
	if err != nil {
		return err
	}
	cfg.Logger, cfg.MaxHot = log, c.MaxHot
	if cfg.Keys, err = c.BodiesKeys(); err != nil {
		return err
	}
	cfg.Wait, cfg.Waiting = true, func(what string) { s.Printf("waiting: %s", what) }
	if n.bus, err = connect.Open(ctx, bus.Open, cfg, c.NATS != ""); err != nil {
		if c.NATS != "" {
			err = c.Explain(err, connect.Node, "do the servers run? --nats URL names them")
		}
		return err
	}
	n.closers = append(n.closers, n.bus.Close)
	if has := n.bus.Replicas(); has > c.Replicas {
		s.Printf("shared streams have %d replicas, this node was told %d: keeps %d", has, c.Replicas, has)
	}
	return nil
}

// servers is the configuration of the bus: for an embedded server, which it starts, or for external ones.
func (c *Command) servers(s *program.Streams, n *Node, log *zap.Logger) (cfg bus.Config, err error) {
	cfg = bus.Config{URL: c.NATS, Prefix: c.Prefix, Inbox: c.Inbox, Replicas: c.Replicas}
	if c.NATS != "" {
		cfg.Options, err = c.Options(c.NATS, c.Store, s.Err)
		s.Printf("servers %s store the sessions, %s of each; how often they sync to disk is in their configuration (sync_interval)", bus.WithoutPasswords(c.NATS), copies(c.Replicas))
		return cfg, err
	}
	if n.server, err = c.embedded(s, log); err != nil {
		return cfg, err
	}
	n.closers = append(n.closers, n.stopServer)
	cfg.Options, cfg.Free = []nats.Option{n.server.InProcess()}, n.server.Free
	return cfg, nil
}

func copies(n int) string {
	if n == 1 {
		return "one copy"
	}
	return strconv.Itoa(n) + " copies"
}

// embedded starts a server in this process.
func (c *Command) embedded(s *program.Streams, log *zap.Logger) (*busembed.Server, error) {
	if c.Replicas != 1 {
		return nil, fmt.Errorf("setting replicas %d: an embedded server has one; use --nats with a cluster", c.Replicas)
	}
	host, text, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: port: %w", c.Listen, err)
	}
	if !busembed.Loopback(host) {
		return nil, fmt.Errorf("--listen %s: an embedded server listens on 127.0.0.1, ::1 or localhost; for other machines run a server as in deploy/nats, and name it with --nats", c.Listen)
	}
	over := s.NoteWait("the embedded server to read %s", c.Store)
	cfg := busembed.Config{StoreDir: c.Store, Profile: c.Profile, Listen: true, Keyed: true, Host: host, Port: int(port), Prefix: c.Prefix, Logger: log}
	for _, p := range c.external {
		cfg.Plugins = append(cfg.Plugins, p.Name)
	}
	server, err := busembed.Start(cfg)
	over()
	switch {
	case errors.Is(err, busembed.ErrInUse):
		return nil, fmt.Errorf("%w: stop that one, or give --store another directory", err)
	case err != nil:
		return nil, fmt.Errorf("%w: --store DIR names another directory, --listen HOST:PORT another address, whose port 0 is a free one", err)
	}
	return server, nil
}
