package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/cmd/internal/terminal"
	"github.com/lash-go/lash/cmd/internal/version"
)

// Exit codes.
const (
	exitOK         = 0
	exitViolations = 1
	exitError      = 2
)

// errViolations: the command found violations and has printed them.
var errViolations = errors.New("violations were found")

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// env is the environment of the commands.
type env struct {
	source *sourceFlags
	stdout *terminal.Writer
	stderr *terminal.Writer
	color  bool             // stdout is a terminal with colours
	now    func() time.Time // for progress only
}

// cli is the command line.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and the revision of the build."`
	sourceFlags

	Ls     lsCmd     `cmd:"" help:"List sessions."`
	Show   showCmd   `cmd:"" help:"Show a session's conversation."`
	Events eventsCmd `cmd:"" help:"List a session's events."`
	Verify verifyCmd `cmd:"" help:"Check histories: read them from their beginning and report every violation."`
	Export exportCmd `cmd:"" help:"Write a session to an archive file."`
	Stats  statsCmd  `cmd:"" help:"Count turns, calls, events and bytes of sessions."`
}

const description = `Read, replay and verify the histories of sessions.

A history comes from exactly one source: a running server (--nats), the store
of a node's embedded server (--store), or an archive (--file). Without any of these the
argument of a command names an archive file; where there is none of that name, or no argument, the store
in .lash is read, as lash-node makes it. Nothing is changed anywhere.

Exit codes: 0 all is well, 1 violations were found, 2 it could not be done.`

func run(args []string, _ io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	buffer := bufio.NewWriter(stdout)
	e := &env{stdout: terminal.New(buffer), stderr: terminal.New(stderr), now: time.Now}
	defer e.stderr.Close() //nolint:errcheck // there is no other output for the error
	e.color = isTerminal(stdout) && getenv("NO_COLOR") == ""
	err := e.run(ctx, args)
	if flushErr := errors.Join(e.stdout.Close(), buffer.Flush()); err == nil && flushErr != nil {
		err = fmt.Errorf("write output: %w", flushErr)
	}
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errViolations):
		return exitViolations
	}
	e.warnf("%s\n", terminal.Redacted(err.Error()))
	return exitError
}

// printf writes to stdout. The buffer keeps an error, and run reports it.
func (e *env) printf(format string, args ...any) { _, _ = fmt.Fprintf(e.stdout, format, args...) }

func (e *env) println(args ...any) { _, _ = fmt.Fprintln(e.stdout, args...) }

// warnf writes to stderr. There is no other output for its errors.
func (e *env) warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(e.stderr, "lash-replay: "+format, args...)
}

func (e *env) run(ctx context.Context, args []string) error {
	var flags cli
	helped := false
	parser, err := kong.New(&flags,
		kong.Name("lash-replay"), kong.Description(description), kong.Bind(e), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Writers(e.stdout, e.stderr), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Exit(func(int) { helped = true }), kong.Vars{"version": version.Of("lash-replay")},
	)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return nil
	case err != nil:
		return fmt.Errorf("%w (lash-replay --help explains)", err)
	}
	e.source = &flags.sourceFlags
	return parsed.Run()
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
