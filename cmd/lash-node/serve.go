package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/cmd/internal/access"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/accesslog"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/anthropic"
	"github.com/lash-go/lash/workers/llm/openai"
	"github.com/lash-go/lash/workers/llm/scripted"
)

type serveCmd struct {
	Config kong.ConfigFlag `help:"Read flags from a JSON object, by their names. Flags on the command line win." placeholder:"FILE"`

	Store   string           `help:"Directory of the embedded server." default:".lash" placeholder:"DIR" type:"path"`
	Listen  string           `help:"Address at which the embedded server takes clients." default:"127.0.0.1:4222" placeholder:"HOST:PORT"`
	Profile busembed.Profile `help:"What an acknowledged append survives: interval or always." default:"interval" enum:"interval,always"`

	NATS string `name:"nats" help:"Run on existing servers instead of an embedded one." placeholder:"URL"`
	access.Flags
	Replicas int `help:"Replicas of every durable stream, with --nats: 1, 3 or 5. Where there are more already, that many." default:"1"`

	pluginFlags
	httpFlags

	Provider     string        `help:"Model provider of sessions that name none: openai (Chat Completions), openai-responses (the Responses API, with the same key), anthropic or scripted. Defaults to one whose key is in the environment." placeholder:"NAME"`
	Model        string        `help:"Model of sessions that name none." placeholder:"NAME"`
	Name         string        `help:"Of this node, the same in every run: it goes on at once with what its last run left. Defaults to the host's name." placeholder:"NAME"`
	Roles        []string      `help:"What this node does, of: ${enum}." default:"turn,tool,task,projector,archive,api" enum:"turn,tool,task,projector,archive,api"`
	Concurrency  concurrency   `help:"How much runs at once, by class: turn=N sessions, tool=N tool calls of other nodes' turns, task=N background tasks. A number alone is turn's." default:"turn=256,tool=256,task=1024" placeholder:"CLASS=N,..."`
	MaxQueued    int           `help:"Turns that may wait in one session, at most 4096; more are refused." default:"1024" placeholder:"N"`
	MaxSessions  int           `name:"max-sessions-per-caller" help:"Open sessions that may belong to one caller; more are refused. Closed and erased ones do not count. Give it to every node that serves. 0 is any number." default:"0" placeholder:"N"`
	MaxHot       int           `help:"Streams that the account may have before new sessions are refused. Negative leaves it to the server." default:"4000" placeholder:"N"`
	ArchiveAfter time.Duration `help:"How long a session has no work before its stream is archived; it comes back by itself. Negative keeps streams." default:"30m"`
	Scopes       string        `name:"nats-scopes" help:"File of what users of other NATS accounts may do, one a line: a user's name, and read, write or admin, or of read, write, approve, configure, command some with commas between; own behind that bounds the user to its own sessions and those that it has a grant of. Without it all may do everything but run commands." placeholder:"FILE" type:"path"`
	ForbidSelf   bool          `name:"forbid-self-approval" help:"Refuse a caller that approves a call of a turn that it asked for. Give it to every node that serves."`
	Locks        string        `help:"File of what sessions cannot change, for every caller: a JSON object, each field of which may be left out: {\"plugins\": [\"gate\"], \"providers\": [], \"models\": [\"gpt-*\"], \"protocols\": [\"standard\"], \"max_iterations\": 50, \"max_output_tokens\": 8000, \"least_retain\": \"720h\"}. Options of plugins that it names are this node's alone." placeholder:"FILE" type:"path"`
	Retain       time.Duration `help:"How long a session that does not say is kept after its last event, before it is erased. 0 is for ever." default:"0s"`
	Grace        time.Duration `help:"How long calls in flight may take to end after a signal. Turns are handed to another node with what they came to; a call that takes longer is cancelled." default:"10s"`
	Trace        string        `help:"Append a line of JSON for everything that sessions do to this file: turns, model calls, tool calls, what plugins trace. Never waits: lines that cannot be written are lost, counted and warned of." placeholder:"FILE" type:"path"`
	Debug        bool          `help:"Log every commit: what happened, not what was said."`
	telemetryFlags
}

