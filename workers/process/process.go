// Package process runs commands of models and hosts in bash, with all that
// they start. It imports the standard library only.
//
// Guarantees: a command has a process group of its own, which is killed as a
// whole when the command has ended, when it is told to end, and when this
// process dies, whatever kills it. What leaves the group by itself escapes. Of
// the environment a command sees what every program needs and what it is
// given: no keys of the node. It may look at the environment of processes of its
// user, as the node is one: lash-node hides its own.
package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Grace is how long a process group has between TERM and KILL, and a pipe
// that some process keeps open after the command's end.
const Grace = 200 * time.Millisecond

// Command is what to run.
type Command struct {
	Script string            // for bash as a login shell: what the user's profile does comes first
	Dir    string            // Defaults to this process's own
	Env    map[string]string // beside what every program needs
}

// Exit is how a command ended.
type Exit struct {
	Status int   // -1 where a signal ended it
	Err    error // it could not be waited for
	Killed bool  // because its context had ended
}

// Process is a command that runs, with all that it starts.
type Process struct {
	cmd      *exec.Cmd
	guard    *exec.Cmd // kills the group when this process dies, whatever kills it
	lifeline io.WriteCloser
	pipes    []*os.File // read ends
	readers  sync.WaitGroup
}

// guardScript reads the group's id, then waits for the word that the group is
// gone. The end of its input instead means that the node died.
const guardScript = `read -r group; read -r gone && exit 0; kill -9 "-$group"`

// Start runs a command. Each output is read by a goroutine of its own until it
// ends; where stderr is nil both outputs are one, in the order of the writes.
// Whoever starts a process must call [Process.Attend].
func Start(ctx context.Context, c Command, stdout, stderr func(io.Reader)) (*Process, error) {
	bare := context.WithoutCancel(ctx) // the group is killed, not the shell alone
	p := &Process{cmd: exec.CommandContext(bare, "bash", "-lc", c.Script), guard: exec.CommandContext(bare, "sh", "-c", guardScript)}
	var err error
	if p.lifeline, err = p.guard.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Dir, p.cmd.Env, p.guard.Env = c.Dir, environment(c.Env), environment(nil) // the command can look at its guard
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

// environment is what commands inherit, and what they are given.
func environment(given map[string]string) []string {
	inherited := []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "TERM"}
	list := []string{} // nil would be all
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(inherited, name) {
			list = append(list, entry)
		}
	}
	for name, value := range given {
		list = append(list, name+"="+value)
	}
	return list
}

func (p *Process) start(readers ...func(io.Reader)) error {
	var ends []*os.File
	defer func() {
		for _, end := range ends {
			_ = end.Close() // the child has its own
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
	// A failed write is a guard that is dead already: the group is killed at its end all the same.
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

// release tells the guard that there is nothing to kill any more.
func (p *Process) release() {
	_, _ = fmt.Fprintln(p.lifeline, "gone")
	_ = p.lifeline.Close()
	_ = p.guard.Wait()
}

// Attend waits for the command's end, and brings it about when ctx ends: TERM,
// and KILL after [Grace]. When it returns, the group is gone and what was
// printed has been read.
func (p *Process) Attend(ctx context.Context) Exit {
	exited := make(chan Exit, 1)
	go func() { exited <- p.wait() }() // ends with the command, which is killed below at the latest
	end := Exit{}
	select {
	case end = <-exited:
	case <-ctx.Done():
		termGroup(p.cmd.Process.Pid)
		grace := time.NewTimer(Grace)
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
		return Exit{Status: p.cmd.ProcessState.ExitCode()}
	}
	return Exit{Status: -1, Err: err}
}

// drain kills what the command left behind and reads its output to the end.
func (p *Process) drain() {
	killGroup(p.cmd.Process.Pid)
	p.release()
	done := make(chan struct{})
	go func() { p.readers.Wait(); close(done) }() // ends with the pipes, which are closed below
	select {
	case <-done:
	case <-time.After(Grace): // a process left the group and keeps a pipe open
	}
	p.closePipes()
	<-done
}
