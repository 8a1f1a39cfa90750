package workers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/task"
)

// lineCut marks a line that was longer than a history takes.
const lineCut = " [cut: the line is longer than 64 KiB]"

// killGrace is how long a process group has between TERM and KILL, and a pipe
// that some process keeps open after the command's end.
const killGrace = 200 * time.Millisecond

// process is a monitor's command with all that it starts.
type process struct {
	cmd      *exec.Cmd
	guard    *exec.Cmd // kills the group when this process dies, whatever kills it
	lifeline io.WriteCloser
	pipes    []*os.File // read ends
	readers  sync.WaitGroup
}

// guardScript reads the group's id, then waits for the word that the group is
// gone. The end of its input instead means that the node died.
const guardScript = `read -r group; read -r gone && exit 0; kill -9 "-$group"`

// startProcess runs the command of a monitor. Its lines are sent to lines, until ctx ends or [process.drain] returns.
func startProcess(ctx context.Context, spec *events.MonitorSpec, lines chan<- task.Line) (*process, error) {
	bare := context.WithoutCancel(ctx) // the group is killed, not the shell alone
	p := &process{cmd: exec.CommandContext(bare, "bash", "-lc", spec.Command), guard: exec.CommandContext(bare, "sh", "-c", guardScript)}
	var err error
	if p.lifeline, err = p.guard.StdinPipe(); err != nil {
		return nil, err
	}
	p.cmd.Dir = spec.Cwd
	p.cmd.Env = p.cmd.Environ()
	for name, value := range spec.Env {
		p.cmd.Env = append(p.cmd.Env, name+"="+value)
	}
	if err := ownGroup(p.cmd, p.guard); err != nil {
		return nil, err
	}
	if err := p.guard.Start(); err != nil {
		_ = p.lifeline.Close()
		return nil, fmt.Errorf("start guard: %w", err)
	}
	if err := p.start(ctx, lines); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

func (p *process) start(ctx context.Context, lines chan<- task.Line) error {
	stdout, outEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer outEnd.Close() //nolint:errcheck // the child has its own
	stderr, errEnd, err := os.Pipe()
	if err != nil {
		_ = stdout.Close()
		return err
	}
	defer errEnd.Close() //nolint:errcheck // the child has its own
	p.cmd.Stdout, p.cmd.Stderr, p.pipes = outEnd, errEnd, []*os.File{stdout, stderr}
	if err := p.cmd.Start(); err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return err
	}
	// A failed write is a guard that is dead already: the group is killed at its end all the same.
	_, _ = fmt.Fprintln(p.lifeline, p.cmd.Process.Pid)
	p.readers.Go(func() { readLines(ctx, stdout, false, lines) })
	p.readers.Go(func() { readLines(ctx, stderr, true, lines) })
	return nil
}

// release tells the guard that there is nothing to kill any more.
func (p *process) release() {
	_, _ = fmt.Fprintln(p.lifeline, "gone")
	_ = p.lifeline.Close()
	_ = p.guard.Wait()
}

// wait waits for the command itself and returns its status: -1 where a signal ended it.
func (p *process) wait() (int, error) {
	err := p.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err == nil || errors.As(err, &exit) {
		return p.cmd.ProcessState.ExitCode(), nil
	}
	return -1, err
}

// drain kills what the command left behind and reads its output to the end.
func (p *process) drain() {
	killGroup(p.cmd.Process.Pid)
	p.release()
	done := make(chan struct{})
	go func() { p.readers.Wait(); close(done) }() // ends with the pipes, which are closed below
	select {
	case <-done:
	case <-time.After(killGrace): // a process left the group and keeps a pipe open
	}
	for _, pipe := range p.pipes {
		_ = pipe.Close()
	}
	<-done
}

// readLines sends what is not blank. What does not fit a line is skipped, and marked.
func readLines(ctx context.Context, from io.Reader, stderr bool, to chan<- task.Line) {
	in := bufio.NewReaderSize(from, 4<<10)
	const room = events.MaxMonitorLine - len(lineCut)
	var line []byte
	cut := false
	for {
		piece, err := in.ReadSlice('\n')
		take := min(len(piece), room+1-len(line))
		line, cut = append(line, piece[:take]...), cut || take < len(piece)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		text := strings.TrimSpace(strings.ToValidUTF8(string(line), "?"))
		if cut || len(text) > room {
			text = strings.ToValidUTF8(text[:min(len(text), room)], "") + lineCut
		}
		if text != "" {
			select {
			case to <- task.Line{Text: text, Stderr: stderr}:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
		line, cut = line[:0], false
	}
}