func (c *serveCmd) Run(ctx context.Context, s *streams) error {
	log, err := c.logger(s)
	if err != nil {
		return err
	}
	if err := c.checkIdle(); err != nil {
		return err
	}
	plugins, err := c.plugins(s)
	if err != nil {
		return err
	}
	providers, err := c.providers(s)
	if err != nil {
		return err
	}
	if err := c.checkModel(ctx, s, providers[c.Provider]); err != nil {
		return err
	}
	scopes, err := c.natsScopes()
	if err != nil {
		return err
	}
	locks, err := c.locks()
	if err != nil {
		return err
	}
	b, closeBus, err := c.bus(ctx, s, log)
	if err != nil {
		return err
	}
	defer closeBus()
	trace, closeTrace, err := c.trace(log)
	if err != nil {
		return err
	}
	defer closeTrace()
	watched, err := c.watch(ctx, s, log)
	if err != nil {
		return err
	}
	defer watched.stop()
	requests, err := c.access(s, watched)
	if err != nil {
		return err
	}
	node, err := workers.NewNode(workers.Config{
		Bus: b, Providers: providers, Provider: c.Provider, Model: c.Model, Plugins: plugins, ArchiveAfter: c.ArchiveAfter, Retain: c.Retain, Logger: log,
		Roles: rolesOf(c.Roles), Concurrency: c.Concurrency.Turn, HeldTasks: c.Concurrency.Task, HeldTools: c.Concurrency.Tool, MaxQueued: c.MaxQueued,
		Trace: watched.trace(trace), Name: c.name(), Scopes: scopes, Locks: locks, Access: requests, ForbidSelfApproval: c.ForbidSelf,
		MaxSessionsPerCaller: c.MaxSessions,
	})
	if err != nil {
		return err
	}
	if err := watched.tell(b, node); err != nil {
		return err
	}
	return c.serve(ctx, s, node, watched, requests, log)
}

// bus opens the bus, and starts the server where that is embedded.
func (c *serveCmd) bus(ctx context.Context, s *streams, log *zap.Logger) (b *bus.Bus, stop func(), err error) {
	cfg, stopServer, err := c.server(s)
	if err != nil {
		return nil, nil, err
	}
	cfg.Logger, cfg.MaxHot = log, c.MaxHot
	cfg.Wait, cfg.Waiting = true, func(what string) { write(s.err, "lash-node: waiting: %s\n", what) }
	if b, err = bus.Open(ctx, cfg); err != nil {
		stopServer()
		if c.NATS != "" {
			err = c.Explain(err, "--nats URL names the servers")
		}
		return nil, nil, err
	}
	if has := b.Replicas(); has > c.Replicas {
		write(s.err, "lash-node: shared streams have %d replicas, this node was told %d: keeps %d\n", has, c.Replicas, has)
	}
	return b, func() {
		b.Close()
		stopServer()
	}, nil
}

// serve runs the node and its door until ctx ends, and stops them within the grace.
func (c *serveCmd) serve(ctx context.Context, s *streams, node *workers.Node, watched *watched, requests accesslog.Func, log *zap.Logger) error {
	door, err := c.openHTTP(ctx, s, node.Host(), requests, log)
	if err != nil {
		return err
	}
	if err := node.Start(ctx); err != nil {
		door.stop(ctx)
		return err
	}
	door.start()
	watched.answer(node, s)
	write(s.err, "lash-node: serving, provider %s; stop with ctrl-c\n", c.Provider)
	<-ctx.Done()
	write(s.err, "lash-node: handing running turns over, calls in flight may take %s\n", c.Grace)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Grace)
	defer cancel()
	var stopping sync.WaitGroup
	stopping.Go(func() { door.stop(grace) })
	node.Stop(grace)
	stopping.Wait()
	return nil
}

// name is the node's, cut to what leaves room for its runs' own; empty where the host has none.
func (c *serveCmd) name() string {
	if c.Name != "" {
		return c.Name
	}
	host, err := os.Hostname()
	if err != nil || host == "" {
		return ""
	}
	name := tokenOf(host)
	return name[:min(len(name), workers.MaxName)]
}

// traceWait is how long what was traced last may take to be written.
const traceWait = 2 * time.Second

// trace is where the node's trace goes; nil without one.
func (c *serveCmd) trace(log *zap.Logger) (trace session.TraceFunc, stop func(), err error) {
	if c.Trace == "" {
		return nil, func() {}, nil
	}
	file, err := workers.OpenTraceFile(c.Trace, log)
	if err != nil {
		return nil, nil, fmt.Errorf("--trace: %w", err)
	}
	return file.Trace, func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceWait) // the command's own has ended
		defer cancel()
		if err := file.Close(ctx); err != nil {
			log.Warn("trace", zap.Error(err))
		}
	}, nil
}

