package system

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

// site is the place of the faults of these tests: a system on one server, or on three that replicate everything,
// to which other processes can connect.
type site struct {
	*harness.System
	url      string
	replicas int
	connect  func() *bus.Bus // as another process
}

// onSites runs a test on one server and, of the long tests, on three.
func onSites(t *testing.T, test func(s *site)) {
	t.Helper()
	t.Run("one_server", func(t *testing.T) {
		t.Parallel()
		server := bustest.Server(t, busembed.Config{Listen: true})
		test(newSite(t, server.URL(), 1, func() *bus.Bus { return bustest.Open(t, server) }))
	})
	if !runtest.Long() {
		return // elections take seconds
	}
	t.Run("three_servers", func(t *testing.T) {
		t.Parallel()
		cluster := bustest.StartCluster(t)
		test(newSite(t, cluster.URL, 3, func() *bus.Bus { return cluster.Open(t) }))
	})
}

func newSite(t *testing.T, url string, replicas int, connect func() *bus.Bus) *site {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute) // three servers on a busy machine take their time
	t.Cleanup(cancel)
	s := &site{System: &harness.System{T: t, Ctx: ctx, Model: &harness.Model{T: t}, Tools: plugin.NewTools()}, url: url, replicas: replicas, connect: connect}
	s.Bus = connect()
	s.Host = s.NewHost(s.Bus)
	return s
}

// share is whole on one server, and part on three.
func (s *site) share(whole, part int) int {
	if s.replicas > 1 {
		return part
	}
	return whole
}

// ends starts a node that ends with the test, and returns how to end it as a killed process ends: its connection
// is closed, so that it writes nothing more.
func (s *site) ends(on *bus.Bus, n *workers.Node) (kill func()) {
	s.T.Helper()
	runtest.WantError(s.T, "start", n.Start(s.Ctx), nil)
	var once sync.Once
	kill = func() {
		once.Do(func() {
			on.Close()
			now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
			cancel()
			n.Stop(now)
		})
	}
	s.T.Cleanup(kill)
	return kill
}

// barrier blocks the effects of workloads that start while it is shut.
type barrier struct {
	mu   sync.Mutex
	came chan string   // the effects that it holds, "<session>/<effect>"
	shut chan struct{} // closed when it opens; nil: it is open
}

func shutBarrier() *barrier {
	return &barrier{came: make(chan string, 1<<14), shut: make(chan struct{})}
}

func (g *barrier) block(ctx context.Context, effect string) {
	g.mu.Lock()
	shut := g.shut
	if shut != nil {
		g.came <- effect
	}
	g.mu.Unlock()
	if shut == nil {
		return
	}
	select {
	case <-shut:
	case <-ctx.Done():
	}
}

// open unblocks everything.
func (g *barrier) open() { g.turn(nil) }

// next unblocks the blocked effects, and blocks later ones.
func (g *barrier) next() { g.turn(make(chan struct{})) }

func (g *barrier) turn(shut chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(g.came) > 0 {
		<-g.came
	}
	close(g.shut)
	g.shut = shut
}

// wakeFixture is a workload at a site, with a barrier that is shut, and a journal that processes share.
type wakeFixture struct {
	*site
	gate     *barrier
	workload *faultsWorkload
	file     string   // the journal
	kills    []func() // of the nodes in this process, in order of their start
}

func (s *site) wakeFixture(most int) *wakeFixture {
	s.T.Helper()
	w := &wakeFixture{site: s, gate: shutBarrier(), file: filepath.Join(s.T.TempDir(), "journal")}
	journal, err := os.OpenFile(w.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	runtest.WantError(s.T, "journal", err, nil)
	s.T.Cleanup(func() { _ = journal.Close() })
	w.workload = &faultsWorkload{journal: journal, most: most, block: w.gate.block}
	return w
}

// start starts a node with the workload in this process.
func (w *wakeFixture) start() *workers.Node {
	w.T.Helper()
	on := w.connect()
	n, err := w.workload.node(on)
	runtest.WantError(w.T, "node", err, nil)
	w.kills = append(w.kills, w.ends(on, n))
	return n
}

// process starts such a node in a process of its own.
func (w *wakeFixture) process(cfg childConfig) *child {
	w.T.Helper()
	cfg.URL, cfg.Replicas, cfg.Journal = w.url, w.replicas, w.file
	return startChild(w.T, "TestChildNode", cfg, nil)
}

// awaitBlocked waits until the barrier blocks an effect of that many sessions that started since it was shut.
func (w *wakeFixture) awaitBlocked(n int) {
	w.T.Helper()
	for sessions := make(map[string]bool); len(sessions) < n; {
		name, _, _ := strings.Cut(harness.Receive(w.System, "held effects", w.gate.came), "/")
		sessions[name] = true
	}
}

// audit stops the nodes of this process, and audits all.
func (w *wakeFixture) audit(sessions, turns int) totals {
	w.T.Helper()
	for _, kill := range w.kills {
		kill()
	}
	journal, err := os.ReadFile(w.file)
	runtest.WantError(w.T, "journal", err, nil)
	return auditAll(w.T, w.Bus, sessions, turns, string(journal))
}
