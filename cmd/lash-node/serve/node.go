package serve

import (
	"context"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/external"
	"github.com/lash-go/lash/workers/mcp"
)

// Node is a serving node, until Stop.
type Node struct {
	node     *workers.Node
	bus      *bus.Bus
	external *external.Plugins // nil: none
	mcp      *mcp.Servers
	server   *busembed.Server // nil: external servers
	http     *httpServer      // nil: none
	watched  *watched
	closers  []func() // of the opened resources, in that order
	started  bool
	used     bool   // it did not start, and its store has sessions
	signing  string // says with which key heads are signed
	grace    time.Duration
}

// Start starts a node for another command. set changes flags; the others have their defaults. The caller handles
// signals.
func Start(ctx context.Context, s *program.Streams, cfg Config, set func(flags *Command)) (*Node, error) {
	c, err := cfg.parsed(s)
	if err != nil {
		return nil, err
	}
	set(c)
	return c.start(ctx, s)
}

// parsed are the flags of a command line.
func (cfg Config) parsed(s *program.Streams, args ...string) (*Command, error) {
	into := &standalone{}
	parser, err := cfg.cli("lash-node serve", into).Parser(s, func(int) {})
	if err == nil {
		_, err = parser.Parse(args)
	}
	return &into.Command, err
}

// Host executes the operations of clients on the node.
func (n *Node) Host() *session.Host { return n.node.Host() }

// Clients is the number of connections of other programs to the node's embedded server.
func (n *Node) Clients() int {
	if n.server == nil {
		return 0
	}
	return n.server.Clients() - n.bus.Connections() // the connections of this process
}

// Stop returns running turns to the queue, waits at most the setting grace for running calls, and closes everything.
func (n *Node) Stop() {
	ctx, cancel := context.WithTimeout(context.Background(), n.grace) // the command's context has usually ended
	defer cancel()
	var stopping sync.WaitGroup
	stopping.Go(func() { n.http.stop(ctx) })
	n.node.Stop(ctx)
	stopping.Wait()
	n.close()
}

// hasSessions reports whether the store may have a session: other programs may have made one while the node started.
func (n *Node) hasSessions() bool {
	if n.server == nil {
		return false
	}
	if n.bus == nil { // it cannot be read, and the server has listened
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), n.grace) // the command's context may have ended
	defer cancel()
	for range n.bus.Hot(ctx) { //nolint:errcheck // what cannot be read may be a session
		return true
	}
	for range n.bus.Archived(ctx) { //nolint:errcheck // likewise
		return true
	}
	return false
}

// stopServer stops the embedded server. A start that failed leaves no new store directory without sessions behind.
func (n *Node) stopServer() {
	if n.started || n.used {
		n.server.Stop()
		return
	}
	n.server.Discard()
}

func (n *Node) close() {
	for _, end := range slices.Backward(n.closers) {
		end()
	}
}

// start checks all flags, opens what they name, and starts the node.
func (c *Command) start(ctx context.Context, s *program.Streams) (*Node, error) {
	log, err := c.logger(s)
	if err != nil {
		return nil, err
	}
	cfg, err := c.checked(ctx, s, log)
	if err != nil {
		return nil, err
	}
	n := &Node{grace: c.Grace}
	if err := c.startNode(ctx, s, n, cfg); err != nil {
		n.used = n.hasSessions()
		n.close()
		return nil, err
	}
	return n, nil
}

// startNode opens the resources of a node, and starts it. n's closers have every opened resource, also after an error.
func (c *Command) startNode(ctx context.Context, s *program.Streams, n *Node, cfg workers.Config) (err error) {
	if err := c.open(ctx, s, n, &cfg); err != nil {
		return err
	}
	if err := c.startExternal(ctx, s, n, &cfg); err != nil {
		return err
	}
	if n.node, err = workers.NewNode(cfg); err != nil {
		return err
	}
	if err := n.servePlugins(&cfg); err != nil {
		return err
	}
	if err := n.watched.addMetrics(n.bus, n.node, n.external); err != nil {
		return err
	}
	if c.Memory > 0 && os.Getenv("GOMEMLIMIT") == "" { // the runtime's own
		debug.SetMemoryLimit(int64(c.Memory) + besideSessions)
	}
	if n.http, err = c.openHTTP(ctx, s, httpapi.Config{Service: n.Host(), Memory: n.node.Memory(), Access: cfg.Access, Refused: n.watched.refusedConnection, Logger: cfg.Logger, Prices: n.watched.prices, Redactions: n.bus.Redactions}, cfg.Scopes); err != nil {
		return err
	}
	if err = c.startMCP(ctx, s, n, cfg.Logger); err == nil { // before turns, which may go on with calls of its servers
		err = n.node.Start(ctx)
	}
	if errors.As(err, new(*jetstream.APIError)) {
		err = c.Explain(err, connect.Node, "")
	}
	if err != nil {
		n.http.stop(ctx)
		return err
	}
	n.started = true
	if room, limit := n.bus.Room(ctx); room == 0 {
		s.Printf("no room for a new session: the account has its limit of %d streams (max_streams of the servers, or the setting max-hot); each session that is not archived has one", limit)
	}
	n.http.start()
	n.watched.serve(n.node, n.lacks, s)
	return nil
}