// logger writes through the terminal's filter: what is logged may quote a server or a history.
func (c *serveCmd) logger(s *streams) (*zap.Logger, error) {
	cfg := zap.NewProductionConfig()
	if c.Debug {
		cfg.Level.SetLevel(zap.DebugLevel)
		cfg.Sampling = nil
	}
	return logTo(s, cfg)
}

// logTo is a log that goes where the program's words go, and is filtered there.
func logTo(s *streams, cfg zap.Config) (*zap.Logger, error) {
	core := zapcore.NewCore(zapcore.NewJSONEncoder(cfg.EncoderConfig), zapcore.AddSync(s.err), cfg.Level)
	if cfg.Sampling != nil {
		core = zapcore.NewSamplerWithOptions(core, time.Second, cfg.Sampling.Initial, cfg.Sampling.Thereafter)
	}
	return cfg.Build(zap.WrapCore(func(zapcore.Core) zapcore.Core { return core }), zap.ErrorOutput(zapcore.AddSync(s.err)))
}

// access logs and counts each request: the log of the node's work leaves lines out where there are many.
func (c *serveCmd) access(s *streams, watched *watched) (accesslog.Func, error) {
	cfg := zap.NewProductionConfig()
	cfg.Sampling, cfg.DisableCaller = nil, true
	log, err := logTo(s, cfg)
	if err != nil {
		return nil, err
	}
	return accesslog.Both(accesslog.Log(log), watched.metrics.Access), nil
}

// server is where the bus is: an embedded server that it starts, or existing ones.
func (c *serveCmd) server(s *streams) (cfg bus.Config, stop func(), err error) {
	cfg = bus.Config{URL: c.NATS, Prefix: c.Prefix, Inbox: c.Inbox, Replicas: c.Replicas}
	if c.NATS != "" {
		cfg.Options, err = c.Options(c.NATS, c.Store, s.err)
		write(s.err, "lash-node: durability as %s keeps it, %d replicas\n", bus.Redacted(c.NATS), c.Replicas)
		return cfg, func() {}, err
	}
	server, err := c.embedded(s)
	if err != nil {
		return cfg, nil, err
	}
	cfg.Options = []nats.Option{server.InProcess()}
	return cfg, server.Stop, nil
}

// embedded starts a server in this process.
func (c *serveCmd) embedded(s *streams) (*busembed.Server, error) {
	if c.Replicas != 1 {
		return nil, fmt.Errorf("--replicas %d: an embedded server has one; use --nats with a cluster", c.Replicas)
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
	server, err := busembed.Start(busembed.Config{StoreDir: c.Store, Profile: c.Profile, Listen: true, Keyed: true, Host: host, Port: int(port)})
	if err != nil {
		return nil, err
	}
	write(s.err, "lash-node: embedded server at %s, store %s, durability %s: %s\n", server.URL(), c.Store, c.Profile, c.Profile.Promise())
	return server, nil
}

// providers are all whose key is in the environment, and the scripted one.
func (c *serveCmd) providers(s *streams) (map[string]llm.Provider, error) {
	list := map[string]llm.Provider{"scripted": scripted.New(noModel)}
	choice := "scripted"
	if key := s.env("ANTHROPIC_API_KEY"); key != "" {
		p, err := anthropic.New(anthropic.Config{APIKey: key, BaseURL: s.env("ANTHROPIC_BASE_URL")})
		if err != nil {
			return nil, err
		}
		list["anthropic"], choice = p, "anthropic"
	}
	key, base := s.env("OPENAI_API_KEY"), s.env("OPENAI_BASE_URL")
	if key != "" || base != "" {
		p, err := openai.New(openai.Config{APIKey: key, BaseURL: base})
		if err != nil {
			return nil, err
		}
		r, err := openai.NewResponses(openai.Config{APIKey: key, BaseURL: base})
		if err != nil {
			return nil, err
		}
		list["openai"], list["openai-responses"], choice = p, r, "openai"
	}
	if c.Provider == "" {
		c.Provider = choice
	}
	if list[c.Provider] == nil {
		return nil, fmt.Errorf("--provider %s: its key is not in the environment (OPENAI_API_KEY or OPENAI_BASE_URL, ANTHROPIC_API_KEY)", c.Provider)
	}
	return list, nil
}
