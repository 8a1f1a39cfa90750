package callback

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

func TestMain(m *testing.M) { bustest.VerifyTestMain(m) }

// bundle is a set of callbacks on a server without sessions. Its tasks are records without a history: each change of
// one is a change whose live message was lost.
type bundle struct {
	*Callbacks
	bus    *bus.Bus
	before int // subscriptions of the connection without callbacks

	mu    sync.Mutex
	tasks map[key]projector.Task
}

func setup(t *testing.T, every time.Duration) *bundle {
	t.Helper()
	b := &bundle{bus: bustest.Open(t, bustest.Server(t, busembed.Config{})), tasks: make(map[key]projector.Task)}
	b.before = b.bus.Conn().NumSubscriptions()
	b.Callbacks = New(b.bus, zaptest.NewLogger(t), b.read)
	b.every = every
	return b
}

func (b *bundle) read(_ context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t, ok := b.tasks[key{id, name}]; ok {
		return t, nil
	}
	return projector.Task{}, events.ErrNoSession
}

// put changes a record; an empty state erases its session.
func (b *bundle) put(id events.SessionID, t projector.Task) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[key{id, "k"}] = t; t.State == "" {
		delete(b.tasks, key{id, "k"})
	}
}

func (b *bundle) subscriptions() int { return b.bus.Conn().NumSubscriptions() - b.before }

// TestLostLiveMessage: a task changes to each of its states without a live message, here and after a transfer.
func TestLostLiveMessage(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{false, true} {
		for state, want := range map[events.TaskState]int64{
			events.TaskCancelling: 1, events.TaskCancelled: 1, events.TaskCompleted: 0, events.TaskFailed: 0, "": 0,
		} {
			b := setup(t, time.Millisecond)
			at := events.SessionID("s")
			b.put(at, projector.Task{ID: "k", State: events.TaskRunning})
			var calls atomic.Int64
			runtest.NoError(t, b.Set(t.Context(), at, "k", func() { calls.Add(1) }))
			if moved {
				b.put("to", projector.Task{ID: "k", State: events.TaskRunning})
				b.put(at, projector.Task{ID: "k", State: events.TaskRunning, To: "to"})
				at = "to"
			}
			b.put(at, projector.Task{ID: "k", State: state})
			bustest.Eventually(t, string(state), func() bool { return b.subscriptions() == 0 && calls.Load() == want })
		}
	}
}

// TestSetAtOnce sets callbacks of one task at once: one of them is kept, and has the one subscription.
func TestSetAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Hour)
	b.put("s", projector.Task{ID: "k", State: events.TaskRunning})
	var calls atomic.Int64
	for range 2000 {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				runtest.WantError(t, "set", b.Set(t.Context(), "s", "k", func() { calls.Add(1) }), nil)
			})
		}
		all.Wait()
		if n := b.subscriptions(); n != 1 {
			t.Fatalf("got %d subscriptions, want 1", n)
		}
	}
	b.Call("s", "k")
	b.Call("s", "k")
	if n := b.subscriptions(); n != 0 || calls.Load() != 1 {
		t.Errorf("got %d calls and %d subscriptions, want 1 and none", calls.Load(), n)
	}
}

// TestOfEarlierTask: a read of an earlier task with the id ends after the callback of the later task was set.
func TestOfEarlierTask(t *testing.T) {
	t.Parallel()
	b := setup(t, time.Hour)
	b.put("s", projector.Task{ID: "k", State: events.TaskRunning})
	fail := func() { t.Error("called for another task") }
	runtest.NoError(t, b.Set(t.Context(), "s", "k", fail))
	earlier := b.list[key{"s", "k"}]
	runtest.NoError(t, b.Set(t.Context(), "s", "k", fail))
	for _, state := range []events.TaskState{events.TaskCancelled, events.TaskCompleted} {
		b.put("s", projector.Task{ID: "k", State: state})
		runtest.NoError(t, b.look(t.Context(), key{"s", "k"}, earlier))
	}
	b.put("s", projector.Task{})
	if err := b.look(t.Context(), key{"s", "k"}, earlier); !errors.Is(err, events.ErrNoSession) {
		t.Errorf("erased: got %v", err)
	}
	if n := b.subscriptions(); n != 1 {
		t.Errorf("got %d subscriptions, want that of the later task", n)
	}
}
