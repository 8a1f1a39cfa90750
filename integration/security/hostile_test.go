package security

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/cmd/lash-node/serve"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/webpage"
	"github.com/lash-go/lash/workers"
)

var (
	hostileRequests = flag.Int("hostile.requests", runtest.Of(3000, 20_000), "requests that TestSmokeHostileRequests makes up")
	hostileSeed     = flag.Uint64("hostile.seed", 1, "of them")
)

// siege sends hostile requests, and records their outcomes.
type siege struct {
	*installation
	targets   map[string][]target // by transport
	program   *hostileProgram
	pages     map[string][]byte // files of the page, by their path
	remaining atomic.Int64

	mu       sync.Mutex
	sent     map[[2]string]int        // by transport and operation
	changes  map[[2]string]int        // by transport and kind of change
	outcomes map[[2]string]int        // by transport and code
	took     map[string]time.Duration // by transport
	wrote    []written
	promised []promise
	keys     map[string]bool           // of requests that were refused
	made     map[events.SessionID]bool // by requests that were accepted
	failures int
}

// newSiege starts two nodes whose limits of idle sessions are short, with everything that the generator needs.
func newSiege(t *testing.T) *siege {
	t.Helper()
	page, err := webpage.New(webpage.Settings{})
	runtest.WantError(t, "page", err, nil)
	s := &siege{
		took: make(map[string]time.Duration), keys: make(map[string]bool),
		sent: make(map[[2]string]int), changes: make(map[[2]string]int), outcomes: make(map[[2]string]int), made: make(map[events.SessionID]bool),
	}
	most := 3*time.Minute + time.Duration(*hostileRequests)*20*time.Millisecond
	s.installation = newInstallation(t, harness.ContextFor(t, most), installationConfig{
		nodes: 1, plugins: hostilePlugins(), provider: withHostileTool,
		node: workers.Config{Sessions: 32, Idle: time.Second, ArchiveAfter: 4 * time.Second},
		http: httpapi.Config{Agents: serve.Agents, Page: page, MaxBytesPerMinute: 8 << 30},
	})
	s.remaining.Store(int64(*hostileRequests))
	s.program = s.startHostileProgram()
	return s
}

func (s *siege) wrong(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures++; s.failures <= 20 {
		s.T.Errorf(format, args...)
	}
}

// TestSmokeHostileRequests makes random requests of every operation for every transport, and sends them to two nodes that play
// recorded conversations meanwhile. Nothing panics, each refusal has a reason, each accepted write is in its
// history, the conversations equal the recordings, and the process is as small as before. It is not parallel,
// because it counts goroutines and the heap of the process.
func TestSmokeHostileRequests(t *testing.T) {
	s := newSiege(t)
	warm, plans := s.plans("warm", 2), s.plans("played", 400)
	for _, plan := range warm {
		s.play(plan)
	}
	s.targets = s.table()
	s.program.warm()
	before := s.size()
	began := time.Now()
	var all, players sync.WaitGroup
	played := 0
	players.Go(func() {
		for _, plan := range plans {
			if played >= 2 && s.remaining.Load() <= 0 {
				return
			}
			s.play(plan)
			played++
		}
	})
	s.program.supply(&players)
	for worker := range uint64(4) {
		all.Go(func() { s.attack(worker) })
	}
	all.Wait()
	took := time.Since(began)
	s.program.drain()
	players.Wait()
	s.histories()
	s.closeAll()
	s.smallAgain(before)
	s.report()
	t.Logf("%d requests in %s: %d commits and %d other results found, nothing of %d refused ones, %d sessions made, %d conversations played, %d calls of a plugin",
		*hostileRequests, took.Round(time.Millisecond), len(s.wrote), len(s.promised), len(s.keys), len(s.made), played, s.program.ended())
	if len(s.wrote) == 0 || len(s.promised) == 0 || len(s.keys) == 0 {
		t.Error("want some of each")
	}
}

// attack sends requests until there are enough. It changes the session under attack from time to time.
func (s *siege) attack(n uint64) {
	a := &attacker{siege: s, forger: newForger(*hostileSeed, n), decks: make(map[string][]target)}
	defer a.endCall()
	for i := 0; s.remaining.Add(-1) >= 0; i++ {
		a.id = fmt.Sprintf("h-%d-%d", n, i/400)
		if i%400 == 0 {
			s.create(events.SessionID(a.id))
		}
		a.fresh = fmt.Sprintf("n-%d-%d", n, a.IntN(40))
		a.names = []string{a.id, a.fresh, "nosuch", "warm-0", "played-0", "h-0-0"}
		a.hit(a.draw())
	}
}

func (s *siege) create(id events.SessionID) {
	if _, err := s.Create(s.Ctx, api.CreateRequest{ID: id}); err != nil {
		s.wrong("create: %v", err)
	}
	s.record(id)
}

// record records a session that a request made.
func (s *siege) record(id events.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[id] = true
}

// sessions are those that requests made.
func (s *siege) sessions() (list []events.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.made {
		list = append(list, id)
	}
	slices.Sort(list)
	return list
}
