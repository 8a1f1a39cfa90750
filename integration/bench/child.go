package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/integration/internal/command"
)

// The processes of this program that are servers and nodes: the first is followed by a store, the second by a URL.
const (
	apartServer = "server"
	apartNode   = "node"
)

// child is a server or a node that runs in another process.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	url string // of a server
}

// serveApart is the server process. It prints its URL, and its resident bytes for each line that it reads. It ends
// when its input ends.
func serveApart(store string) error {
	s, err := busembed.Start(busembed.Config{StoreDir: store, Profile: busembed.ProfileInterval, Listen: true})
	if err != nil {
		return err
	}
	defer s.Stop()
	if _, err := fmt.Println(s.URL()); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		bytes, err := resident()
		if err != nil {
			return err
		}
		if _, err := fmt.Printf("%.0f\n", bytes); err != nil {
			return err
		}
	}
	return nil
}

// startChild starts this program as another process, and waits for its first line.
func startChild(ctx context.Context, args ...string) (*child, error) {
	cmd, err := command.Again(ctx, args...)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &child{cmd: cmd, in: in, out: bufio.NewScanner(out)}
	if !s.out.Scan() {
		return nil, errors.Join(fmt.Errorf("%s did not start", args[0]), s.stop())
	}
	s.url = s.out.Text()
	return s, nil
}

// childServer starts a server in another process, so that its memory and processor time are separate.
func childServer(ctx context.Context, store string) (*child, error) {
	return startChild(ctx, apartServer, store)
}

func (s *child) resident() (float64, error) {
	if _, err := io.WriteString(s.in, "\n"); err != nil {
		return 0, err
	}
	if !s.out.Scan() {
		return 0, errors.New("the server is gone")
	}
	return strconv.ParseFloat(strings.TrimSpace(s.out.Text()), 64)
}

func (s *child) stop() error { return errors.Join(s.in.Close(), s.cmd.Wait()) }

// nodeApart is the node process. It prints a line once it takes work, and ends when its input ends.
func nodeApart(ctx context.Context, url string) error {
	plugins, err := stack(0)
	if err != nil {
		return err
	}
	b, node, err := newNode(ctx, bus.Config{URL: url}, plugins)
	if err != nil {
		return err
	}
	defer b.Close()
	if _, err := fmt.Println("ready"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	stopNode(node)
	return err
}
