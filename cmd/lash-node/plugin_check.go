package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/lash-go/lash/cmd/internal/plugincheck"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/session/transcript"
)

type pluginCheckCmd struct {
	Command []string `arg:"" optional:"" help:"The program and its arguments, after --." placeholder:"COMMAND"`

	Name    string        `help:"The plugin's name, which the program gets as LASH_PLUGIN. \"conformance\" has more checks: of the plugin that tests an SDK." default:"plugin"`
	Stdio   bool          `help:"The program reads and writes JSON lines, as with lash-node plugin run."`
	Timeout time.Duration `help:"Limit of one check." default:"10s"`
	Late    time.Duration `help:"How much later than the protocol says a message may come, for machines with other load." default:"500ms"`
	JSON    bool          `name:"json" help:"A line of JSON for each check."`
}

func (*pluginCheckCmd) Help() string {
	return "Starts a server and a node, and runs the program with LASH_PLUGIN, LASH_PLUGIN_NATS, LASH_PLUGIN_INBOX and LASH_PLUGIN_PREFIX. " +
		"Each check sends it messages of session/plugin/wire/PROTOCOL.md, and prints a line. What the program prints goes to standard error.\n\n" +
		"Exit codes: 0 all checks passed, 1 one failed, 2 they could not be run."
}

var errUnfit = program.Silent("a check failed")

// Run runs the checks.
func (c *pluginCheckCmd) Run(ctx context.Context, s *streams) error {
	if len(c.Command) == 0 {
		return errors.New("name the program after --, for example: lash-node plugin check -- ./my-plugin --verbose; with --stdio for one that reads and writes lines")
	}
	if c.Timeout <= 0 {
		return errors.New("--timeout: want some time")
	}
	if c.Late < 0 {
		return errors.New("--late: want no time, or some")
	}
	cfg := plugincheck.Config{Plugin: c.Name, Command: c.Command, Env: os.Environ(), Wait: c.Timeout, Late: c.Late, Log: s.Err}
	if c.Stdio {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		cfg.Command = append([]string{self, "plugin", "run", c.Name, "--register-wait", c.Timeout.String(), "--"}, c.Command...)
	}
	unfit := false
	err := plugincheck.Run(ctx, cfg, func(r plugincheck.Result) {
		unfit = unfit || !r.OK
		c.print(s, &r)
	})
	if err == nil && unfit {
		return errUnfit
	}
	return err
}

func (c *pluginCheckCmd) print(s *streams, r *plugincheck.Result) {
	switch {
	case c.JSON:
		line, _ := json.Marshal(r) // texts and numbers
		write(s.Out, "%s\n", line)
	case r.OK:
		write(s.Out, "ok      %s\n", r.Check)
	default:
		write(s.Out, "FAILED  %s: %s\n", r.Check, transcript.VisibleLine(r.Reason))
	}
}
