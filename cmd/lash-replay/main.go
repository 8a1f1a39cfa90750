package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
	"github.com/lash-go/lash/cmd/internal/terminal"
)

// Exit codes.
const (
	exitViolations = program.Different
	exitError      = program.Failed
)

// errViolations: the command found violations and has printed them.
var errViolations = program.Silent("violations were found")

func main() { os.Exit(line(&cli{}).Main()) }

// run is [program.CLI.Run] of a new command line.
func run(ctx context.Context, args []string, s *program.Streams) (code int) {
	return line(&cli{}).Run(ctx, args, s)
}

func line(into *cli) *program.CLI {
	return &program.CLI{
		Name: "lash-replay", Description: description, Flags: into, BareHelps: true, Buffered: true,
		Explain: connect.Advised,
	}
}

// env is the environment of the commands.
type env struct {
	*program.Streams
	source *sourceFlags
	output *outputFlags
	color  func(code string) error // writes an ANSI colour code to Out; nil: no colours
	now    func() time.Time
	quiet  bool // no counts of what is done
}

// cli is the command line.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and the revision of the build."`
	sourceFlags
	outputFlags

	Ls     lsCmd     `cmd:"" help:"List sessions."`
	Show   showCmd   `cmd:"" help:"Show a session's conversation."`
	Turn   turnCmd   `cmd:"" help:"Show one turn: its prompts, hooks, calls and results."`
	Events eventsCmd `cmd:"" help:"List a session's events."`
	Tree   treeCmd   `cmd:"" help:"Show a session's branches and frames as a graph."`
	Search searchCmd `cmd:"" help:"Find turns in all sessions."`
	Tail   tailCmd   `cmd:"" help:"List a session's events as they happen."`
	Diff   diffCmd   `cmd:"" help:"Compare two points, branches or sessions."`
	UI     uiCmd     `cmd:"" name:"ui" help:"Show sessions in a web page."`
	Serve  serveCmd  `cmd:"" help:"Answer what auditors read, as their own account needs it."`
	Verify verifyCmd `cmd:"" help:"Check histories: read them from their beginning and report every violation."`
	Check  checkCmd  `cmd:"" help:"Decide recorded turns again with this build, and report the first difference."`
	Export exportCmd `cmd:"" help:"Write sessions to files: archives, or another format."`
	Stats  statsCmd  `cmd:"" help:"Count turns, calls, events and bytes of sessions."`
}

const description = `Read, replay and verify the histories of sessions.

A history comes from exactly one source: a running server (--nats), the store
of a node's embedded server (--store), or an archive (--file). Without any of these the
argument of a command names an archive file; where there is none of that name, or no argument, the store
in .lash is read, as lash-node makes it. Nothing is changed anywhere.

Exit codes: 0 all is well, 1 violations or differences were found, 2 it could not be done.`

// AfterApply binds the environment, which the commands take.
func (c *cli) AfterApply(k *kong.Context, s *program.Streams) error { //nolint:unparam // kong wants an error
	e := &env{Streams: s, source: &c.sourceFlags, output: &c.outputFlags, now: time.Now}
	if out, ok := s.Out.(*terminal.Writer); ok {
		e.colorTo(out)
	}
	k.Bind(e)
	return nil
}

// printf writes to Out, which keeps an error for its last write.
func (e *env) printf(format string, args ...any) { _, _ = fmt.Fprintf(e.Out, format, args...) }

func (e *env) println(args ...any) { _, _ = fmt.Fprintln(e.Out, args...) }
