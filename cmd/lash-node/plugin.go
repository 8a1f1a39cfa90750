package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/workers/external/stdio"
)

type pluginCmd struct {
	Run   pluginRunCmd   `cmd:"" help:"Run a program that reads and writes JSON lines as a plugin."`
	Check pluginCheckCmd `cmd:"" help:"Check a program that is a plugin, on a server and a node of its own."`
}

type pluginRunCmd struct {
	connect.Flags

	Name    string   `arg:"" help:"The plugin's name, which the operator gave it."`
	Command []string `arg:"" help:"The program and its arguments, after --." placeholder:"COMMAND"`

	Connection   string         `help:"File with the servers and the plugin's credentials: plugins/NAME.json of an embedded server's --store, or one as in OPERATING.md. In place of the other connection flags. Defaults to LASH_PLUGIN_CONNECTION." placeholder:"FILE" type:"path"`
	NATS         string         `name:"nats" help:"Servers, comma-separated URLs. Defaults to LASH_PLUGIN_NATS." placeholder:"URL"`
	Nkey         string         `help:"File with the seed of an nkey. Defaults to LASH_PLUGIN_NKEY." placeholder:"FILE" type:"path"`
	Instance     string         `help:"Begins the id of this instance, at most 51 characters; each start adds a random part. Defaults to LASH_PLUGIN_INSTANCE." placeholder:"NAME"`
	Env          []string       `help:"A variable of the program, NAME=VALUE, or NAME for the value that it has here. Repeatable. The program gets PATH, and no other variable." placeholder:"NAME[=VALUE]" sep:"none"`
	Dir          string         `help:"Working directory of the program. Defaults to this one." placeholder:"DIR" type:"path"`
	Sandbox      string         `help:"A command that runs the program, which follows it: words between spaces, without quotes. {cwd} stands for the working directory. Without one the program can read what this user can, with the plugin's key: as root, \"setpriv --reuid=USER --regid=GROUP --clear-groups\" makes it another user." placeholder:"COMMAND"`
	Idle         *time.Duration `help:"End the program of a session after this time without a call, for plugins of scope session; 0: never. Defaults to 30s."`
	RegisterWait *time.Duration `help:"How long the program may take to its register line. Defaults to 10s."`
	Rollback     bool           `help:"Make this version the current one, although a later one has replaced it."`
	Grace        time.Duration  `help:"How long calls may run after a signal." default:"10s"`
}

func (*pluginRunCmd) Help() string {
	return "The program writes its register line, and answers calls: section \"Programs on stdin and stdout\" of session/plugin/wire/PROTOCOL.md has the lines. " +
		"What it writes to standard error goes to the log. It is started again when it has ended, before the next call; its process group is killed with this command.\n\n" +
		"--connection FILE is all that an embedded server's plugin needs. Without it, the connection flags default to LASH_PLUGIN_NATS, LASH_PLUGIN_INBOX, LASH_PLUGIN_PREFIX, LASH_PLUGIN_NKEY, LASH_PLUGIN_TLS_CA, LASH_PLUGIN_TLS_CERT and LASH_PLUGIN_TLS_KEY.\n\n" +
		"Exit codes: 0 a signal or an operator ended it and all calls have ended, 2 it could not be done."
}

// Run runs the instance until a signal.
func (c *pluginRunCmd) Run(ctx context.Context, s *streams) error {
	log, err := s.Logger(zap.NewProductionConfig())
	if err != nil {
		return err
	}
	if err := c.setInstance(s); err != nil {
		return err
	}
	cfg, err := c.program(s, log)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	conn, err := c.connect(s, end)
	if err != nil {
		return err
	}
	defer conn.Close()
	err = c.serve(ctx, s, conn, cfg)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return c.Explain(cause, connect.Node, unreachable) // the connection was closed
	}
	if errors.Is(err, context.Canceled) {
		return nil // a signal ended it before it was registered
	}
	return err
}

// setInstance fills in the name of the instance, and checks it.
func (c *pluginRunCmd) setInstance(s *streams) error {
	from := "--instance"
	if c.Instance == "" {
		from, c.Instance = "LASH_PLUGIN_INSTANCE", s.Env("LASH_PLUGIN_INSTANCE")
	}
	return remote.CheckInstance(from, c.Instance)
}

// serve runs the instance until ctx ends.
func (c *pluginRunCmd) serve(ctx context.Context, s *streams, conn *nats.Conn, cfg stdio.Config) error {
	adapter, err := stdio.New(ctx, cfg)
	if err != nil {
		return fmt.Errorf("%w: lash-node plugin run --help says what a program writes", err)
	}
	defer adapter.Close()
	over := s.NoteWait("a node to answer the registration")
	i, err := remote.Start(ctx, remote.Config{
		Conn: conn, Plugin: adapter, Prefix: c.Prefix, Instance: c.Instance, Rollback: c.Rollback,
		Grace: c.Grace, Logger: cfg.Logger,
	})
	over()
	if err != nil {
		return err
	}
	s.Printf("plugin %s is registered", c.Name)
	return i.Run(ctx)
}

