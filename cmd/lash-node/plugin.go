package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/cmd/internal/access"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/workers/external/stdio"
)

type pluginCmd struct {
	Run   pluginRunCmd   `cmd:"" help:"Run a program that reads and writes JSON lines as a plugin."`
	Check pluginCheckCmd `cmd:"" help:"Check a program that is a plugin, on a server and a node of its own."`
}

type pluginRunCmd struct {
	access.Flags

	Name    string   `arg:"" help:"The plugin's name, which the operator gave it."`
	Command []string `arg:"" help:"The program and its arguments, after --." placeholder:"COMMAND"`

	NATS         string        `name:"nats" help:"Servers, comma-separated URLs. Defaults to LASH_PLUGIN_NATS." placeholder:"URL"`
	Nkey         string        `help:"File with the seed of an nkey. Defaults to LASH_PLUGIN_NKEY." placeholder:"FILE" type:"path"`
	Instance     string        `help:"Id of this instance. Defaults to LASH_PLUGIN_INSTANCE, and to a new one." placeholder:"ID"`
	Env          []string      `help:"A variable of the program, NAME=VALUE, or NAME for the value that it has here. Repeatable. The program gets PATH, and no other variable." placeholder:"NAME[=VALUE]" sep:"none"`
	Dir          string        `help:"Working directory of the program. Defaults to this one." placeholder:"DIR" type:"path"`
	Sandbox      string        `help:"A command that runs the program, which follows it: words between spaces, without quotes. {cwd} stands for the working directory." placeholder:"COMMAND"`
	Idle         time.Duration `help:"End the program of a session after this time without a call, for plugins of scope session; 0: never." default:"30s"`
	RegisterWait time.Duration `help:"How long the program may take to its register line." default:"10s"`
	Rollback     bool          `help:"Make this version the current one, although a later one has replaced it."`
	Grace        time.Duration `help:"How long calls may run after a signal." default:"10s"`
}

func (*pluginRunCmd) Help() string {
	return "The program writes its register line, and answers calls: section \"Programs on stdin and stdout\" of session/plugin/wire/PROTOCOL.md has the lines. " +
		"What it writes to standard error goes to the log. It is started again when it has ended, before the next call; its process group is killed with this command.\n\n" +
		"The connection flags default to LASH_PLUGIN_NATS, LASH_PLUGIN_INBOX, LASH_PLUGIN_PREFIX, LASH_PLUGIN_NKEY, LASH_PLUGIN_TLS_CA, LASH_PLUGIN_TLS_CERT and LASH_PLUGIN_TLS_KEY.\n\n" +
		"Exit codes: 0 a signal or an operator ended it and all calls have ended, 2 it could not be done."
}

// Run runs the instance until a signal.
func (c *pluginRunCmd) Run(ctx context.Context, s *streams) error {
	log, err := s.Logger(zap.NewProductionConfig())
	if err != nil {
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
	adapter, err := stdio.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer adapter.Close()
	over := s.Waiting("a node to answer the registration")
	i, err := remote.Start(ctx, remote.Config{
		Conn: conn, Plugin: adapter, Prefix: c.Prefix, Instance: cmp.Or(c.Instance, s.Env("LASH_PLUGIN_INSTANCE")), Rollback: c.Rollback,
		Grace: c.Grace, Logger: log,
	})
	over()
	if err != nil {
		return err
	}
	s.Printf("plugin %s is registered", c.Name)
	err = i.Run(ctx)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause // the connection was closed
	}
	return err
}

// program is the configuration of the child.
func (c *pluginRunCmd) program(s *streams, log *zap.Logger) (stdio.Config, error) {
	cfg := stdio.Config{
		Plugin: c.Name, Command: c.Command, Sandbox: strings.Fields(c.Sandbox), Dir: c.Dir, Env: make(map[string]string),
		Idle: c.Idle, RegisterWait: c.RegisterWait, Logger: log,
	}
	if c.Idle < 0 || c.RegisterWait <= 0 || c.Grace <= 0 {
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
func (c *pluginRunCmd) connect(s *streams, end context.CancelCauseFunc) (*nats.Conn, error) {
	for _, v := range []struct {
		flag          *string
		name, without string
	}{
		{&c.NATS, "NATS", ""},
		{&c.Nkey, "NKEY", ""},
		{&c.TLSCA, "TLS_CA", ""},
		{&c.TLSCert, "TLS_CERT", ""},
		{&c.TLSKey, "TLS_KEY", ""},
		{&c.Inbox, "INBOX", access.DefaultInbox},
		{&c.Prefix, "PREFIX", access.DefaultPrefix},
	} {
		if *v.flag == v.without {
			*v.flag = cmp.Or(s.Env("LASH_PLUGIN_"+v.name), v.without)
		}
	}
	if c.NATS == "" {
		return nil, errors.New("--nats or LASH_PLUGIN_NATS: names the servers")
	}
	opts, err := c.Options(c.NATS, "", s.Err)
	if err != nil {
		return nil, err
	}
	if c.Nkey != "" {
		key, err := nats.NkeyOptionFromSeed(c.Nkey)
		if err != nil {
			return nil, fmt.Errorf("--nkey: %w", err)
		}
		opts = append(opts, key)
	}
	opts = append(opts, nats.Name("lash-plugin-"+c.Name), nats.CustomInboxPrefix(c.Inbox), nats.MaxReconnects(-1),
		nats.ClosedHandler(func(conn *nats.Conn) { end(cmp.Or(conn.LastError(), nats.ErrConnectionClosed)) }))
	conn, err := nats.Connect(c.NATS, opts...)
	if err != nil {
		return nil, c.Explain(err, access.Node, "do the servers run, and is this the plugin's key?")
	}
	return conn, nil
}
