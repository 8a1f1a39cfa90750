package system

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
)

// The work that is killed.
const (
	killSessions = 20
	killTurns    = 10
)

// Variables of the process that is killed.
const (
	killStore = "LASH_KILL_STORE"
	killRound = "LASH_KILL_ROUND"
	killCold  = "LASH_KILL_COLD" // not empty: sessions go cold whenever nothing runs in them
	killPlace = "LASH_KILL_AT"   // where the process kills itself; empty: nowhere
)

// killPoint is a point of a process: its n-th time at an effect, whose line is written and whose result is not, or at a write to the server,
// before or after which it is.
type killPoint struct {
	what string // effect, commit or archive
	n    int
	late bool // after the write
}

func (p killPoint) String() string { return fmt.Sprint(p.what, " ", p.n, " ", p.late) }

// killPointIn is the place that a variable names; the zero point is none.
func killPointIn(t *testing.T, variable string) (p killPoint) {
	t.Helper()
	if text := os.Getenv(variable); text != "" {
		_, err := fmt.Sscan(text, &p.what, &p.n, &p.late)
		runtest.NoError(t, err)
	}
	return p
}

// atEffect kills the process at its place.
func (p killPoint) atEffect(lines int) {
	if p.what == "effect" && lines == p.n {
		killSelf()
	}
}

