package system

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
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
	const rounds = 6
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
	runtest.NoError(t, err)
	b := bustest.Open(t, bustest.Server(t, busembed.Config{StoreDir: filepath.Join(store, "nats")}))
	auditAll(t, b, killSessions, killTurns, string(journal))
	runtest.Equal(t, "sessions that went cold", archivedOf(t, b), killSessions)
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
	runtest.NoError(t, err)
	stream, err := js.Stream(t.Context(), "lash-archive")
	runtest.NoError(t, err)
	return int(stream.CachedInfo().State.Msgs)
}
