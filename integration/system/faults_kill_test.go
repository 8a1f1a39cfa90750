package system

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

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
)

func journalOf(store string) string { return filepath.Join(store, "journal") }

// TestChildKilled runs in another process, which TestSmokeKillDuringTurns starts: a server, a node and a client that
// submits all turns.
func TestChildKilled(t *testing.T) {
	store := os.Getenv(killStore)
	journal, err := os.OpenFile(journalOf(store), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close() //nolint:errcheck // it was only appended to
	round, err := strconv.Atoi(os.Getenv(killRound))
	if err != nil {
		t.Fatal(err)
	}
	server := bustest.Server(t, busembed.Config{StoreDir: filepath.Join(store, "nats")})
	w := &faultsWorkload{round: round, journal: journal}
	node, err := w.node(bustest.Open(t, server))
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer node.Stop(harness.Context(t))
	h, err := session.New(session.Config{Bus: bustest.Open(t, server), Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv(killCold) != "" {
		defer archiveConcurrently(t, bustest.Open(t, server))()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*lastRun) // the process that started this one kills it before
	defer cancel()
	if err := drive(ctx, h, killSessions, killTurns); err != nil {
		t.Fatal(err)
	}
}

// TestSmokeKillDuringTurns kills a node with its server again and again, at random points, in the middle of 200 turns.
// The history must agree with the journal outside the system.
func TestSmokeKillDuringTurns(t *testing.T) {
	t.Parallel()
	rounds := runtest.Of(4, 12)
	const seed = 20261121
	random := rand.New(rand.NewPCG(seed, 0))
	store := t.TempDir()
	killed := 0
	for round := range rounds {
		wait := time.Duration(50+random.IntN(550)) * time.Millisecond
		if !killOne(t, store, round, wait) {
			break
		}
		killed++
	}
	t.Logf("seed %d: killed %d times", seed, killed)
	if out, err := killChild(harness.Context(t), store, rounds).CombinedOutput(); !faultsPassed(out) {
		t.Fatalf("the last run: got %v\n%s", err, out)
	}
	journal, err := os.ReadFile(journalOf(store))
	if err != nil {
		t.Fatal(err)
	}
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
const lastRun = 2 * time.Minute

// killOne runs the process and kills it after wait. It reports whether the process was still working.
func killOne(t *testing.T, store string, round int, wait time.Duration, env ...string) (killed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	out, err := killChild(ctx, store, round, env...).CombinedOutput() // the end of ctx is a kill -9
	if !faultsPassed(out) && ctx.Err() == nil {
		t.Fatalf("round %d: got %v\n%s", round, err, out)
	}
	t.Logf("round %d: %v, killed %v", round, wait, !faultsPassed(out))
	return !faultsPassed(out)
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
		if err != nil {
			t.Fatal(err)
		}
		if err := node.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := <-driven; err != nil {
		t.Fatal(err)
	}
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
