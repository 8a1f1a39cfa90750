package session_test

import (
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/task"
)

const hintSid events.SessionID = "s"

// waiting is a session with a turn that waits.
func waiting() *projector.State {
	s := projector.New(hintSid)
	s.Status, s.Seq = projector.StatusOpen, 2
	s.Queue = []projector.QueuedTurn{{ID: "t1", Seq: 2}}
	return s
}

func requested() []events.Event { return []events.Event{events.Of("t1", &events.TurnRequested{})} }

// wakes counts the wakes of the queue.
func wakes(t *testing.T, b *bus.Bus) map[bus.WakeKey]bool {
	t.Helper()
	runtest.NoError(t, b.Conn().Flush())
	list, err := b.Wakes(t.Context())
	runtest.NoError(t, err)
	return list
}

// TestCommit publishes the wake of a session that needs a worker, after it has notified the worker of the same process.
func TestCommit(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var notified []events.SessionID
	h := hint.New(b, "w1", func(s *projector.State) { notified = append(notified, s.Session) })
	idle := projector.New(hintSid)
	idle.Status = projector.StatusOpen
	h.Commit(idle, []events.Event{events.Of("", &events.GraphBranched{Leaf: "n"})}, 0)
	if len(notified) != 0 || len(wakes(t, b)) != 0 {
		t.Errorf("idle session: got %v and wakes, want none", notified)
	}
	h.Commit(waiting(), requested(), 0)
	bustest.Eventually(t, "one wake", func() bool { return wakes(t, b)[hint.FallbackKey(hintSid)] })
	if len(notified) != 1 || notified[0] != hintSid {
		t.Errorf("worker of this process: got %v, want %s once", notified, hintSid)
	}
}

// TestCommitSetsTheTimer sets the timer of a scheduled turn, and not again for the same time.
func TestCommitSetsTheTimer(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	h := hint.New(b, "", func(*projector.State) {})
	at := events.Millis(4_000_000_000_000) // in 2096
	s := projector.New(hintSid)
	s.Status = projector.StatusOpen
	s.Scheduled = []projector.ScheduledTurn{{ID: "t1", At: at}}
	timer := func() events.Millis {
		now, err := b.Timer(t.Context(), hintSid)
		runtest.NoError(t, err)
		return now
	}
	h.Commit(s, nil, at)
	runtest.NoError(t, b.Conn().Flush())
	runtest.Equal(t, "a timer that is set", timer(), 0)
	h.Commit(s, nil, 0)
	bustest.Eventually(t, "the timer", func() bool { return timer() == at })
}

// TestRepeatTurn publishes a wake that was lost, and leaves a wake that waits at its place.
func TestRepeatTurn(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	h := hint.New(b, "w1", func(*projector.State) {})
	runtest.NoError(t, h.RepeatTurn(t.Context(), waiting()))
	bustest.Eventually(t, "the lost wake", func() bool { return wakes(t, b)[hint.FallbackKey(hintSid)] })
	q, err := b.Queue(t.Context(), bus.ClassTurn)
	runtest.NoError(t, err)
	var first *bus.Wake
	bustest.Eventually(t, "a delivery", func() bool {
		_, err = q.Fetch(t.Context(), 1, 1e9, func(w *bus.Wake) { first = w })
		return err == nil && first != nil
	})
	runtest.NoError(t, h.RepeatTurn(t.Context(), waiting()))
	runtest.NoError(t, b.Conn().Flush())
	runtest.NoError(t, first.Ack())
	bustest.Eventually(t, "an empty queue: the ack is of the only wake", func() bool { return len(wakes(t, b)) == 0 })
}

// TestStore stores the wakes of a session whose commits no host made here.
func TestStore(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	s := waiting()
	s.Tasks = []projector.Task{
		{ID: "run", Of: events.TaskTool, Runner: task.ToolRunner, State: events.TaskRunning},
		{ID: "own", Of: events.TaskTool, State: events.TaskRunning},
		{ID: "ended", Of: events.TaskTool, Runner: task.ToolRunner, State: events.TaskCompleted},
	}
	runtest.NoError(t, hint.Store(t.Context(), b, s))
	got := wakes(t, b)
	want := bus.WakeKey{Class: bus.ClassTool, Session: hintSid, Task: "run"}
	if len(got) != 2 || !got[hint.FallbackKey(hintSid)] || !got[want] {
		t.Errorf("got %v, want the session's wake and that of the task which a worker runs", got)
	}
}
