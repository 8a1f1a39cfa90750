package system

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// serverConfig is the environment variable with the configuration of a server's process.
const serverConfig = "LASH_SERVER"

// TestChildServer is one server of a [processes], in another process.
func TestChildServer(t *testing.T) {
	var cfg busembed.Config
	runtest.NoError(t, json.Unmarshal([]byte(os.Getenv(serverConfig)), &cfg))
	s, err := busembed.Start(cfg)
	runtest.NoError(t, err)
	defer s.Stop()
	fmt.Println("listens")
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the test that started it
}

// processes are three servers that replicate everything, each a process.
type processes struct {
	t    *testing.T
	cfg  [3]busembed.Config
	run  [3]*exec.Cmd
	in   [3]io.Closer                       // whose end stops it
	wrap func(i int, cmd []string) []string // how the i-th is run; nil runs it as it is
	url  string
	only []int // the servers that [processes.open] knows; nil: all
}

// clusterOn starts servers that listen on these hosts. They end with the test.
func clusterOn(t *testing.T, hosts [3]string, dirs [3]string, wrap func(int, []string) []string) *processes {
	t.Helper()
	p := &processes{t: t, wrap: wrap}
	ports, err := busembed.FreePorts(6)
	runtest.NoError(t, err)
	var routes, urls []string
	for i, host := range hosts {
		routes = append(routes, fmt.Sprintf("%s:%d", host, ports[i]))
		urls = append(urls, fmt.Sprintf("nats://%s:%d", host, ports[3+i]))
	}
	p.url = strings.Join(urls, ",")
	for i, host := range hosts {
		p.cfg[i] = busembed.Config{
			StoreDir: dirs[i], Profile: busembed.ProfileCluster, Listen: true, Host: host, Exposed: true, Port: ports[3+i],
			Name: fmt.Sprintf("s%d", i+1), ClusterName: "lash", ClusterPort: ports[i], Routes: routes,
		}
		p.start(i)
	}
	return p
}

// loopback is a cluster of processes on the loopback device.
func loopback(t *testing.T) *processes {
	t.Helper()
	dir, host := t.TempDir(), "127.0.0.1"
	return clusterOn(t, [3]string{host, host, host}, [3]string{filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "3")}, nil)
}

// start starts the i-th server and waits until it listens.
func (p *processes) start(i int) {
	p.t.Helper()
	text, err := json.Marshal(p.cfg[i])
	runtest.NoError(p.t, err)
	run := runtest.Child(p.t.Context(), "TestChildServer", serverConfig+"="+string(text))
	line := run.Args
	if p.wrap != nil {
		line = p.wrap(i, line)
	}
	cmd := exec.Command(line[0], line[1:]...) //nolint:gosec // it is this test
	cmd.Env = run.Env
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	runtest.NoError(p.t, err)
	stdout, err := cmd.StdoutPipe()
	runtest.NoError(p.t, err)
	runtest.NoError(p.t, cmd.Start())
	p.run[i], p.in[i] = cmd, stdin
	p.t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if firstLine, err := bufio.NewReader(stdout).ReadString('\n'); firstLine != "listens\n" {
		p.t.Fatalf("server %d: got %q, %v", i+1, firstLine, err)
	}
}

// kill sends SIGKILL.
func (p *processes) kill(i int) {
	p.t.Helper()
	runtest.NoError(p.t, p.run[i].Process.Kill())
	_ = p.run[i].Wait()
}

// stop ends the i-th server in order: it hands over the streams that it leads.
func (p *processes) stop(i int) {
	p.t.Helper()
	_ = p.in[i].Close()
	runtest.WantError(p.t, fmt.Sprintf("stop server %d", i+1), p.run[i].Wait(), nil)
}

// open opens a bus with three replicas and these servers. It ignores announced servers.
func (p *processes) open(only ...int) *bus.Bus {
	p.t.Helper()
	if len(only) == 0 {
		only = p.only
	}
	b, err := bus.Open(harness.Context(p.t), bus.Config{
		URL: p.urlOf(only...), Replicas: 3, Timeout: time.Second, Options: []nats.Option{nats.IgnoreDiscoveredServers()},
	})
	runtest.NoError(p.t, err)
	p.t.Cleanup(b.Close)
	return b
}

// urlOf is the URL of these servers, or of all where none is named.
func (p *processes) urlOf(only ...int) string {
	all := strings.Split(p.url, ",")
	if len(only) == 0 {
		return p.url
	}
	var list []string
	for _, i := range only {
		list = append(list, all[i])
	}
	return strings.Join(list, ",")
}

// leader is the server that leads a session's stream.
func (p *processes) leader(ctx context.Context, b *bus.Bus, id events.SessionID) int {
	p.t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(p.t, err)
	for ctx.Err() == nil { // servers that elect may leave a question without an answer
		once, cancel := context.WithTimeout(ctx, time.Second)
		stream, err := js.Stream(once, "lash-s-"+string(id))
		cancel()
		if err != nil {
			continue
		}
		for i := range p.cfg {
			if p.cfg[i].Name == stream.CachedInfo().Cluster.Leader {
				return i
			}
		}
	}
	p.t.Fatalf("leader of %s: %v", id, context.Cause(ctx))
	return 0
}

// lead makes a server the leader of a session's stream. It repeats this: starved servers elect another leader by
// themselves.
func (p *processes) lead(ctx context.Context, b *bus.Bus, id events.SessionID, i int) {
	p.t.Helper()
	for p.leader(ctx, b, id) != i {
		once, cancel := context.WithTimeout(ctx, time.Second)
		step := fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, p.cfg[i].Name)
		_, _ = b.Conn().RequestWithContext(once, "$JS.API.STREAM.LEADER.STEPDOWN.lash-s-"+string(id), step) // the next look tells
		cancel()
	}
}

// awaitReplicas waits until the replicas agree again.
func (p *processes) awaitReplicas(ctx context.Context, b *bus.Bus) {
	p.t.Helper()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	for !b.Recovered(ctx) {
		select {
		case <-ctx.Done():
			p.t.Fatal("the servers do not agree again")
		case <-ticks.C:
		}
	}
}
