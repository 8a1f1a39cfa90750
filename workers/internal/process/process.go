// Package process runs commands in bash, for models and hosts, and programs that talk to the node over their standard
// streams. It imports the standard library, session/plugin and events/localfile.
//
// Guarantees: a command has its own process group. The whole group is killed when the command has ended, when its
// context ends, and when this process dies, also by SIGKILL. A process that leaves the group escapes. The environment
// of a command is the variables that every program needs and those of [Command]: no keys of the node. A command can
// read the environment of other processes of its user, such as the node; lash-node hides its own.
package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lash-go/lash/events/localfile"
	"github.com/lash-go/lash/session/plugin"
)

// killDelay is the default time between TERM and KILL, and the time for a pipe that a process keeps open after the command's end, with nothing
// in it; maxDrain is that for one with something.
const (
	killDelay = 200 * time.Millisecond
	maxDrain  = 30 * time.Second
)

// Command is a command to run.
type Command struct {
	Script string            // for bash as a login shell: the user's profile runs first
	Args   []string          // a program and its arguments, in place of Script
	Dir    string            // working directory. Defaults to that of this process
	Place  string            // working directory below Dir, or an absolute one: a link on the way there is refused, see [localfile.ErrLink]. Empty: Dir
	Env    map[string]string // in addition to the variables that every program needs
	// In has further variables, and limits of each process. What the command prints has [NAME] in place of their values, and . in place of
	// its directory.
	In    plugin.Environment
	Show  func(text string) // receives what the command prints to [Run] while it runs. It must not block. nil: none
	Clean bool              // the environment is PATH and Env only
	Input bool              // [Process.Input] is a pipe to its standard input. Otherwise that is empty
	Grace time.Duration     // between TERM and KILL. Defaults to 200 ms
}

// Exit is the end of a command.
type Exit struct {
	Status int            // exit status; -1 after a signal
	Signal syscall.Signal // that ended the command; 0: none
	Err    error          // of waiting for the command
	Killed bool           // its context had ended
}

// How says how the command ended, for people and models. A shell gives the end of its last command by a signal as 128 and its
// number.
func (e Exit) How() string {
	const ofShell = 128
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Signal != 0:
		return "ended by " + signalText(e.Signal)
	case e.Status > ofShell && e.Status <= ofShell+maxSignal:
		return fmt.Sprintf("exit status %d, as after %s", e.Status, signalText(syscall.Signal(e.Status-ofShell)))
	}
	return fmt.Sprintf("exit status %d", e.Status)
}

// maxSignal is the largest number of a signal that has a name everywhere.
const maxSignal = 31

// Process is a running command, with all processes that it starts.
type Process struct {
	Input io.WriteCloser // of [Command.Input]; Attend closes it

	grace    time.Duration
	cmd      *exec.Cmd
	guard    *exec.Cmd // kills the group when this process dies
	lifeline io.WriteCloser
	pipes    []*os.File // read ends
	readers  sync.WaitGroup
}

// guardScript reads the id of the group, and then a line after the end of the group. If its input ends without that
// line, the node has died.
const guardScript = `read -r group; read -r gone && exit 0; kill -9 "-$group"`

