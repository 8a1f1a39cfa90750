package system

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// orphaned has nodes whose first model calls never return. The queue does not redeliver a job because of silence:
// every node reports its progress all the time.
type orphaned struct {
	*harness.System
	calls chan events.WorkerID // the workers of the model calls
	mu    sync.Mutex
	hangs int // calls that hang yet
}

func setupOrphaned(t *testing.T, hangs int) *orphaned {
	t.Helper()
	b := &orphaned{System: harness.StartIdle(t), calls: make(chan events.WorkerID, 16), hangs: hangs}
	var holding sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); holding.Wait() })
	holding.Go(func() {
		ticks := time.NewTicker(bus.AckWait / 10)
		defer ticks.Stop()
		for ctx.Err() == nil {
			for message := 1; message < 8; message++ {
				_ = b.Bus.Conn().Publish(fmt.Sprintf("$JS.ACK.lash-work.turn.1.%d.1.0.0", message), []byte("+WPI"))
			}
			select {
			case <-ticks.C:
			case <-ctx.Done():
			}
		}
	})
	return b
}

// start starts a run of a node, for that many sessions at once.
func (b *orphaned) start(name string, id events.WorkerID, on *bus.Bus, sessions int) {
	b.T.Helper()
	n, err := workers.NewNode(workers.Config{
		Bus: on, Name: name, ID: id, Concurrency: sessions, Provider: "scripted", Logger: zaptest.NewLogger(b.T),
		Providers: map[string]llm.Provider{"scripted": scripted.New(func(ctx context.Context, _ llm.Request) (scripted.Answer, error) {
			b.calls <- id
			b.mu.Lock()
			hang := b.hangs > 0
			b.hangs--
			b.mu.Unlock()
			if hang {
				<-ctx.Done()
				return scripted.Answer{}, context.Cause(ctx)
			}
			return scripted.Answer{Response: llm.Response{Stop: events.StopEnd, Parts: []events.Part{harness.Text("done")}}}, nil
		})},
	})
	runtest.NoError(b.T, err)
	runtest.NoError(b.T, n.Start(b.Ctx))
	b.T.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended in a cleanup
		cancel()
		n.Stop(now)
	})
}

// TestOrphanTurnContinues has a worker vanish in the middle of a turn. A worker that knows it, one that starts later, or the
// next run of its node continues the turn, although the queue would never redeliver the job.
func TestOrphanTurnContinues(t *testing.T) {
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
			secondBus := bustest.Open(t, b.Server)
			first, second := events.WorkerID(tc.first+"-1"), events.WorkerID(tc.second+"-2")
			b.start(tc.first, first, secondBus, 8)
			id := b.Open(api.CreateRequest{})
			b.StartTurn(id, "t1", harness.Text("go"))
			runtest.Equal(t, "asks first", harness.Receive(b.System, "first call", b.calls), first)
			if tc.early {
				b.start(tc.second, second, b.Bus, 8)
				awaitWatched(b, second)
			}
			secondBus.Close()
			if !tc.early {
				b.start(tc.second, second, b.Bus, 8)
			}
			runtest.Equal(t, "asks again", harness.Receive(b.System, "second call", b.calls), second)
			record := b.AwaitTurn(id, "t1")
			runtest.Equal(t, "end", record.End, events.EndFinished)
			runtest.Equal(t, "attempts", record.Attempts, 2)
			harness.VerifyHistory(t, b.Bus, id)
		})
	}
}

// awaitWatched waits until a worker knows those before it. A worker receives announcements one after the other:
// when its own second one arrives, two seconds later, it has one of every other worker.
func awaitWatched(b *orphaned, worker events.WorkerID) {
	b.T.Helper()
	announced := make(chan events.WorkerID, 64)
	stop, err := b.Bus.OnAnnounce(func(id events.WorkerID) { announced <- id })
	runtest.NoError(b.T, err)
	defer stop()
	for own, others := 0, 0; own < 2; {
		switch id := harness.Receive(b.System, "announcement", announced); {
		case id != worker:
			others++
		case others > 0:
			own++
		}
	}
}

// lose takes a wake as a worker does that dies at once.
func (b *orphaned) lose() {
	b.T.Helper()
	queue, err := b.Bus.Queue(b.Ctx, bus.ClassTurn)
	runtest.WantError(b.T, "join", err, nil)
	attempts := 0
	if _, err := queue.Fetch(b.Ctx, 1, time.Minute, func(*bus.Wake) { attempts++ }); err != nil || attempts != 1 {
		b.T.Fatalf("fetch: got %d wakes, %v, want 1", attempts, err)
	}
}

// TestOrphanUnclaimed leaves a job with a worker that vanished before it claimed the turn.
func TestOrphanUnclaimed(t *testing.T) {
	t.Parallel()
	b := setupOrphaned(t, 0)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.lose()
	b.start("a", "a-1", b.Bus, 8)
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "attempts", record.Attempts, 1)
}

// TestOrphanSearchSparesLiveWorkers has a live worker keep its turn while another worker's turn is found to be orphaned.
func TestOrphanSearchSparesLiveWorkers(t *testing.T) {
	t.Parallel()
	b := setupOrphaned(t, 2)
	b.start("a", "a-1", bustest.Open(t, b.Server), 1)
	running, orphan, next := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
	b.StartTurn(running, "t1", harness.Text("go"))
	runtest.Equal(t, "asks first", harness.Receive(b.System, "first call", b.calls), "a-1")
	secondBus := bustest.Open(t, b.Server)
	b.start("b", "b-1", secondBus, 1)
	b.StartTurn(orphan, "t1", harness.Text("go"))
	runtest.Equal(t, "asks then", harness.Receive(b.System, "second call", b.calls), "b-1")
	secondBus.Close()
	b.start("a", "a-2", b.Bus, 8)
	b.AwaitTurn(orphan, "t1")
	b.StartTurn(next, "t1", harness.Text("go"))
	b.AwaitTurn(next, "t1")
	s := b.StateOf(running)
	runtest.Equal(t, "worker", s.Turn().Worker, events.WorkerID("a-1"))
	runtest.Equal(t, "attempt", s.Turn().Attempt, 1)
}

// TestOrphanOfTwoDeadWorkers has the worker that received an orphaned job vanish before it claimed the turn, and then the
// worker that sent it: the next worker sends it again.
func TestOrphanOfTwoDeadWorkers(t *testing.T) {
	t.Parallel()
	b := setupOrphaned(t, 2)
	first, second := bustest.Open(t, b.Server), bustest.Open(t, b.Server)
	b.start("a", "a-1", first, 1)
	orphan, other := b.Open(api.CreateRequest{}), b.Open(api.CreateRequest{})
	b.StartTurn(orphan, "t1", harness.Text("go"))
	runtest.Equal(t, "asks first", harness.Receive(b.System, "first call", b.calls), "a-1")
	b.start("b", "b-1", second, 1)
	awaitWatched(b, "b-1")
	b.StartTurn(other, "t1", harness.Text("go"))
	runtest.Equal(t, "asks then", harness.Receive(b.System, "second call", b.calls), "b-1") // it is full: it takes no orphan
	first.Close()
	b.lose()
	second.Close()
	b.start("c", "c-1", b.Bus, 8)
	for _, id := range []events.SessionID{orphan, other} {
		runtest.Equal(t, "attempts", b.AwaitTurn(id, "t1").Attempts, 2)
		harness.VerifyHistory(t, b.Bus, id)
	}
}
