package system

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/turn"
)

// archiveConcurrently archives sessions whenever they are idle, until stop.
func archiveConcurrently(t *testing.T, b *bus.Bus) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := follow.NewArchiver(b, follow.ArchiverConfig{Parked: turn.Parked})
	var archiving sync.WaitGroup
	archiving.Go(func() {
		for ctx.Err() == nil {
			for hot, err := range b.Hot(ctx) {
				if err == nil {
					_, err = a.Archive(ctx, hot.ID)
				}
				if err != nil && ctx.Err() == nil && !errors.Is(err, events.ErrOutcomeUnknown) {
					t.Errorf("archive %s: %v", hot.ID, err)
				}
			}
			if err := b.SweepOrphans(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, events.ErrOutcomeUnknown) {
				t.Errorf("forsaken: %v", err)
			}
		}
	})
	return func() {
		cancel()
		archiving.Wait()
	}
}

// TestColdServerKilled is TestSmokeKillDuringTurns with an archiver that makes sessions cold all the time.
func TestColdServerKilled(t *testing.T) {
	t.Parallel()
	rounds := runtest.Of(3, 10)
	const seed = 20261122
	random := rand.New(rand.NewPCG(seed, 0))
	store := t.TempDir()
	for round := range rounds {
		at := killPoint{[]string{"archive", "effect", "commit"}[round%3], 1 + random.IntN(100), random.IntN(2) == 0}
		killOne(t, store, round, at, killCold+"=1")
	}
	ctx, cancel := context.WithTimeout(t.Context(), lastRun)
	defer cancel()
	if out, err := killChild(ctx, store, rounds, killCold+"=1").CombinedOutput(); !faultsPassed(out) {
		t.Fatalf("the last run: got %v\n%s", err, out)
	}
	journal, err := os.ReadFile(journalOf(store))
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.Open(t, bustest.Server(t, busembed.Config{StoreDir: filepath.Join(store, "nats")}))
	auditAll(t, b, killSessions, killTurns, string(journal))
	harness.Equal(t, "sessions that went cold", archivedOf(t, b), killSessions)
}

// awaitAllCold waits, between turns, until every session has been cold.
func awaitAllCold(t *testing.T, b *bus.Bus, sessions int) {
	t.Helper()
	bustest.Eventually(t, "every session was cold", func() bool { return archivedOf(t, b) >= sessions })
}

// archivedOf is the number of sessions that have been cold.
func archivedOf(t *testing.T, b *bus.Bus) int {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "lash-archive")
	if err != nil {
		t.Fatal(err)
	}
	return int(stream.CachedInfo().State.Msgs)
}

// Variables of the nodes that are killed while their server lives.
const (
	coldURL     = "LASH_COLD_URL"
	coldJournal = "LASH_COLD_JOURNAL"
	coldRound   = "LASH_COLD_ROUND"
	coldPlace   = "LASH_COLD_AT" // where the node kills itself; empty: nowhere
)

// TestChildColdNode runs in other processes, which TestColdNodesKilled starts: a node, and an archiver without
// pauses.
func TestChildColdNode(t *testing.T) {
	url := os.Getenv(coldURL)
	journal, err := os.OpenFile(os.Getenv(coldJournal), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	round, err := strconv.Atoi(os.Getenv(coldRound))
	if err != nil {
		t.Fatal(err)
	}
	b, err := bus.Open(t.Context(), bus.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	w := &faultsWorkload{round: round, journal: journal, onLines: killPointIn(t, coldPlace).atEffect}
	node, err := w.node(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	archiveConcurrently(t, b)
	<-t.Context().Done() // until it is killed
}

// TestColdNodesKilled runs turns on two nodes that archive without pauses, and are killed in effects, and started again:
// every turn ends, and every history is valid.
func TestColdNodesKilled(t *testing.T) {
	t.Parallel()
	const sessions, turns, seed = 8, 6, 20261123
	random := rand.New(rand.NewPCG(seed, 0))
	server := bustest.Server(t, busembed.Config{Listen: true})
	journal := filepath.Join(t.TempDir(), "journal")
	b := bustest.Open(t, server)
	h, err := session.New(session.Config{Bus: b, Plugins: session.NoPlugins()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, driven := harness.Context(t), make(chan error, 1)
	alive, stop := context.WithCancel(ctx)
	var nodes sync.WaitGroup
	ended := make(chan error, 2)
	start := func(round int, env ...string) {
		cmd := runtest.Child(alive, "TestChildColdNode", append(env, coldURL+"="+server.URL(), coldJournal+"="+journal, coldRound+"="+strconv.Itoa(round))...)
		if err := cmd.Start(); err != nil {
			t.Error(err)
		}
		nodes.Go(func() { ended <- cmd.Wait() })
	}
	killing := func() string { return coldPlace + "=" + killPoint{what: "effect", n: 1 + random.IntN(20)}.String() } // of 480
	start(0, killing())
	start(1, killing())
	kills := 0
	driveUntil := func(first, last int) {
		go func() { driven <- driveFrom(ctx, h, sessions, first, last) }()
		for {
			select {
			case err := <-driven:
				harness.WantError(t, "drive", err, nil)
				return
			case err := <-ended:
				if !wasKilled(err) {
					t.Fatalf("a node: got %v, want it killed", err)
				}
				if kills++; kills < 10 {
					start(1+kills, killing())
				} else {
					start(1 + kills)
				}
			}
		}
	}
	driveUntil(0, turns/2)
	awaitAllCold(t, b, sessions) // one node lives: it ran the last turn
	driveUntil(turns/2, turns)
	stop() // a kill -9
	nodes.Wait()
	lines, err := os.ReadFile(journal) //nolint:gosec // of this test
	if err != nil {
		t.Fatal(err)
	}
	auditAll(t, b, sessions, turns, string(lines))
	t.Logf("seed %d: killed %d nodes", seed, kills)
	if kills < 2 {
		t.Errorf("killed %d nodes, want both of the first ones", kills)
	}
}