// unreachable is the advice where the servers refuse the plugin.
const unreachable = "is this the plugin's key?"

// program is the configuration of the child.
func (c *pluginRunCmd) program(s *streams, log *zap.Logger) (stdio.Config, error) {
	cfg := stdio.Config{
		Plugin: c.Name, Command: c.Command, Sandbox: strings.Fields(c.Sandbox), Dir: c.Dir, Env: make(map[string]string),
		Idle: 30 * time.Second, RegisterWait: 10 * time.Second, Logger: log,
	}
	if c.Idle != nil {
		cfg.Idle = *c.Idle
	}
	if c.RegisterWait != nil {
		cfg.RegisterWait = *c.RegisterWait
	}
	if cfg.Idle < 0 || cfg.RegisterWait <= 0 || c.Grace <= 0 {
		return cfg, errors.New("--idle, --register-wait and --grace: want no negative time, and more than 0 for the last two")
	}
	for _, entry := range c.Env {
		name, value, given := strings.Cut(entry, "=")
		if !given {
			value = s.Env(name)
		}
		cfg.Env[name] = value
	}
	return cfg, nil
}

// connect connects as the plugin. end is called if the servers close the connection for good.
func (c *pluginRunCmd) connect(s *streams, end context.CancelCauseFunc) (conn *nats.Conn, err error) {
	from := "--connection"
	if c.Connection == "" && c.NATS+c.Nkey == "" && !c.Named() {
		from, c.Connection = "LASH_PLUGIN_CONNECTION", s.Env("LASH_PLUGIN_CONNECTION")
	}
	if c.Connection != "" && (c.NATS+c.Nkey != "" || c.Named() || c.Inbox != connect.DefaultInbox) {
		return nil, errors.New("--connection names the servers and the credentials: without --nats, --nkey, --creds, --tls-* and --inbox")
	}
	if err := c.fromEnv(s); err != nil {
		return nil, err
	}
	if c.NATS+c.Connection == "" {
		return nil, errors.New("--connection, --nats, LASH_PLUGIN_CONNECTION or LASH_PLUGIN_NATS is missing: it names the servers")
	}
	opts, err := c.Options(c.NATS, "", s.Err)
	if err != nil {
		return nil, err
	}
	opts = append(opts, nats.Name("lash-plugin-"+c.Name),
		nats.ClosedHandler(func(conn *nats.Conn) { end(cmp.Or(conn.LastError(), nats.ErrConnectionClosed)) }))
	if c.Connection != "" {
		if err := program.CheckFile(c.Connection); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		conn, err = remote.Connect(c.Connection, opts...)
		if _, wrong := errors.AsType[*events.FieldError](err); wrong || errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
	} else {
		if c.Nkey != "" {
			if err := program.CheckFile(c.Nkey); err != nil {
				return nil, fmt.Errorf("--nkey: %w", err)
			}
			key, err := nats.NkeyOptionFromSeed(c.Nkey)
			if err != nil {
				return nil, fmt.Errorf("--nkey: %w", err)
			}
			opts = append(opts, key)
		}
		conn, err = remote.Dial(c.NATS, append(opts, nats.CustomInboxPrefix(c.Inbox))...)
	}
	if err != nil {
		return nil, c.Explain(err, connect.Node, unreachable)
	}
	return conn, nil
}

// fromEnv fills in the connection flags that are not given. With --connection that is the prefix only. A variable that names a file must
// name a regular one.
func (c *pluginRunCmd) fromEnv(s *streams) error {
	for _, v := range []struct {
		flag          *string
		name, without string
		file          bool
	}{
		{&c.Prefix, "PREFIX", events.DefaultPrefix, false},
		{&c.NATS, "NATS", "", false},
		{&c.Nkey, "NKEY", "", true},
		{&c.TLSCA, "TLS_CA", "", true},
		{&c.TLSCert, "TLS_CERT", "", true},
		{&c.TLSKey, "TLS_KEY", "", true},
		{&c.Inbox, "INBOX", connect.DefaultInbox, false},
	} {
		if *v.flag == v.without {
			*v.flag = cmp.Or(s.Env("LASH_PLUGIN_"+v.name), v.without)
			if v.file && *v.flag != "" {
				if err := program.CheckFile(*v.flag); err != nil {
					return fmt.Errorf("LASH_PLUGIN_%s: %w", v.name, err)
				}
			}
		}
		if c.Connection != "" {
			return nil
		}
	}
	return nil
}
