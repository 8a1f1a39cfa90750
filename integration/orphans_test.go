package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// orphaned has nodes whose first model calls never return. Nobody's quiet
// makes the queue deliver a job again: it hears of every one all the time.
type orphaned struct {
	*bundle
	asked chan events.WorkerID // by whom the model is asked
	mu    sync.Mutex
	hangs int // calls that hang yet
}

func setupOrphaned(t *testing.T, hangs int) *orphaned {
	t.Helper()
	b := &orphaned{bundle: setupIdle(t), asked: make(chan events.WorkerID, 16), hangs: hangs}
	var holding sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); holding.Wait() })
	holding.Go(func() {
		ticks := time.NewTicker(bus.AckWait / 10)
		defer ticks.Stop()
		for ctx.Err() == nil {
			for message := 1; message < 8; message++ {
				_ = b.bus.Conn().Publish(fmt.Sprintf("$JS.ACK.lash-work.turn.1.%d.1.0.0", message), []byte("+WPI"))
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
			}
		}
	})
	return b
}

// start starts a run of a node, for so many sessions at once.
func (b *orphaned) start(name string, id events.WorkerID, on *bus.Bus, sessions int) {
	b.t.Helper()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Name: name, ID: id, Concurrency: sessions, Provider: "scripted", Logger: zaptest.NewLogger(b.t),
		Providers: map[string]llm.Provider{"scripted": scripted.New(func(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
			b.asked <- id
			b.mu.Lock()
			hang := b.hangs > 0
			b.hangs--
			b.mu.Unlock()
			if hang {
				<-ctx.Done()
				return scripted.Answer{}, context.Cause(ctx)
			}
			return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{text("done")}}}, nil
		})},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := n.Start(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
		cancel()
		n.Stop(now)
	})
}

// TestOrphans has a worker vanish in the middle of a turn: another that knows
// it, one that comes when it is gone, or its node's next run goes on, though
// the queue would never have delivered the job again.
func TestOrphans(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		first, second string // nodes
		early         bool   // the second one is there when the first vanishes
	}{
		{"watched", "a", "b", true},
		{"watched_by_smaller", "b", "a", true},
		{"found_at_start", "a", "b", false},
		{"same_node", "a", "a", false},
		{"nameless", "", "", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := setupOrphaned(t, 1)
			away := bustest.Open(t, b.server)
			first, second := events.WorkerID(tc.first+"-1"), events.WorkerID(tc.second+"-2")
			b.start(tc.first, first, away, 8)
			id := b.open(api.CreateRequest{})
			b.submit(id, "t1", text("go"))
			equal(t, "asks first", receive(b.bundle, "first call", b.asked), first)
			if tc.early {
				b.start(tc.second, second, b.bus, 8)
				awaitWatched(b, second)
			}
			away.Close()
			if !tc.early {
				b.start(tc.second, second, b.bus, 8)
			}
			equal(t, "asks again", receive(b.bundle, "second call", b.asked), second)
			record := b.ended(id, "t1")
			equal(t, "end", record.End, events.EndFinished)
			equal(t, "attempts", record.Attempts, 2)
			verified(t, b.bus, id)
		})
	}
}

// awaitWatched waits until a worker knows those before it. It takes in
// announcements one after the other, so that it has that of every other by its
// own second one, two seconds later.
func awaitWatched(b *orphaned, worker events.WorkerID) {
	b.t.Helper()
	announced := make(chan events.WorkerID, 64)
	stop, err := b.bus.Announced(func(id events.WorkerID) { announced <- id })
	if err != nil {
		b.t.Fatal(err)
	}
	defer stop()
	for own, others := 0, 0; own < 2; {
		switch id := receive(b.bundle, "announcement", announced); {
		case id != worker:
			others++
		case others > 0:
			own++
		}
	}
}

// lose takes a wake as a worker does that dies at once.
func (b *orphaned) lose() {
	b.t.Helper()
	queue, err := b.bus.Queue(b.ctx, bus.ClassTurn)
	must(b.t, "join", err, nil)
	taken := 0
	if _, err := queue.Fetch(b.ctx, 1, time.Minute, func(*bus.Wake) { taken++ }); err != nil || taken != 1 {
		b.t.Fatalf("fetch: got %d wakes, %v, want 1", taken, err)
	}
}

// TestOrphanUnclaimed leaves a job with a worker that vanished before it claimed the turn.
func TestOrphanUnclaimed(t *testing.T) {
	t.Parallel()
	b := setupOrphaned(t, 0)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.lose()
	b.start("a", "a-1", b.bus, 8)
	record := b.ended(id, "t1")
	equal(t, "attempts", record.Attempts, 1)
}

// TestOrphanAlive has a worker that lives keep its turn while another's is found to be an orphan.
func TestOrphanAlive(t *testing.T) {
	t.Parallel()
	b := setupOrphaned(t, 2)
	b.start("a", "a-1", bustest.Open(t, b.server), 1)
	held, left, next := b.open(api.CreateRequest{}), b.open(api.CreateRequest{}), b.open(api.CreateRequest{})
	b.submit(held, "t1", text("go"))
	equal(t, "asks first", receive(b.bundle, "first call", b.asked), "a-1")
	away := bustest.Open(t, b.server)
	b.start("b", "b-1", away, 1)
	b.submit(left, "t1", text("go"))
	equal(t, "asks then", receive(b.bundle, "second call", b.asked), "b-1")
	away.Close()
	b.start("a", "a-2", b.bus, 8)
	b.ended(left, "t1")
	b.submit(next, "t1", text("go"))
	b.ended(next, "t1")
	s := b.state(held)
	equal(t, "worker", s.Turn().Worker, events.WorkerID("a-1"))
	equal(t, "attempt", s.Turn().Attempt, 1)
}

// TestOrphanAgain has the worker that got an orphan vanish before it claimed the
// turn, and then the one that sent it: the next one that comes sends it once more.
func TestOrphanAgain(t *testing.T) {
	t.Parallel()
	b := setupOrphaned(t, 2)
	first, second := bustest.Open(t, b.server), bustest.Open(t, b.server)
	b.start("a", "a-1", first, 1)
	left, other := b.open(api.CreateRequest{}), b.open(api.CreateRequest{})
	b.submit(left, "t1", text("go"))
	equal(t, "asks first", receive(b.bundle, "first call", b.asked), "a-1")
	b.start("b", "b-1", second, 1)
	awaitWatched(b, "b-1")
	b.submit(other, "t1", text("go"))
	equal(t, "asks then", receive(b.bundle, "second call", b.asked), "b-1") // it is full: it takes no orphan
	first.Close()
	b.lose()
	second.Close()
	b.start("c", "c-1", b.bus, 8)
	for _, id := range []events.SessionID{left, other} {
		equal(t, "attempts", b.ended(id, "t1").Attempts, 2)
		verified(t, b.bus, id)
	}
}
