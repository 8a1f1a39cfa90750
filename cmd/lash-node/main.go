// Command lash-node runs nodes: demonstrations, a node that serves with the
// shipped plugins, and the measurements of the README. It also answers for a
// user when a node's session asks for an approval.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/cmd/internal/terminal"
	"github.com/lash-go/lash/cmd/internal/version"
	"github.com/lash-go/lash/cmd/lash-node/chat"
	"github.com/lash-go/lash/cmd/lash-node/config"
)

// Exit codes.
const (
	exitOK        = 0
	exitDifferent = 1 // a history is not what was recorded, an effect ran twice, an answer came too late, or what was asked about is not there
	exitFailed    = 2 // usage, input or infrastructure
)

type cli struct {
	Version kong.VersionFlag `help:"Print the version and the revision of the build."`

	Chat       chatCmd       `cmd:"" help:"Talk to a session in the terminal: on a node that runs, or on one that starts with it."`
	Demo       demoCmd       `cmd:"" help:"Run recorded conversations through the whole runtime and compare every history with its recording."`
	Bench      benchCmd      `cmd:"" help:"Measure lash beside raw NATS, in the same run."`
	Soak       soakCmd       `cmd:"" help:"Run a fleet of processes under faults, and hold every history against its recording."`
	Serve      serveCmd      `cmd:"" help:"Run a node until a signal: on an embedded server, or on an existing NATS."`
	ServeApart serveApartCmd `cmd:"" hidden:""`
	NodeApart  nodeApartCmd  `cmd:"" hidden:""`
	SoakChild  soakChildCmd  `cmd:"" hidden:""`

	Approvals approvalsCmd `cmd:"" help:"List the calls that wait for an approval."`
	Approve   approveCmd   `cmd:"" help:"Let a call run that waits for an approval, or refuse it."`
	Erase     eraseCmd     `cmd:"" help:"Erase a session for good."`
	Dead      deadCmd      `cmd:"" help:"Dead letters: sessions that no node can read. List, show, retry or drop them."`
	DemoEdit  demoEditCmd  `cmd:"" help:"Have a scripted model edit a file, once you approve it from another terminal."`
}

// streams are what a command talks through.
type streams struct {
	in       *os.File // nil: there is nothing to read
	out, err io.Writer
	screen   *os.File // what out prints on, for a program that draws; nil: none does
	env      func(string) string
}

// errDifferent makes the exit code 1.
var errDifferent = errors.New("histories differ from their recordings")

func main() {
	log.SetOutput(terminal.New(os.Stderr)) // for libraries that take no logger
	if err := hide(); err != nil {
		os.Exit(fail(&streams{err: os.Stderr}, fmt.Errorf("hide the environment from other processes: %w", err)))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], &streams{in: os.Stdin, out: os.Stdout, err: os.Stderr, screen: os.Stdout, env: os.Getenv})
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, raw *streams) (code int) {
	out, warn := terminal.New(raw.out), terminal.New(raw.err)
	defer out.Close()  //nolint:errcheck // nobody can be told
	defer warn.Close() //nolint:errcheck // nobody can be told
	return command(ctx, args, &streams{in: raw.in, out: out, err: warn, screen: raw.screen, env: raw.env})
}

// command runs a command, which prints through a terminal's filter.
func command(ctx context.Context, args []string, s *streams) (code int) {
	exited := -1
	parser, err := newParser(&cli{}, s, func(code int) { exited = code })
	if err != nil {
		return fail(s, err)
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help
	}
	if err != nil {
		return fail(s, fmt.Errorf("%w (see lash-node --help)", err))
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	err = parsed.Run(s)
	if errors.Is(err, errDifferent) || errors.Is(err, errSoaked) {
		return exitDifferent
	}
	switch {
	case errors.Is(err, errNothing) || errors.Is(err, errAnswered) || errors.Is(err, errNoLetter) || errors.Is(err, chat.ErrTurn):
		_ = fail(s, err)
		return exitDifferent
	case err != nil:
		return fail(s, err)
	}
	return exitOK
}

// newParser is what fills the commands' flags, of arguments and a configuration. Help exits.
func newParser(into *cli, s *streams, exit func(code int)) (*kong.Kong, error) {
	return kong.New(into,
		kong.Name("lash-node"),
		kong.Description("The runtime on which LLM-agent sessions live.\n\nTry: lash-node chat, or without a model: lash-node demo"),
		kong.Writers(s.out, s.err), kong.Exit(exit),
		kong.UsageOnError(), kong.Configuration(config.JSON), kong.Vars{"plugins": strings.Join(defaultPlugins(), ","), "version": version.Of("lash-node")},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
}

func fail(s *streams, err error) int {
	write(s.err, "lash-node: %s\n", terminal.Redacted(err.Error()))
	return exitFailed
}
