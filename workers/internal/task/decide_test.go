package task

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/internal/wake"
)

// wakeCase is the outcome of a wake: what the worker w1 decides, and the task after it.
type wakeCase struct {
	want    wakeDecision
	state   events.TaskState
	worker  events.WorkerID
	attempt int64
	summary string // a part of it
	runs    int    // tasks that run here
}

// TestDecide decides on the wake of a task by its state in the history.
func TestDecide(t *testing.T) {
	t.Parallel()
	always := api.TaskRequest{Runner: "r", Restart: events.RestartAlways}
	for what, c := range map[string]struct {
		prepare func(*bundle, *Service)
		wakeCase
	}{
		"first": {func(b *bundle, _ *Service) {
			b.register(api.TaskRequest{Runner: "r"})
		}, wakeCase{wakeOwned, events.TaskRunning, "w1", 1, "", 1}},
		"unknownRunner": {func(b *bundle, _ *Service) {
			b.register(api.TaskRequest{Runner: "other"})
		}, wakeCase{wakeLater, events.TaskPending, "", 0, "", 0}},
		"outside": {func(b *bundle, _ *Service) {
			b.register(api.TaskRequest{})
		}, wakeCase{wakeDone, events.TaskRunning, "", 0, "", 0}},
		"ended": {func(b *bundle, _ *Service) {
			b.register(api.TaskRequest{Runner: "r"})
			runtest.NoError(b.T, b.Host.EndTask(b.T.Context(), sid, name, events.TaskCompleted, "by a host"))
		}, wakeCase{wakeDone, events.TaskCompleted, "", 0, "by a host", 0}},
		"full": {func(b *bundle, s *Service) {
			b.register(api.TaskRequest{ID: "first", Runner: "r"})
			_, err := s.decide(b.T.Context(), b.fetchWake(s, "first"))
			runtest.NoError(b.T, err)
			b.register(api.TaskRequest{Runner: "r"})
		}, wakeCase{wakeLater, events.TaskPending, "", 0, "", 1}},
		"runsHere": {func(b *bundle, s *Service) {
			b.register(api.TaskRequest{Runner: "r"})
			_, err := s.decide(b.T.Context(), b.fetchWake(s, name))
			runtest.NoError(b.T, err)
		}, wakeCase{wakeOwned, events.TaskRunning, "w1", 1, "", 1}},
		"workerLives": {func(b *bundle, _ *Service) {
			b.register(api.TaskRequest{Runner: "r"})
			b.answer("w2", true)
			b.claim("w2")
		}, wakeCase{wakeOwned, events.TaskRunning, "w2", 1, "", 0}},
		"worker_gone": {func(b *bundle, _ *Service) {
			b.register(api.TaskRequest{Runner: "r"})
			b.answer("w2", false)
			b.claim("w2")
		}, wakeCase{wakeDone, events.TaskFailed, "w2", 1, "abandoned: worker w2 is gone", 0}},
		"lostHere": {func(b *bundle, _ *Service) {
			b.register(api.TaskRequest{Runner: "r"})
			b.claim("w1")
		}, wakeCase{wakeDone, events.TaskFailed, "w1", 1, "abandoned: worker w1 is gone", 0}},
		"restarts": {func(b *bundle, _ *Service) {
			b.register(always)
			b.answer("w2", false)
			b.claim("w2")
		}, wakeCase{wakeOwned, events.TaskRunning, "w1", 2, "", 1}},
		"fails": {func(b *bundle, s *Service) {
			b.register(always)
			for range s.cfg.Retry.Attempts {
				b.claim("w1")
			}
		}, wakeCase{wakeDone, events.TaskFailed, "w1", 3, "given up after 3 attempts", 0}},
		"closure": {func(b *bundle, _ *Service) {
			b.register(api.TaskRequest{Worker: "w1"})
		}, wakeCase{wakeDone, events.TaskFailed, "w1", 0, "abandoned: worker w1 is gone", 0}},
		"cancelling": {func(b *bundle, _ *Service) {
			b.register(always)
			b.claim("w1")
			_, err := b.Host.RequestCancelTask(b.T.Context(), sid, name, "enough")
			runtest.NoError(b.T, err)
		}, wakeCase{wakeDone, events.TaskCancelled, "w1", 1, "", 0}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.start(b.service("w1", newBlocked().run))
			c.prepare(b, s)
			v, err := s.decide(t.Context(), b.fetchWake(s, name))
			if err != nil || v != c.want {
				t.Fatalf("got the wakeCase %d, %v, want %d", v, err, c.want)
			}
			rec := b.task()
			if rec.State != c.state || rec.Worker != c.worker || rec.Attempt != c.attempt || !strings.Contains(rec.Summary, c.summary) || s.Running() != c.runs {
				t.Errorf("got %s, worker %q, attempt %d, summary %q, %d running, want %+v", rec.State, rec.Worker, rec.Attempt, rec.Summary, s.Running(), c.wakeCase)
			}
		})
	}
}

