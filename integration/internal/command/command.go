// Package command is the command line of the programs under integration: flags, signals, exit codes, and processes of their own.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes.
const (
	exitFound  = 1
	exitFailed = 2 // usage, input or infrastructure
)

// Found is the error of a run that has ended and found what must not be.
type Found string

// Error implements error.
func (f Found) Error() string { return string(f) }

// Program is a program of this repository's developers.
type Program struct {
	Name, Description string
	// Flags is a pointer to the structure that kong fills.
	Flags interface {
		Run(ctx context.Context) error
	}
	// Apart is what processes do that [Again] has started, by their first argument.
	Apart map[string]func(ctx context.Context, args []string) error
}

// Main runs a command line, whose context ends by SIGINT and SIGTERM, and returns the exit code. --help exits.
func (p *Program) Main(args []string) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := p.run(ctx, args)
	if err == nil {
		return 0
	}
	_, _ = fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
	if _, found := errors.AsType[Found](err); found {
		return exitFound
	}
	return exitFailed
}

func (p *Program) run(ctx context.Context, args []string) error {
	if len(args) > 0 && p.Apart[args[0]] != nil {
		return p.Apart[args[0]](ctx, args[1:])
	}
	flags := kong.Must(p.Flags, kong.Name(p.Name), kong.Description(p.Description), kong.ConfigureHelp(kong.HelpOptions{Compact: true}))
	if _, err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w (see --help)", err)
	}
	return p.Flags.Run(ctx)
}

// Again is this program as another process, whose arguments begin with one of [Program.Apart].
func Again(ctx context.Context, args ...string) (*exec.Cmd, error) {
	self, err := os.Executable()
	return exec.CommandContext(ctx, self, args...), err //nolint:gosec // this program
}

// PrintJSON prints an object.
func PrintJSON(v any) error {
	enc := json.NewEncoder(os.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