// Start runs a command. A goroutine reads each output to its end. If stderr is nil, stdout receives both outputs in
// the order of the writes. The caller must call [Process.Attend].
func Start(ctx context.Context, c Command, stdout, stderr func(io.Reader)) (p *Process, err error) {
	hide := newHider(&c)
	stdout, stderr = hide.reading(stdout), hide.reading(stderr)
	defer func() { err = hide.error(err) }()
	if c.Place != "" {
		at, err := openPlace(c.Dir, c.Place)
		if err != nil {
			return nil, err
		}
		defer at.Close() //nolint:errcheck // the command has begun in it
		c.Dir = handlePath(at)
	}
	bare := context.WithoutCancel(ctx) // Attend kills the group, not the shell alone
	args := c.Args
	if len(args) == 0 {
		args = []string{"bash", "-lc", c.Script}
	}
	if limits := limitScript(&c.In); limits != "" {
		args = append([]string{"sh", "-c", limits + `exec "$@"`, "sh"}, args...)
	}
	p = &Process{cmd: exec.CommandContext(bare, args[0], args[1:]...), guard: exec.CommandContext(bare, "sh", "-c", guardScript), grace: cmp.Or(c.Grace, killDelay)} //nolint:gosec // the caller names the program
	if p.lifeline, err = p.guard.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Dir, p.cmd.Env, p.guard.Env = c.Dir, environment(c.Clean, c.In.Variables, c.Env), environment(c.Clean) // the command can read the guard's environment
	if c.Input {
		if p.Input, err = p.cmd.StdinPipe(); err != nil {
			return nil, err
		}
	}
	if err := ownGroup(p.cmd, p.guard); err != nil {
		return nil, err
	}
	if err := p.guard.Start(); err != nil {
		_ = p.lifeline.Close()
		return nil, fmt.Errorf("start guard: %w", err)
	}
	if err := p.start(stdout, stderr); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// limitScript sets the limits of an environment. Above its processor time a process gets SIGXCPU, and KILL a second later.
func limitScript(in *plugin.Environment) (script string) {
	if in.CPU > 0 {
		seconds := (in.CPU + time.Second - 1) / time.Second
		script = fmt.Sprintf("ulimit -S -t %d && ulimit -H -t %d && ", seconds, seconds+1)
	}
	if in.Memory > 0 {
		script += fmt.Sprintf("ulimit -d %d && ", (in.Memory+1<<10-1)/(1<<10))
	}
	return script
}

// openPlace opens the working directory of a command without links.
func openPlace(dir, place string) (*os.File, error) {
	if filepath.IsAbs(place) {
		dir, place = "/", strings.TrimLeft(place, "/")
	}
	top, err := os.OpenRoot(cmp.Or(dir, "."))
	if err != nil {
		return nil, err
	}
	defer top.Close() //nolint:errcheck // it was only read
	at, err := localfile.Below(top, place, 0)
	if err != nil {
		return nil, err
	}
	defer at.Close() //nolint:errcheck // it was only read
	return at.Open(".")
}

// environment is the inherited variables that every program needs, and those of the command, of which the last ones win.
func environment(clean bool, own ...map[string]string) []string {
	inherited := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM"}
	if clean {
		inherited = inherited[:1]
	}
	list := []string{} // nil would inherit all
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(inherited, name) {
			list = append(list, entry)
		}
	}
	for _, variables := range own {
		for name, value := range variables {
			list = append(list, name+"="+value)
		}
	}
	return list
}

func (p *Process) start(readers ...func(io.Reader)) error {
	var ends []*os.File
	defer func() {
		for _, end := range ends {
			_ = end.Close() // the child has its own copy
		}
	}()
	for _, read := range readers {
		if read == nil {
			continue
		}
		pipe, end, err := os.Pipe()
		if err != nil {
			p.closePipes()
			return err
		}
		p.pipes, ends = append(p.pipes, pipe), append(ends, end)
	}
	p.cmd.Stdout, p.cmd.Stderr = ends[0], ends[len(ends)-1]
	if err := p.cmd.Start(); err != nil {
		p.closePipes()
		return err
	}
	// A failed write means that the guard is dead: the group is killed at the command's end anyway.
	_, _ = fmt.Fprintln(p.lifeline, p.cmd.Process.Pid)
	for i, pipe := range p.pipes {
		p.readers.Go(func() { readers[i](pipe) })
	}
	return nil
}

func (p *Process) closePipes() {
	for _, pipe := range p.pipes {
		_ = pipe.Close()
	}
}

// release notifies the guard that the group has ended.
func (p *Process) release() {
	_, _ = fmt.Fprintln(p.lifeline, "gone")
	_ = p.lifeline.Close()
	_ = p.guard.Wait()
}

// Attend waits for the command's end. When ctx ends, it ends the command: TERM, and KILL after the grace. When it
// returns, the group is killed and the output has been read.
func (p *Process) Attend(ctx context.Context) Exit {
	exited := make(chan Exit, 1)
	go func() { exited <- p.wait() }() // ends with the command, which is killed below at the latest
	end := Exit{}
	select {
	case end = <-exited:
	case <-ctx.Done():
		termGroup(p.cmd.Process.Pid)
		grace := time.NewTimer(p.grace)
		defer grace.Stop()
		select {
		case end = <-exited:
		case <-grace.C:
			killGroup(p.cmd.Process.Pid)
			end = <-exited
		}
		end.Killed = true
	}
	p.drain()
	return end
}

func (p *Process) wait() Exit {
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) {
		end := Exit{Status: p.cmd.ProcessState.ExitCode()}
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			end.Signal = status.Signal()
		}
		return end
	}
	return Exit{Status: -1, Err: err}
}

// drain kills the rest of the group and reads the output to its end.
func (p *Process) drain() {
	killGroup(p.cmd.Process.Pid)
	p.release()
	done := make(chan struct{})
	go func() { p.readers.Wait(); close(done) }() // ends with the pipes, which are closed below
	defer p.closePipes()
	for until := time.Now().Add(maxDrain); ; {
		select {
		case <-done:
			return
		case <-time.After(killDelay):
		}
		if time.Now().After(until) || !slices.ContainsFunc(p.pipes, hasUnread) { // a process left the group and keeps a pipe open
			p.closePipes()
			<-done
			return
		}
	}
}
