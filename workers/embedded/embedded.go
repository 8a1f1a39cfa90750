// Package embedded runs lash in one process: a NATS server with its store, a node with all roles, and the host that
// clients call. It suits programs that need one process, first steps, and tests.
//
// The order of use:
//
//  1. A provider answers model calls. Package llm has those of OpenAI and
//     Anthropic; package llm/scripted answers from a function.
//  2. [Start] starts the server and the node. Plugins are further arguments.
//  3. [session.Host.Create] creates a session, [session.Host.Run] runs one turn
//     and returns its result, [session.Host.Submit] queues a turn and returns at
//     once.
//  4. [Lash.Ended] says that the process cannot go on.
//  5. [Lash.Stop] stops. With [Config.StoreDir], the next Start in the same
//     directory continues every session and every turn.
//
// The histories are the same as those of any other deployment: a store that began here can move to a cluster. The
// example of [Start] is a whole program.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events/bodykey"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/keyring"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
)

// Config configures [Start].
type Config struct {
	Provider llm.Provider     // required; of all sessions
	Model    string           // of sessions that set none; required where the provider lists its models, and one of them
	StoreDir string           // directory of the histories. Defaults to a temporary one, which Stop removes
	Profile  busembed.Profile // the faults that an acknowledged append survives. Defaults to busembed.ProfileInterval
	Keys     *bodykey.Keys    // encrypt what sessions say; keyring.LoadBodies reads a file of them. Defaults to none
	Logger   *zap.Logger      // nil logs nothing
}

// Lash is a running process. It has the methods of its host.
type Lash struct {
	*session.Host
	node   *workers.Node
	bus    *bus.Bus
	server *busembed.Server
	remove string // temporary directory, which Stop removes
}

// Start starts the process with the given plugins and [workers.Builtins], and returns when the node takes turns.
// Errors: [busembed.ErrInUse], another process uses the directory; a [*llm.ModelError], the provider's list lacks the model.
func Start(ctx context.Context, cfg Config, plugins ...plugin.Factory) (l *Lash, err error) {
	if cfg.Provider == nil {
		return nil, errors.New("start embedded: Config.Provider is required: openai.New and anthropic.New make one, and scripted.New one that needs no key")
	}
	l = &Lash{}
	defer func() {
		if err != nil {
			l.Stop()
			l, err = nil, fmt.Errorf("start embedded: %w", err)
		}
	}()
	if err := cfg.checkModel(ctx); err != nil {
		return l, err
	}
	if cfg.StoreDir == "" {
		if l.remove, err = os.MkdirTemp("", "lash-"); err != nil {
			return l, err
		}
		cfg.StoreDir = l.remove
	}
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: workers.Builtins(), Factories: plugins})
	if err != nil {
		return l, err
	}
	if l.server, err = busembed.Start(busembed.Config{StoreDir: cfg.StoreDir, Profile: cfg.Profile}); err != nil {
		return l, advised(err)
	}
	if l.bus, err = bus.Open(ctx, bus.Config{Options: []nats.Option{l.server.InProcess()}, Free: l.server.Free, Logger: cfg.Logger, Keys: cfg.Keys}); err != nil {
		return l, err
	}
	keys, err := keyring.Open(keyring.Dir(cfg.StoreDir), time.Now())
	if err != nil {
		return l, fmt.Errorf("keys of the histories: %w", err)
	}
	node, err := workers.NewNode(workers.Config{
		Bus: l.bus, Signer: keys.Signer, Plugins: builder, Model: cfg.Model, Logger: cfg.Logger,
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

// checkModel is [llm.CheckModel] of the configured model. Where the list lacks it, or there is none, the first call shows
// whether it answers.
func (cfg *Config) checkModel(ctx context.Context) error {
	err := llm.CheckModel(ctx, cfg.Provider, cfg.Model, func(err error) {
		if cfg.Logger != nil {
			cfg.Logger.Warn("the list of the provider does not show the model", zap.String("model", cfg.Model), zap.Error(err))
		}
	})
	if err != nil {
		return fmt.Errorf("Config.Model: %w", err)
	}
	return nil
}

// advised adds the next step to an error of the server's start.
func advised(err error) error {
	switch {
	case errors.Is(err, busembed.ErrInUse):
		return fmt.Errorf("%w: stop that process, or set Config.StoreDir to another directory", err)
	case errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("%w: set Config.StoreDir to a directory that this process may make and write", err)
	}
	return err
}

// Ended has an element, the reason, once the connection to the server is closed for good, and not by Stop. From then on this process
// takes no turns and answers no request: stop it, and start another one. It is for use before Stop.
func (l *Lash) Ended() <-chan error { return l.bus.Ended() }

// stopGrace is how long running turns may continue after Stop.
const stopGrace = 10 * time.Second

// Stop takes no more turns, waits up to 10 s for those that run, and shuts down. The next start in the same directory
// continues the rest. A second call does nothing.
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
		_ = os.RemoveAll(l.remove) // the operating system cleans its temporary directories
	}
	l.node, l.bus, l.server, l.remove = nil, nil, nil, ""
}