// killSelf is a kill -9 of this process. It does not return.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// open opens a bus whose writes with a text are a place.
func (p killPoint) open(t *testing.T, server *busembed.Server, what, text string) *bus.Bus {
	t.Helper()
	var opts nats.Options
	runtest.NoError(t, server.InProcess()(&opts))
	b, err := bus.Open(t.Context(), bustest.WithKeys(t, bus.Config{Options: []nats.Option{nats.InProcessServer(&killingServer{InProcessConnProvider: opts.InProcessServer, at: p, what: what, text: []byte(text)})}}))
	runtest.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// killingServer makes connections that kill the process at a write.
type killingServer struct {
	nats.InProcessConnProvider
	at    killPoint
	what  string
	text  []byte
	times atomic.Int64
}

func (k *killingServer) InProcessConn() (net.Conn, error) {
	c, err := k.InProcessConnProvider.InProcessConn()
	return &killingConn{c, k}, err
}

type killingConn struct {
	net.Conn
	k *killingServer
}

func (c *killingConn) Write(data []byte) (int, error) {
	here := c.k.at.what == c.k.what && bytes.Contains(data, c.k.text) && c.k.times.Add(1) == int64(c.k.at.n)
	if here && !c.k.at.late {
		killSelf()
	}
	n, err := c.Conn.Write(data)
	if here {
		killSelf()
	}
	return n, err
}

func journalOf(store string) string { return filepath.Join(store, "journal") }

// TestChildKilled runs in another process, which TestSmokeKillDuringTurns starts: a server, a node and a client that
// submits all turns.
func TestChildKilled(t *testing.T) {
	store := os.Getenv(killStore)
	journal, err := os.OpenFile(journalOf(store), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	runtest.NoError(t, err)
	defer journal.Close() //nolint:errcheck // it was only appended to
	round, err := strconv.Atoi(os.Getenv(killRound))
	runtest.NoError(t, err)
	server := bustest.Server(t, busembed.Config{StoreDir: filepath.Join(store, "nats")})
	at := killPointIn(t, killPlace)
	w := &faultsWorkload{round: round, journal: journal, onLines: at.atEffect}
	node, err := w.node(at.open(t, server, "commit", " lash.s."))
	runtest.NoError(t, err)
	runtest.NoError(t, node.Start(t.Context()))
	defer node.Stop(harness.Context(t))
	h, err := session.New(session.Config{Bus: bustest.Open(t, server), Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*lastRun) // a bound for a process that hangs
	defer cancel()
	pause := 0
	if os.Getenv(killCold) != "" {
		archived := at.open(t, server, "archive", " $JS.API.")
		defer archiveConcurrently(t, archived)()
		pause = killTurns / 2
		runtest.NoError(t, drive(ctx, h, killSessions, pause))
		awaitAllCold(t, archived, killSessions)
	}
	runtest.NoError(t, driveFrom(ctx, h, killSessions, pause, killTurns))
}

// TestSmokeKillDuringTurns kills a node with its server again and again, in effects and at writes of commits, in the middle of 200
// turns. The history must agree with the journal outside the system.
func TestSmokeKillDuringTurns(t *testing.T) {
	t.Parallel()
	rounds := runtest.Of(4, 8)
	const seed = 20261121
	random := rand.New(rand.NewPCG(seed, 0))
	store := t.TempDir()
	for round := range rounds {
		killOne(t, store, round, killPoint{[]string{"effect", "commit"}[round%2], 1 + random.IntN(100), random.IntN(2) == 0}) // of 2 000 effects
	}
	if out, err := killChild(harness.Context(t), store, rounds).CombinedOutput(); !faultsPassed(out) {
		t.Fatalf("the last run: got %v\n%s", err, out)
	}
	journal, err := os.ReadFile(journalOf(store))
	runtest.NoError(t, err)
	b := bustest.Open(t, bustest.Server(t, busembed.Config{StoreDir: filepath.Join(store, "nats")}))
	if sum := auditAll(t, b, killSessions, killTurns, string(journal)); sum.takeovers == 0 || sum.again == 0 {
		t.Errorf("got %+v, want kills in the middle of turns and of effects", sum)
	}
}

func killChild(ctx context.Context, store string, round int, env ...string) *exec.Cmd {
	cmd := runtest.Child(ctx, "TestChildKilled", killStore+"="+store, killRound+"="+strconv.Itoa(round))
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// lastRun is the time limit of the process that is not killed. The sweep finds work without a wake; several sweeps
// run within the limit.
const lastRun = 4 * time.Minute

// killOne runs the process, which kills itself at a place.
func killOne(t *testing.T, store string, round int, at killPoint, env ...string) {
	t.Helper()
	out, err := killChild(harness.Context(t), store, round, append(env, killPlace+"="+at.String())...).CombinedOutput()
	if !wasKilled(err) {
		t.Fatalf("round %d, at %v: got %v, want it killed\n%s", round, at, err, out)
	}
}

// wasKilled reports whether a process ended with a kill -9.
func wasKilled(err error) bool {
	ended, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := ended.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

// passed reports whether the process was done. It ignores leaked goroutines, which the exit code also reports.
func faultsPassed(out []byte) bool { return bytes.HasPrefix(out, []byte("PASS\n")) }

// TestSmokeTakeover stops nodes in the middle of effects, at once, while another node runs: each continues the work of
// the one before, in the same process.
func TestSmokeTakeover(t *testing.T) {
	t.Parallel()
	const sessions, turns, nodes = 6, 4, 5
	server := bustest.Server(t, busembed.Config{})
	var journal bytes.Buffer
	s := &stops{every: sessions * turns, most: nodes - 1, reached: make(chan struct{}, 1)}
	w := &faultsWorkload{journal: &journal, onLines: s.atLine, block: s.block}
	start := func(b *bus.Bus) (stop func()) {
		t.Helper()
		node, err := w.node(b)
		runtest.NoError(t, err)
		runtest.NoError(t, node.Start(t.Context()))
		var once sync.Once
		stop = func() {
			once.Do(func() {
				now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
				cancel()
				node.Stop(now)
			})
		}
		t.Cleanup(stop)
		return stop
	}
	h, err := session.New(session.Config{Bus: bustest.Open(t, server), Plugins: session.NoPlugins()})
	runtest.NoError(t, err)
	stop := start(bustest.Open(t, server))
	ctx, driven := harness.Context(t), make(chan error, 1)
	var driver sync.WaitGroup
	driver.Go(func() { driven <- drive(ctx, h, sessions, turns) })
	defer driver.Wait()
	for n := 1; n < nodes; n++ {
		select {
		case <-s.reached:
		case <-ctx.Done():
			t.Fatalf("node %d: too few effects", n)
		}
		next := start(bustest.Open(t, server))
		stop()
		s.goOn()
		stop = next
	}
	runtest.NoError(t, <-driven)
	stop() // nothing writes to the journal any more
	if sum := auditAll(t, bustest.Open(t, server), sessions, turns, journal.String()); sum.takeovers < nodes-1 {
		t.Errorf("got %+v, want at least %d takeovers", sum, nodes-1)
	}
}

// stops blocks every n-th effect, at most that many times, until goOn.
type stops struct {
	every, most int
	reached     chan struct{}

	mu      sync.Mutex
	times   int
	blocked chan struct{} // open while effects are blocked
}

func (s *stops) atLine(lines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocked == nil && s.times < s.most && lines >= (s.times+1)*s.every {
		s.times++
		s.blocked = make(chan struct{})
		s.reached <- struct{}{}
	}
}

func (s *stops) block(ctx context.Context, _ string) {
	s.mu.Lock()
	blocked := s.blocked
	s.mu.Unlock()
	if blocked == nil {
		return
	}
	select {
	case <-blocked:
	case <-ctx.Done():
	}
}

func (s *stops) goOn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.blocked)
	s.blocked = nil
}