// besideSessions is about the memory that a node needs beside what is said in sessions, in bytes. The collector of garbage runs more often
// above the sum.
const besideSessions = 200 << 20

// checked is the node's configuration, as far as flags alone determine it.
func (c *Command) checked(ctx context.Context, s *program.Streams, log *zap.Logger) (cfg workers.Config, err error) {
	cfg = workers.Config{
		Logger:       log,
		ArchiveAfter: c.ArchiveAfter, Retain: c.Retain, Roles: rolesOf(c.Roles), Concurrency: c.Concurrency.Turn, TaskConcurrency: c.Concurrency.Task,
		ToolConcurrency: c.Concurrency.Tool, ModelSilence: c.Silence.ModelSilence, MaxQueued: c.MaxQueued, Memory: int64(c.Memory), Name: c.name(), ForbidSelfApproval: c.ForbidSelf, MaxSessionsPerCaller: c.MaxSessions, MaxStoredPerCaller: int64(c.MaxStored),
	}
	if err = errors.Join(c.adds.check(), c.checkIdle(), c.externalPlugins(), c.mcpServers(s)); err != nil {
		return cfg, err
	}
	if c.stack, err = c.plugins(s); err != nil {
		return cfg, err
	}
	if cfg.Locks, err = c.locks(); err != nil {
		return cfg, err
	}
	if cfg.Environments, err = c.environments(); err == nil {
		err = checkByCall(cfg.Environments, &cfg.Locks)
	}
	if err != nil {
		return cfg, err
	}
	if cfg.Filter, err = c.filter(); err != nil {
		return cfg, err
	}
	if cfg.Providers, err = c.providers(s, &cfg.Locks); err != nil {
		return cfg, err
	}
	cfg.Provider, cfg.Model, cfg.ModelRetry.For = c.Provider, c.Model, c.ModelRetry
	if err = c.checkModel(ctx, s, cfg.Providers[c.Provider], &cfg.Locks); err != nil {
		return cfg, err
	}
	if err = c.ofLocks(cfg.Locks.CheckOwn(c.Provider, c.Model)); err != nil {
		return cfg, err
	}
	cfg.CheckModel = (&modelLists{log: cfg.Logger, locks: cfg.Locks, providers: cfg.Providers, provider: c.Provider, lists: make(map[string]modelList)}).check
	cfg.Scopes, err = c.natsScopes()
	return cfg, err
}

// open opens the bus, the trace and the telemetry.
func (c *Command) open(ctx context.Context, s *program.Streams, n *Node, cfg *workers.Config) (err error) {
	if err := c.openBus(ctx, s, n, cfg.Logger); err != nil {
		return err
	}
	cfg.Bus = n.bus
	trace, closeTrace, err := c.trace(cfg.Logger)
	if err != nil {
		return err
	}
	n.closers = append(n.closers, closeTrace)
	if n.watched, err = c.watch(ctx, s, cfg.Logger); err != nil {
		return err
	}
	n.closers = append(n.closers, n.watched.stop)
	if err := c.sign(n, cfg); err != nil {
		return err
	}
	cfg.Trace = n.watched.trace(trace)
	cfg.Access, err = c.access(s, n.watched)
	return err
}

// name is the node's name, cut so that a suffix for each run fits. It is empty where the machine has no host name.
func (c *Command) name() string {
	if c.Name != "" {
		return c.Name
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return ""
	}
	name := events.TokenOf(host)
	return name[:min(len(name), workers.MaxName)]
}
