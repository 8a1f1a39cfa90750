// Package shell gives the model the tool run_command, which runs a command with bash and waits for its end.
//
// Guarantees: a command whose node died is never run again; its result tells the model that the outcome is unknown. A
// command runs in the environment of its session, or in one that the call names, see [plugin.Environment]; its result has neither
// the directory of that nor the values of its variables. It has its own process group, which is killed at the end of the call, at the time limit, when its turn is
// cancelled, and when the node dies. It begins where the gate judged its directory to be, or not at all. Its output is bounded, and its environment has none of the node's keys.
// Otherwise it has the rights of the node, so register the approval gate before it. The package imports
// session/plugin, events, events/localfile, builtin/gate and workers/internal/process.
package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/gate"
	"github.com/lash-go/lash/workers/internal/process"
)

// ID names the plugin in histories.
const ID = "shell"

// Config configures the plugin.
type Config struct {
	Dir       string        // directory of commands, required; that of the environment takes its place
	Timeout   time.Duration // of a command that sets none. Defaults to 2 min
	MaxTime   time.Duration // limit of the timeout that a command sets. Defaults to 10 min
	MaxOutput int           // bytes of output in the result. Defaults to 64 KiB
}

// Factory builds the plugin. The directory must exist.
func Factory(cfg Config) (plugin.Factory, error) {
	if info, err := os.Stat(cfg.Dir); err != nil {
		return nil, fmt.Errorf("shell: directory: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("shell: %s is no directory", cfg.Dir)
	}
	cfg.MaxTime = cmp.Or(max(cfg.MaxTime, 0), 10*time.Minute)
	cfg.Timeout = cmp.Or(max(cfg.Timeout, 0), 2*time.Minute)
	cfg.Timeout = min(cfg.Timeout, cfg.MaxTime)
	cfg.MaxOutput = cmp.Or(max(cfg.MaxOutput, 0), 64<<10)
	return plugin.Func(ID, func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{
			Name: "run_command", Effects: events.EffectsNonIdempotent, Serial: true,
			Description: "Runs a command with bash and waits for its end. Nothing that it starts outlives it.",
		}, shell{cfg}.runCommand)
		return nil
	}), nil
}

type shell struct{ Config }

type request struct {
	Command     string `json:"command"`
	Cwd         string `json:"cwd,omitempty" jsonschema:"a directory, absolute or relative to the one where commands run"`
	TimeoutMS   int64  `json:"timeout_ms,omitempty"`
	Environment string `json:"environment,omitempty" jsonschema:"where it runs, if not in the environment of the session: a name, as instructions or users give it"`
}

func (s shell) runCommand(ctx context.Context, call plugin.Call, in request) (plugin.Result, error) {
	where, err := call.Environment(in.Environment)
	if err != nil {
		return plugin.Result{}, err
	}
	root, longest := cmp.Or(where.Dir, s.Dir), cmp.Or(where.MaxTime, s.MaxTime)
	limit := min(cmp.Or(where.Timeout, s.Timeout), longest)
	switch {
	case strings.TrimSpace(in.Command) == "":
		return plugin.Result{}, plugin.InvalidArgs("command: is blank")
	case strings.Contains(in.Command, "\x00"):
		return plugin.Result{}, plugin.InvalidArgs("command: has a zero byte, which no program can be given: write it as \\0 where the command prints it")
	case in.TimeoutMS < 0 || in.TimeoutMS > longest.Milliseconds():
		return plugin.Result{}, plugin.InvalidArgs("timeout_ms: %d, want 0 to %d", in.TimeoutMS, longest.Milliseconds())
	case in.TimeoutMS > 0:
		limit = time.Duration(in.TimeoutMS) * time.Millisecond
	}
	place, err := gate.Cwd(root, in.Cwd, call)
	if err != nil {
		return plugin.Result{}, err
	}
	dir := place
	if !filepath.IsAbs(place) {
		dir = filepath.Join(root, place)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return plugin.Result{}, plugin.InvalidArgs("cwd: %s is no directory", in.Cwd)
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := process.Run(bounded, process.Command{
		Script: in.Command, Dir: root, Place: place, In: where,
		Show: func(text string) { call.Output(plugin.StreamStdout, text) },
	}, cmp.Or(where.MaxOutput, s.MaxOutput))
	switch {
	case context.Cause(ctx) == context.Canceled && err == nil: //nolint:errorlint // the causes of other ends may wrap it
		return plugin.Result{Outcome: events.OutcomeCancelled, Text: strings.TrimPrefix(strings.TrimSuffix(out.Text, "\n")+"\n[the command was cancelled, and killed]", "\n")}, nil
	case ctx.Err() != nil:
		return plugin.Result{}, ctx.Err()
	case errors.Is(err, localfile.ErrLink):
		return plugin.Result{}, gate.NotThere(root, "cwd", in.Cwd, place, err)
	case err != nil:
		return plugin.Result{}, err
	case out.Killed:
		return plugin.Result{}, &plugin.Failure{
			Class: plugin.ClassTimeout, Code: "command_timeout",
			Message: strings.TrimSpace(fmt.Sprintf("timeout_ms: the command took longer than %v, and was killed\n%s", limit, out.Text)),
		}
	case out.Err != nil:
		return plugin.Result{}, out.Err
	case out.Status != 0:
		return plugin.Result{Text: strings.TrimPrefix(fmt.Sprintf("%s\n[%s]", strings.TrimSuffix(out.Text, "\n"), out.How()), "\n")}, nil
	case out.Text == "":
		return plugin.Result{Text: "[no output]"}, nil
	}
	return plugin.Result{Text: out.Text}, nil
}
