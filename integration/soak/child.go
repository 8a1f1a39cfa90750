package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/lash-go/lash/integration/internal/command"
)

// The processes of this program: members of the fleet, and servers of the Model Context Protocol.
const (
	apartMember = "member"
	apartMCP    = "mcp"
)

// Spec is the role of a child process: one of the fields is set.
type Spec struct {
	Server *ServerSpec `json:"server,omitempty"`
	Node   *NodeSpec   `json:"node,omitempty"`
	Plugin *PluginSpec `json:"plugin,omitempty"`
}

// ready is the line that a child prints once it works.
const ready = "ready"

// readyWait bounds the start of a child.
const readyWait = 60 * time.Second

// child is a child process. It ends with this process: its input closes, and on Linux the kernel kills it.
type child struct {
	cmd   *exec.Cmd
	input io.Closer
	ended chan struct{}
}

// launcher starts children.
type launcher struct {
	log *os.File // what children print on stderr
}

// start runs a child. ctx bounds only the wait until it works.
func (l *launcher) start(ctx context.Context, spec Spec) (*child, error) {
	line, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	cmd, err := command.Again(context.WithoutCancel(ctx), apartMember)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, ended: make(chan struct{})}
	c.cmd.Stderr = l.log
	dieWithParent(c.cmd)
	input, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c.input = input
	output, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	working := make(chan bool, 1)
	go func() { // ends with the process
		scan := bufio.NewScanner(output)
		working <- scan.Scan() && scan.Text() == ready
		_, _ = io.Copy(io.Discard, output)
		_ = c.cmd.Wait()
		close(c.ended)
	}()
	_, err = input.Write(append(line, '\n'))
	wait := time.NewTimer(readyWait)
	defer wait.Stop()
	select {
	case ok := <-working:
		if ok && err == nil {
			return c, nil
		}
		err = errors.New("it ended at once")
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-wait.C:
		err = fmt.Errorf("it does not work after %s", readyWait)
	}
	c.kill()
	return nil, fmt.Errorf("start child: %w (its words are in %s)", err, l.log.Name())
}

// kill is kill -9, and waits for the end.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	<-c.ended
	_ = c.input.Close()
}

// stop requests an orderly end of the child, and kills it after grace.
func (c *child) stop(grace time.Duration) {
	_ = c.input.Close()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-timer.C:
		c.kill()
	}
}

// runChild runs a child: it reads its [Spec], and works until its input ends.
func runChild(ctx context.Context, _ []string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(os.Stdin)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to be: %w", err)
	}
	var spec Spec
	if err := json.Unmarshal(line, &spec); err != nil {
		return fmt.Errorf("read what to be: %w", err)
	}
	go func() { // ends with the process at the latest
		_, _ = io.Copy(io.Discard, lines)
		cancel()
	}()
	var once sync.Once
	working := func() { once.Do(func() { fmt.Println(ready) }) }
	switch {
	case spec.Server != nil:
		return spec.Server.run(ctx, working)
	case spec.Node != nil:
		return spec.Node.run(ctx, working)
	case spec.Plugin != nil:
		return spec.Plugin.run(ctx, working)
	}
	return errors.New("neither a server, nor a node, nor a plugin")
}