// answer lets a worker answer requests about the task.
func (b *bundle) answer(worker events.WorkerID, runs bool) {
	b.T.Helper()
	p := wake.NewPeers(b.Bus, worker, "", b.service(worker, nil).log)
	p.Add(func(q *wake.PeerRequest) bool { return runs && q.Session == sid && q.Task == name })
	unlisten, err := p.Listen()
	if err == nil {
		err = b.Bus.Conn().Flush()
	}
	runtest.NoError(b.T, err)
	b.T.Cleanup(unlisten)
}

// TestDecideWaits delays a restart while tasks kill their workers.
func TestDecideWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.service("w1", newBlocked().run)
	s.cfg.Retry = wake.Retry{Attempts: 9, Base: time.Hour, Max: time.Hour}
	b.start(s)
	b.register(api.TaskRequest{Runner: "r", Restart: events.RestartAlways})
	for range 3 {
		b.claim("w1")
	}
	_, err := s.decide(t.Context(), b.fetchWake(s, name))
	soon, waits := errors.AsType[wake.SoonError](err)
	if !waits || time.Duration(soon) < 29*time.Minute || time.Duration(soon) > 90*time.Minute {
		t.Errorf("got %v, want a wait of an hour, varied by half", err)
	}
	if rec := b.task(); rec.Attempt != 3 || s.Running() != 0 {
		t.Errorf("got attempt %d, %d running, want none started", rec.Attempt, s.Running())
	}
}

// TestHandle acks a wake that needs nothing, and returns a wake that another worker should get.
func TestHandle(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		prepare func(*bundle)
		wakes   int // that remain in the queue
	}{
		"unknownTask": {func(*bundle) {}, 0},
		"erased": {func(b *bundle) {
			_, err := b.Host.Erase(b.T.Context(), sid, "test")
			runtest.NoError(b.T, err)
		}, 0},
		"outside":       {func(b *bundle) { b.register(api.TaskRequest{}) }, 0},
		"unknownRunner": {func(b *bundle) { b.register(api.TaskRequest{Runner: "other"}) }, 1},
		"unfoldable": {func(b *bundle) {
			b.garbage()
		}, 1},
		"deadLetter": {func(b *bundle) {
			b.garbage()
			runtest.NoError(b.T, b.Bus.PutDeadLetter(b.T.Context(), &bus.DeadLetter{Session: sid, Attempts: 1, At: 1, Worker: "w9"}))
		}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.start(b.service("w1", newBlocked().run))
			c.prepare(b)
			s.handle(t.Context(), b.fetchWake(s, name))
			runtest.NoError(t, s.cfg.Bus.Conn().Flush())
			b.awaitWakes(c.wakes)
		})
	}
}

// garbage appends a message that is no commit.
func (b *bundle) garbage() {
	b.T.Helper()
	err := b.Bus.Conn().Publish("lash.s."+string(sid)+".junk", []byte("junk"))
	if err == nil {
		err = b.Bus.Conn().Flush()
	}
	runtest.NoError(b.T, err)
	bustest.Eventually(b.T, "the session cannot be folded", func() bool {
		_, err := b.service("w8", nil).cfg.Worker.Host.Task(b.T.Context(), sid, name)
		return err != nil && !errors.Is(err, api.ErrUnknownTask)
	})
}
