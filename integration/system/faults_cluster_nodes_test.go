package system

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
)

// childVariable is the environment variable with a process's configuration.
const childVariable = "LASH_CHILD"

// childConfig is the configuration of such a process.
type childConfig struct {
	URL      string
	Replicas int
	Watch    events.SessionID // of a watcher
	Journal  string           // the file; of a node
	Round    int              // of a node, so that nonces are unique
	Most     int              // sessions whose turns a node runs at once; 0: as many as a node does
	Blocks   bool             // no effect of the node ends before its turn is taken away
	BlockAt  string           // the effect, "<session>/<effect>", in which the node waits for a line, whatever its context says; may be empty. SIGUSR1: so does it in the next one
}

// bus opens a bus with the configured servers only. It ignores announced servers, and tries the first one first.
func (c *childConfig) bus() bus.Config {
	return bus.Config{URL: c.URL, Replicas: c.Replicas, Timeout: time.Second, Options: []nats.Option{nats.IgnoreDiscoveredServers(), nats.DontRandomize()}}
}

// TestChildNode is a node with the workload in a process of its own. It ends as lash-node serve does.
func TestChildNode(t *testing.T) {
	cfg := childOf(t)
	journal, err := os.OpenFile(cfg.Journal, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	runtest.NoError(t, err)
	defer journal.Close() //nolint:errcheck // it was only appended to
	ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
	defer stop()
	b, err := bus.Open(ctx, cfg.bus())
	runtest.NoError(t, err)
	defer b.Close()
	next := make(chan os.Signal, 1)
	signal.Notify(next, syscall.SIGUSR1)
	defer signal.Stop(next)
	w := &faultsWorkload{round: cfg.Round, most: cfg.Most, journal: journal, block: func(ctx context.Context, effect string) {
		if cfg.Blocks {
			fmt.Println("holds", effect)
			<-ctx.Done()
			return
		}
		blocks := effect == cfg.BlockAt
		select {
		case <-next:
			blocks = true
		default:
		}
		if blocks {
			fmt.Println("holds", effect)
			_, _ = os.Stdin.Read(make([]byte, 1))
			fmt.Println("released")
		}
	}}
	node, err := w.node(b)
	runtest.NoError(t, err)
	runtest.NoError(t, node.Start(ctx))
	fmt.Println("serves", node.ID())
	<-ctx.Done()
	fmt.Println("drains")
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	node.Stop(grace)
}

func childOf(t *testing.T) (cfg childConfig) {
	t.Helper()
	runtest.NoError(t, json.Unmarshal([]byte(os.Getenv(childVariable)), &cfg))
	return cfg
}

// TestChildWatcher watches a session in a process of its own, and resumes at its cursor after an error. It
// prints the sequence of each commit.
func TestChildWatcher(t *testing.T) {
	cfg := childOf(t)
	b, err := bus.Open(t.Context(), cfg.bus())
	runtest.NoError(t, err)
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	for cursor := events.Seq(0); ; {
		for o, err := range h.Observe(t.Context(), cfg.Watch, cursor) {
			if err != nil {
				break
			}
			if o.Commit != nil {
				cursor = o.Seq
				fmt.Println("saw", o.Seq)
			}
		}
	}
}

// child is a node or a watcher in a process of its own.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.Writer
	lines chan string // its lines; closed when it has ended
	ended error       // of the process, once said is closed
}

// startChild runs one test in a process that ends with this one at the latest. wrap changes its command line as in
// [clusterOn].
func startChild(t *testing.T, test string, cfg childConfig, wrap func(cmd []string) []string) *child {
	t.Helper()
	text, err := json.Marshal(cfg)
	runtest.NoError(t, err)
	run := runtest.Child(t.Context(), test, childVariable+"="+string(text))
	line := run.Args
	if wrap != nil {
		line = wrap(line)
	}
	cmd := exec.Command(line[0], line[1:]...) //nolint:gosec // it is this test
	cmd.Env = run.Env
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	runtest.NoError(t, err)
	out, err := cmd.StdoutPipe()
	runtest.NoError(t, err)
	runtest.NoError(t, cmd.Start())
	c := &child{t: t, cmd: cmd, in: in, lines: make(chan string, 1<<16)}
	go func() { // ends with the process
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.lines <- lines.Text()
		}
		c.ended = cmd.Wait()
		close(c.lines)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		for range c.lines { // until it has ended
		}
	})
	return c
}

// awaitLine waits for a line that begins with this word, and returns the rest of it.
func (c *child) awaitLine(ctx context.Context, text string) string {
	c.t.Helper()
	for {
		select {
		case line, alive := <-c.lines:
			if !alive {
				c.t.Fatalf("child: it ended before it said %q: %v", text, c.ended)
			}
			if rest, ok := strings.CutPrefix(line, text); ok {
				return strings.TrimSpace(rest)
			}
		case <-ctx.Done():
			c.t.Fatalf("child: it never said %q: %v", text, context.Cause(ctx))
		}
	}
}

// signal sends a signal.
func (c *child) signal(s os.Signal) {
	c.t.Helper()
	runtest.NoError(c.t, c.cmd.Process.Signal(s))
}

// release unblocks the effect.
func (c *child) release() {
	c.t.Helper()
	_, err := c.in.Write([]byte{'\n'})
	runtest.NoError(c.t, err)
}

// exits waits for the end of the process, with exit code 0.
func (c *child) exits(ctx context.Context) {
	c.t.Helper()
	var rest []string
	for {
		select {
		case line, alive := <-c.lines:
			if !alive {
				if c.ended != nil {
					c.t.Errorf("child: got %v and %q, want exit code 0", c.ended, rest)
				}
				return
			}
			rest = append(rest, line)
		case <-ctx.Done():
			c.t.Fatalf("child: it does not end: %v", context.Cause(ctx))
		}
	}
}

// wantCommits checks the next commits that a watcher prints.
func (c *child) wantCommits(ctx context.Context, first, last events.Seq) {
	c.t.Helper()
	for want := first; want <= last; want++ {
		if got, err := strconv.ParseUint(c.awaitLine(ctx, "saw"), 10, 64); err != nil || events.Seq(got) != want {
			c.t.Fatalf("watcher: got commit %d, %v, want %d", got, err, want)
		}
	}
}
