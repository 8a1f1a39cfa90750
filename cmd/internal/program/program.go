// Package program is the frame of lash's commands: standard streams, flags, signals, and protection from other
// processes of the user.
package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
)

// Streams are the standard streams and the environment of a command.
type Streams struct {
	Name     string // of the program, before each message; [CLI.Run] sets it
	Out, Err io.Writer
	Env      func(name string) string
	In       *os.File     // nil: no input
	Screen   *os.File     // file that Out writes to, for a command that draws; nil: none
	Flush    func() error // writes what Out has collected, see [CLI.Buffered]; [CLI.Run] sets it
}

// Printf writes a message of the command to Err.
func (s *Streams) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Err, s.Name+": "+format+"\n", args...)
}

// A command names what it waits for after patience, and of waits that repeat not more often than repeatEvery.
const (
	patience    = 2 * time.Second
	repeatEvery = 10 * time.Second
)

// NoteWait prints what the command waits for, after two seconds. The caller must call over when the wait ends.
func (s *Streams) NoteWait(what string, args ...any) (over func()) {
	return s.WaitNoter(what, args...)()
}

// WaitNoter is [Streams.NoteWait] for waits that repeat and overlap: each call begins one, and of all of them one line is
// printed in ten seconds.
func (s *Streams) WaitNoter(what string, args ...any) (begin func() (over func())) {
	var mu sync.Mutex
	var printed time.Time
	say := func() {
		mu.Lock()
		defer mu.Unlock()
		if printed.IsZero() || time.Since(printed) >= repeatEvery {
			printed = time.Now()
			s.Printf("waiting for "+what, args...)
		}
	}
	return func() (over func()) {
		slow := time.AfterFunc(patience, say)
		return func() { slow.Stop() }
	}
}

// CLI is a command line.
type CLI struct {
	Name        string
	Description string
	// Flags is a pointer to the structure that kong fills. Its method Run, or that of the selected command, takes a
	// [context.Context] and a *[Streams]; its hooks may take a *[Streams].
	Flags any
	// BareHelps: an empty command line prints the help, and succeeds. Otherwise it also prints that a command is missing,
	// and fails.
	BareHelps bool
	// Buffered: Out is written in blocks, and an error of its last write ends the command with [Failed].
	Buffered bool
	// Explain adds advice to an error of Run. Optional.
	Explain func(error) error
}

// Main runs the command line of this process. SIGINT and SIGTERM end its context. A process that must wait for orphans does only
// that, and runs the command line in a child.
func (c *CLI) Main() (code int) {
	log.SetOutput(NewTerminal(os.Stderr)) // for libraries without a logger parameter
	if err := hide(); err != nil {
		return fail(&Streams{Name: c.Name, Err: os.Stderr}, fmt.Errorf("hide the environment from other processes: %w", err))
	}
	if mustWaitForOrphans() {
		self, err := os.Executable()
		if err == nil {
			code, err = waitForOrphans(self, os.Args)
		}
		if err != nil {
			return fail(&Streams{Name: c.Name, Err: os.Stderr}, err)
		}
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.Run(ctx, os.Args[1:], &Streams{Out: os.Stdout, Err: os.Stderr, Env: os.Getenv, In: os.Stdin, Screen: os.Stdout})
}

// Run runs a command line. Output passes the terminal filter.
func (c *CLI) Run(ctx context.Context, args []string, raw *Streams) (code int) {
	block := bufio.NewWriter(raw.Out)
	out, warn := NewTerminal(raw.Out), NewTerminal(raw.Err)
	if c.Buffered {
		out = NewTerminal(block)
	}
	s := &Streams{Name: c.Name, Out: out, Err: warn, Env: raw.Env, In: raw.In, Screen: raw.Screen, Flush: block.Flush}
	defer warn.Close() //nolint:errcheck // there is no other output for the error
	defer func() {
		if err := errors.Join(out.Close(), block.Flush()); err != nil && c.Buffered && code == OK {
			code = fail(s, fmt.Errorf("write output: %w", err))
		}
	}()
	return c.run(ctx, args, s)
}

func (c *CLI) run(ctx context.Context, args []string, s *Streams) (code int) {
	exited := -1
	parser, err := c.Parser(s, func(code int) { exited = code })
	if err != nil {
		return fail(s, err)
	}
	if len(args) == 0 && len(parser.Model.Children) > 0 { // a command is required
		switch _, err := parser.Parse([]string{"--help"}); {
		case c.BareHelps && exited >= 0:
			return OK
		case err != nil:
			return fail(s, err)
		}
		return Failed
	}
	parsed, err := parser.Parse(args)
	if exited >= 0 {
		return exited // --help
	}
	if err != nil {
		return fail(s, fmt.Errorf("%w (see %s --help)", err, c.commandOf(err)))
	}
	if err := checkNamedFiles(parsed); err != nil {
		return fail(s, err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err = parsed.Run(); err == nil {
		return OK
	}
	code, print := CodeOf(err)
	if c.Explain != nil {
		err = c.Explain(err)
	}
	if print {
		_ = fail(s, err)
	}
	return code
}

// commandOf is the command whose arguments are wrong, as it is typed.
func (c *CLI) commandOf(err error) string {
	if wrong, ok := errors.AsType[*kong.ParseError](err); ok && wrong.Context.Selected() != nil {
		return wrong.Context.Selected().FullPath()
	}
	return c.Name
}

// Parser fills Flags from arguments and from the file of --config. --help calls exit.
func (c *CLI) Parser(s *Streams, exit func(code int)) (*kong.Kong, error) {
	return kong.New(c.Flags,
		kong.Name(c.Name), kong.Description(c.Description), kong.Bind(s),
		kong.Writers(s.Out, s.Err), kong.Exit(exit),
		kong.UsageOnError(), kong.Vars{"version": VersionOf(c.Name)},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.PostBuild(hideSettings),
	)
}

func fail(s *Streams, err error) int {
	s.Printf("%s", WithoutCredentials(err.Error()))
	return Failed
}
