package main

import (
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kong"

	"github.com/lash-go/lash/cmd/internal/connect"
	"github.com/lash-go/lash/cmd/internal/program"
)

// Exit codes.
const (
	exitViolations = program.Different
	exitError      = program.Failed
)

// errViolations: the command found violations and has printed them.
var errViolations = program.Silent("violations were found")

func main() { os.Exit(line(&cli{}).Main()) }

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
	now    func() time.Time
	quiet  bool // no counts of what is done
}

// cli is the command line.
type cli struct {
	Version kong.VersionFlag `help:"Print the version and the revision of the build."`
	sourceFlags

	Ls     lsCmd     `cmd:"" help:"List sessions."`
	Show   showCmd   `cmd:"" help:"Show what happened in a session, or in one turn."`
	Events eventsCmd `cmd:"" help:"List a session's events, also as they happen."`
	Diff   diffCmd   `cmd:"" help:"Compare two points, branches or sessions."`
	Search searchCmd `cmd:"" help:"Find turns in all sessions."`
	Verify verifyCmd `cmd:"" help:"Check histories: read them from their beginning and report every violation."`
	Export exportCmd `cmd:"" help:"Write sessions to files: archives, or another format."`
	Stats  statsCmd  `cmd:"" help:"Count turns, calls, events and bytes of sessions."`
	Check  checkCmd  `cmd:"" help:"Decide recorded turns again with this build, and report the first difference."`
	UI     uiCmd     `cmd:"" name:"ui" help:"Show sessions in a web page, or answer what auditors read."`
}

const description = `Read, replay and verify the histories of sessions.

A history comes from exactly one source: a running server (--nats), the store
of a node's embedded server (--store), or an archive (--file). Without any of these the
argument of a command names an archive file; where there is none of that name, or no argument, the store
in .lash is read, as lash-node makes it. Nothing is changed anywhere.

Exit codes: 0 all is well, 1 violations or differences were found, 2 it could not be done.`

// AfterApply binds the environment, which the commands take.
func (c *cli) AfterApply(k *kong.Context, s *program.Streams) error { //nolint:unparam // kong wants an error
	k.Bind(&env{Streams: s, source: &c.sourceFlags, now: time.Now})
	return nil
}

// printf writes to Out, which keeps an error for its last write.
func (e *env) printf(format string, args ...any) { _, _ = fmt.Fprintf(e.Out, format, args...) }

func (e *env) println(args ...any) { _, _ = fmt.Fprintln(e.Out, args...) }
