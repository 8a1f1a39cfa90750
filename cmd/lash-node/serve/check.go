package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/internal/recheck"
	"github.com/lash-go/lash/session/archive"
	"github.com/lash-go/lash/workers/hookcheck"
)

// Check compares recorded sessions with the turn machine and the hooks of a program, with the flags of this process, and
// returns the exit code: 1 for a difference. It is `lash-node check` for programs that add plugins.
func Check(cfg Config) (code int) { return cfg.checkCLI(filepath.Base(os.Args[0])).Main() }

func (cfg Config) checkCLI(name string) *program.CLI {
	into := &struct{ CheckCommand }{}
	into.adds = cfg
	if node, err := cfg.cli(name, &standalone{}).Parser(&program.Streams{}, nil); err == nil { // its own errors are told when it runs
		for _, f := range node.Model.Flags {
			into.Others = append(into.Others, f.Name)
		}
	}
	return &program.CLI{Name: name, Description: "Compares recorded sessions with what this program decides.", Flags: into, Explain: connect.Advised}
}

// ErrDecidedOtherwise reports a recorded session that is decided in another way, or that cannot be checked.
var ErrDecidedOtherwise = program.Silent("this program decides in another way")

// CheckCommand is the command line of a check. Kong fills its flags.
type CheckCommand struct {
	Targets []string `arg:"" name:"file" help:"Archives of lash-replay export, or folders of them (*.lash)." type:"path" folders:""`
	PluginFlags
	connect.BodiesFlags
	program.Settings
	Locks  string `help:"File of what sessions cannot change, as lash-node serve has it." placeholder:"FILE" type:"path" setting:""`
	MaxMiB int64  `name:"max-mib" default:"1024" placeholder:"N" help:"Refuse an archive whose content is larger, in MiB: it is read into memory. Default: ${default}."`
	JUnit  string `name:"junit" placeholder:"FILE" help:"Also write the results to this file, as JUnit's XML: one test case a session." type:"path" writes:""`
	Whole  bool   `help:"A session with redacted payloads is one that cannot be checked."`
	JSON   bool   `name:"json" help:"Print one JSON object."`

	adds Config
}

// Help implements [kong.HelpProvider].
func (c *CheckCommand) Help() string {
	return `Decides every step of recorded turns again, with the turn machine and the plugins of this program, from the recorded inputs.
What they decide must equal what is recorded: the first difference of each session is shown with both sides. Give the flags of
the node: its plugins, its --root and its rules.

The hooks of the plugins run again, before turns and calls, at checkpoints and after turns. No tool runs and no model is asked.
What a hook does to sessions stays in a temporary store, in which nothing runs; what it does by itself, such as a request over
the network, it does here as well. Hooks after calls and around replies do not run: the history has only what they returned.

A session with redacted payloads is compared up to the first of them, and is no difference.

Run it before a new version is deployed, over a folder of archives that lash-replay export wrote. lash-replay check does the same for
the turn machine alone, and also reads stores and servers.

` + recheck.Questions + "\n" + c.adds.PluginsHelp()
}

// Run checks the archives, and prints each result when it is there.
func (c *CheckCommand) Run(ctx context.Context, s *program.Streams) error {
	files, err := program.Archives(c.Targets)
	if err != nil {
		return err
	}
	r := &recheck.Report{Results: []*recheck.Session{}, Whole: c.Whole}
	if err := c.checkAll(ctx, s, files, r); err != nil {
		return err
	}
	if c.JUnit != "" {
		if err := r.WriteJUnit(c.JUnit, s.Name+" check"); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	if c.JSON {
		out := json.NewEncoder(s.Out)
		out.SetIndent("", "  ")
		err = out.Encode(r)
	} else {
		_, err = fmt.Fprint(s.Out, r.Text())
	}
	if err == nil && r.Differences+r.Problems > 0 {
		err = ErrDecidedOtherwise
	}
	return err
}

// checkAll checks the archives one after the other, in one temporary store.
func (c *CheckCommand) checkAll(ctx context.Context, s *program.Streams, files []string, r *recheck.Report) error {
	keys, err := c.BodiesKeys()
	if err != nil {
		return err
	}
	b, closeStore, err := connect.Temporary(ctx, "lash-node", keys)
	if err != nil {
		return err
	}
	defer closeStore()
	hooks, err := c.hooks(s, b)
	if err != nil {
		return err
	}
	for i, file := range files {
		over := s.NoteWait("the check of %s, %d of %d", file, i+1, len(files))
		one := c.checkFile(ctx, b, hooks, file)
		over()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.Add(one)
		if !c.JSON {
			if _, err := fmt.Fprint(s.Out, one.Text()); err != nil {
				return err
			}
		}
	}
	r.Skipped = hooks.Skipped()
	return nil
}

// hooks are the plugins of the program, as a node with these flags has them.
func (c *CheckCommand) hooks(s *program.Streams, b *bus.Bus) (*hookcheck.Checker, error) {
	if c.MCP != "" {
		return nil, errors.New("--mcp: servers of tools have no hooks; leave it out")
	}
	node := &Command{PluginFlags: c.PluginFlags, Locks: c.Locks, adds: c.adds}
	if err := c.adds.check(); err != nil {
		return nil, err
	}
	stack, err := node.plugins(s)
	if err != nil {
		return nil, err
	}
	locks, err := node.locks()
	if err != nil {
		return nil, err
	}
	environments, err := node.environments()
	if err != nil {
		return nil, err
	}
	return hookcheck.New(hookcheck.Config{Bus: b, Plugins: stack, Locks: locks, Environments: environments, Logger: zap.NewNop()})
}

// checkFile checks one archive. One that cannot be checked is a result too, so that it does not hide others.
func (c *CheckCommand) checkFile(ctx context.Context, b *bus.Bus, hooks *hookcheck.Checker, file string) *recheck.Session {
	one := &recheck.Session{File: file}
	a, err := program.ReadArchive(file, c.MaxMiB)
	if err == nil {
		one.ID = a.Session
		a, err = one.BeforeRedacted(ctx, a)
	}
	if err == nil && one.Redacted == a.First && one.Redacted > 0 {
		return one
	}
	if err == nil {
		_, err = archive.Restore(ctx, b, a)
	}
	if err == nil {
		err = one.Run(ctx, b.Log(), b, hooks.Run)
	}
	if err != nil {
		one.Problem = err.Error()
	}
	return one
}
