package task

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers/internal/wake"
)

// TestFenceIsFirst compares the limits of a worker that cannot reach the queue with those of [Service.gone], by which
// another worker takes the task over: the work must have ended before. The fence looks once in a tick.
func TestFenceIsFirst(t *testing.T) {
	t.Parallel()
	const tick = fenceMargin / 4
	if last := maxDisconnected + tick; last >= bus.AckWait {
		t.Errorf("without a connection: the work may run for %v, and a takeover waits for %v", last, bus.AckWait)
	}
	if last := maxUnanswered + tick; last >= bus.AckWait+peerWait {
		t.Errorf("without an answer: the work may run for %v, and a takeover waits for %v", last, bus.AckWait+peerWait)
	}
}

// TestFence cancels the work of a worker that loses its connection, before another one may start it.
func TestFence(t *testing.T) {
	t.Parallel()
	bustest.Eventually(t, fmt.Sprintf("the cancel within %v", bus.AckWait), func() bool { // later where this process has no time
		b, work := setup(t), newBlocked()
		s := b.start(b.service("w1", work.run), bus.ClassTask)
		b.register(api.TaskRequest{Runner: "r"})
		bustest.Receive(t, "an event", work.started)
		b.awaitState(events.TaskRunning)
		lost := time.Now()
		s.cfg.Bus.Close()
		if cause := bustest.Receive(t, "an event", work.causes); !errors.Is(cause, ErrQueueUnreachable) {
			t.Errorf("got the cause %v, want %v", cause, ErrQueueUnreachable)
		}
		return time.Since(lost) < bus.AckWait
	})
}

// TestGone takes a worker for gone by its subscription, or by its silence if it has one.
func TestGone(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		worker events.WorkerID
		gone   bool
		least  time.Duration
	}{
		"itself":  {"w1", true, 0},
		"runs":    {"w2", false, 0},
		"refuses": {"w3", true, 0},
		"dead":    {"w4", true, bus.AckWait},
		"silent":  {"w5", true, bus.AckWait + peerWait},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			s := b.start(b.service("w1", newBlocked().run))
			for id, yes := range map[events.WorkerID]bool{"w2": true, "w3": false} {
				peer := wake.NewPeers(b.Bus, id, "", s.log)
				peer.Add(func(q *wake.PeerRequest) bool { return yes && q.Task == name })
				unlisten, err := peer.Listen()
				runtest.NoError(t, err)
				defer unlisten()
			}
			_, err := b.Bus.OnNotify("w5", func(events.SessionID) {})
			runtest.NoError(t, err)
			runtest.NoError(t, b.Bus.Conn().Flush())
			w, began := b.fetchWake(s, name), time.Now()
			gone, err := s.gone(t.Context(), c.worker, w, wake.PeerRequest{Session: sid, Task: name})
			if took := time.Since(began); err != nil || gone != c.gone || took < c.least {
				t.Errorf("got gone %v, %v, after %v, want %v after at least %v", gone, err, took, c.gone, c.least)
			}
		})
	}
}

// TestLateExtension extends a wake in time, and after [bus.AckWait]: the queue confirms both, and only the first one keeps the task here.
func TestLateExtension(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.start(b.service("w1", newBlocked().run))
	for ago, want := range map[time.Duration]bool{bus.AckWait / 3: true, bus.AckWait + time.Millisecond: false} {
		r := &taskRun{t: s, wake: b.fetchWake(s, name)}
		r.contact.renew(time.Now().Add(-ago))
		r.renew(t.Context())
		if got := r.contact.since() < ago; got != want {
			t.Errorf("extended %v after the last contact: got a new contact %v, want %v", ago, got, want)
		}
	}
}
