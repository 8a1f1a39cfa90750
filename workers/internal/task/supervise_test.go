package task

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/internal/wake"
)

// TestFinish records the result of a task, and acks its wake.
func TestFinish(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		work    Func
		state   events.TaskState
		summary string
	}{
		"completes": {func(context.Context, *Running) (string, error) { return "all good", nil }, events.TaskCompleted, "all good"},
		"fails":     {func(context.Context, *Running) (string, error) { return "", errors.New("no disk") }, events.TaskFailed, "no disk"},
		"panics":    {func(context.Context, *Running) (string, error) { panic("boom") }, events.TaskFailed, "panic: boom"},
		"arguments": {func(_ context.Context, r *Running) (string, error) { return string(r.Args()), nil }, events.TaskCompleted, `{"a":1}`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.start(b.service("w1", c.work), bus.ClassTask)
			b.register(api.TaskRequest{Runner: "r", Args: []byte(`{"a":1}`)})
			if rec := b.awaitState(c.state); rec.Summary != c.summary || rec.Attempt != 1 || rec.Worker != "w1" {
				t.Errorf("got %q, attempt %d of %s, want %q", rec.Summary, rec.Attempt, rec.Worker, c.summary)
			}
			b.awaitWakes(0)
		})
	}
}

// TestCompare cancels the work of a task that the history has ended, or has given to another worker. It does not cancel
// the work of a task that was only unregistered.
func TestCompare(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		change func(*bundle)
		cause  error // nil: the work continues
		wakes  int
	}{
		"cancelled": {func(b *bundle) {
			_, err := b.Host.CancelTask(b.T.Context(), sid, name)
			runtest.NoError(b.T, err)
		}, ErrTaskCancelled, 0},
		"cancelRequested": {func(b *bundle) {
			_, err := b.Host.RequestCancelTask(b.T.Context(), sid, name, "enough")
			runtest.NoError(b.T, err)
		}, ErrTaskCancelled, 0},
		"erased": {func(b *bundle) {
			_, err := b.Host.Erase(b.T.Context(), sid, "test")
			runtest.NoError(b.T, err)
		}, ErrTaskCancelled, 0},
		"claimed": {func(b *bundle) { b.claim("w2") }, wake.ErrSuperseded, 1},
		"unregistered": {func(b *bundle) {
			runtest.NoError(b.T, b.Host.UnregisterTask(b.T.Context(), sid, name))
		}, nil, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b, work := setup(t), newBlocked()
			s := b.start(b.service("w1", work.run), bus.ClassTask)
			b.register(api.TaskRequest{Runner: "r"})
			bustest.Receive(t, "an event", work.started)
			if what == "claimed" {
				b.answer("w2", true)
			}
			c.change(b)
			if c.cause != nil {
				if cause := bustest.Receive(t, "an event", work.causes); !errors.Is(cause, c.cause) {
					t.Errorf("got the cause %v, want %v", cause, c.cause)
				}
			}
			b.awaitWakes(c.wakes)
			if c.cause == nil {
				if len(work.causes) != 0 || s.Running() != 1 {
					t.Errorf("got %d cancels, %d running, want the work to continue", len(work.causes), s.Running())
				}
				close(work.release)
			}
			bustest.Eventually(t, "the run ends", func() bool { return s.Running() == 0 })
		})
	}
}

// TestSuperseded leaves the record of a task to the worker that has claimed it.
func TestSuperseded(t *testing.T) {
	t.Parallel()
	b, work := setup(t), newBlocked()
	b.start(b.service("w1", work.run), bus.ClassTask)
	b.register(api.TaskRequest{Runner: "r"})
	bustest.Receive(t, "an event", work.started)
	b.answer("w2", true)
	claimed := b.claim("w2")
	if cause := bustest.Receive(t, "an event", work.causes); !errors.Is(cause, wake.ErrSuperseded) {
		t.Errorf("got the cause %v, want %v", cause, wake.ErrSuperseded)
	}
	if rec := b.task(); rec.State != events.TaskRunning || rec.Worker != "w2" || rec.Attempt != claimed.Attempt {
		t.Errorf("got %s, attempt %d of %s, want it running on w2", rec.State, rec.Attempt, rec.Worker)
	}
}

// TestStop releases a task that another worker can continue, and abandons any other one.
func TestStop(t *testing.T) {
	t.Parallel()
	for restart, c := range map[events.RestartPolicy]struct {
		state   events.TaskState
		summary string
		wakes   int
	}{
		events.RestartAlways: {events.TaskWaiting, "", 1},
		events.RestartNever:  {events.TaskFailed, "abandoned: worker w1 stopped", 0},
	} {
		b, work := setup(t), newBlocked()
		s := b.start(b.service("w1", work.run), bus.ClassTask)
		b.register(api.TaskRequest{Runner: "r", Restart: restart})
		bustest.Receive(t, "an event", work.started)
		now, cancel := context.WithCancel(t.Context())
		cancel()
		s.Stop(now)
		if cause := bustest.Receive(t, "an event", work.causes); !errors.Is(cause, wake.ErrStopped) {
			t.Errorf("%s: got the cause %v, want %v", restart, cause, wake.ErrStopped)
		}
		if rec := b.task(); rec.State != c.state || !strings.Contains(rec.Summary, c.summary) {
			t.Errorf("%s: got %s, %q, want %s, %q", restart, rec.State, rec.Summary, c.state, c.summary)
		}
		b.awaitWakes(c.wakes)
	}
}

// TestSpawn runs a function of this process, and refuses it where the service does not run.
func TestSpawn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.service("w1", nil)
	work := func(context.Context, *Running) (string, error) { return "here", nil }
	_, err := s.SpawnManaged(t.Context(), sid, api.TaskRequest{ID: name}, work)
	runtest.WantError(t, "before the start", err, errNotStarted)
	b.start(s)
	for _, bad := range []api.TaskRequest{{ID: name, Runner: "r"}, {ID: name, Worker: "w2"}, {ID: name, Restart: events.RestartAlways}, {ID: name, OnCancel: func() {}}} {
		if _, err := s.SpawnManaged(t.Context(), sid, bad, work); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
	_, err = s.SpawnManaged(t.Context(), sid, api.TaskRequest{ID: name}, work)
	runtest.NoError(t, err)
	if rec := b.awaitState(events.TaskCompleted); rec.Summary != "here" || rec.Worker != "w1" {
		t.Errorf("got %q of %s, want the summary of w1", rec.Summary, rec.Worker)
	}
	s.Stop(t.Context())
	_, err = s.SpawnManaged(t.Context(), sid, api.TaskRequest{ID: "later"}, work)
	runtest.WantError(t, "after the stop", err, errNotStarted)
}
