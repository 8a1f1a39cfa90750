package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
)

// child is a server or a node that runs in another process.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	url string // of a server
}

// ServeApart is the server process. It prints its URL, and its resident bytes for each line that it reads. It ends
// when its input ends.
func ServeApart(store string, in io.Reader, out io.Writer) error {
	s, err := busembed.Start(busembed.Config{StoreDir: store, Profile: busembed.ProfileInterval, Listen: true})
	if err != nil {
		return err
	}
	defer s.Stop()
	if _, err := fmt.Fprintln(out, s.URL()); err != nil {
		return err
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		bytes, err := resident()
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%.0f\n", bytes); err != nil {
			return err
		}
	}
	return nil
}

// startChild starts this program with a hidden command, and waits for its first line.
func (r *runner) startChild(ctx context.Context, args ...string) (*child, error) {
	if r.Command == nil {
		return nil, errors.New("nothing says how a process is started")
	}
	cmd := r.Command(ctx, args...)
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
func (r *runner) childServer(ctx context.Context, store string) (*child, error) {
	return r.startChild(ctx, "serve-apart", store)
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

// NodeApart is the node process. It prints a line once it takes work, and ends when its input ends.
func NodeApart(ctx context.Context, url string, in io.Reader, out io.Writer) error {
	plugins, err := stack(0)
	if err != nil {
		return err
	}
	b, node, err := newNode(ctx, bus.Config{URL: url}, plugins)
	if err != nil {
		return err
	}
	defer b.Close()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, in)
	stopNode(node)
	return err
}
