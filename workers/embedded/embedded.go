// Package embedded runs everything in one process: a server, a node, and the
// host that drives it. It is for programs that need no more than that, for
// first steps, and for tests. The histories are those of any other deployment.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// Config of a process.
type Config struct {
	Provider llm.Provider     // required
	Model    string           // of sessions that name none
	StoreDir string           // where histories are kept. Defaults to a directory that Stop removes
	Profile  busembed.Profile // what an acknowledged append survives. Defaults to busembed.ProfileInterval
	Logger   *zap.Logger      // nil is silent
}

// Lash is a running process. Its methods are the host's.
type Lash struct {
	*session.Host
	node   *workers.Node
	bus    *bus.Bus
	server *busembed.Server
	remove string // directory that goes with it
}

// Start boots it, with plugins beside [workers.Builtins], and returns when it takes turns. [busembed.ErrInUse]: another
// process runs in the directory.
func Start(ctx context.Context, cfg Config, plugins ...plugin.Factory) (l *Lash, err error) {
	if cfg.Provider == nil {
		return nil, errors.New("start embedded: provider is required")
	}
	l = &Lash{}
	defer func() {
		if err != nil {
			l.Stop()
			l, err = nil, fmt.Errorf("start embedded: %w", err)
		}
	}()
	if cfg.StoreDir == "" {
		if l.remove, err = os.MkdirTemp("", "lash-"); err != nil {
			return l, err
		}
		cfg.StoreDir = l.remove
	}
	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: workers.Builtins(), Factories: plugins})
	if err != nil {
		return l, err
	}
	if l.server, err = busembed.Start(busembed.Config{StoreDir: cfg.StoreDir, Profile: cfg.Profile}); err != nil {
		return l, err
	}
	if l.bus, err = bus.Open(ctx, bus.Config{Options: []nats.Option{l.server.InProcess()}, Logger: cfg.Logger}); err != nil {
		return l, err
	}
	node, err := workers.NewNode(workers.Config{
		Bus: l.bus, Plugins: stack, Model: cfg.Model, Logger: cfg.Logger,
		Provider: cfg.Provider.ID(), Providers: map[string]llm.Provider{cfg.Provider.ID(): cfg.Provider},
	})
	if err != nil {
		return l, err
	}
	l.Host = node.Host()
	if err := node.Start(ctx); err != nil {
		return l, err
	}
	l.node = node
	return l, nil
}

// stopGrace is how long turns may go on after Stop.
const stopGrace = 10 * time.Second

// Stop takes no more turns, lets those that run end for 10 s, and shuts down.
// What was cut off goes on at the next start in the same directory. A second
// call does nothing.
func (l *Lash) Stop() {
	if l.node != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace) // a caller's context has often ended by now
		defer cancel()
		l.node.Stop(ctx)
	}
	if l.bus != nil {
		l.bus.Close()
	}
	if l.server != nil {
		l.server.Stop()
	}
	if l.remove != "" {
		_ = os.RemoveAll(l.remove) // of the operating system's place for such
	}
	l.node, l.bus, l.server, l.remove = nil, nil, nil, ""
}
