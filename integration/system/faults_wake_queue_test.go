package system

import (
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

const workStream = "lash-work"

// purgeWork removes every wake from the queue.
func (s *site) purgeWork() {
	s.T.Helper()
	stream, err := harness.JetStreamOf(s.Bus).Stream(s.Ctx, workStream)
	runtest.WantError(s.T, "queue", err, nil)
	runtest.WantError(s.T, "purge", stream.Purge(s.Ctx), nil)
}

// deleteWork deletes the queue with its consumers.
func (s *site) deleteWork() {
	s.T.Helper()
	runtest.WantError(s.T, "delete", harness.JetStreamOf(s.Bus).DeleteStream(s.Ctx, workStream), nil)
}

// TestWakeQueueLost removes all wakes while the models of 64 turns block and 200 more turns wait; and again while
// nodes vanish. Every turn ends once. An effect that is recorded, or must not run twice, does not run again.
func TestWakeQueueLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lose func(*site)
		then func(*queueLoss) // the fault, while every effect is blocked
	}{
		"purged":          {(*site).purgeWork, losesWakes},
		"deleted":         {(*site).deleteWork, losesWakes},
		"purged_killed":   {(*site).purgeWork, losesNodes},
		"deleted_killed":  {(*site).deleteWork, losesNodes},
		"deleted_process": {(*site).deleteWork, losesProcess},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSites(t, func(s *site) { queueLost(s, tc.lose, tc.then) })
		})
	}
}

func queueLost(s *site, lose func(*site), then func(*queueLoss)) {
	s.T.Helper()
	q := &queueLoss{running: s.share(64, 4), lose: func() { lose(s) }}
	q.wakeFixture = s.wakeFixture(q.running / 2)
	sessions, turns := s.share(66, 6), s.share(4, 3)
	for i := range sessions {
		s.Open(api.CreateRequest{ID: workloadSession(i)})
		for k := range turns {
			s.StartTurn(workloadSession(i), workloadTurn(k), harness.Text("do "+string(workloadTurn(k))))
		}
	}
	q.start()
	then(q)
	q.gate.open()
	for i := range sessions {
		for k := range turns {
			runtest.Equal(s.T, "end", s.AwaitTurn(workloadSession(i), workloadTurn(k)).End, events.EndFinished)
		}
	}
	q.audit(sessions, turns)
}

// queueLoss is a site with as many running, blocked turns as two nodes run at once.
type queueLoss struct {
	*wakeFixture
	running int
	lose    func() // the wakes
}

// losesWakes loses the wakes only.
func losesWakes(q *queueLoss) {
	q.start()
	q.awaitBlocked(q.running)
	q.lose()
}

// losesNodes has the first node vanish, and then, in the middle of calls that must not run twice, the second. Each
// time the wakes are removed before.
func losesNodes(q *queueLoss) {
	q.start()
	q.awaitBlocked(q.running)
	q.lose()
	q.kills[0]()
	q.start()
	for range 3 { // a call, a reply, a call
		q.gate.next()
		q.awaitBlocked(q.running / 2)
	}
	q.lose()
	q.kills[1]()
	q.start()
}

// losesProcess has a node's process killed.
func losesProcess(q *queueLoss) {
	c := q.process(childConfig{Round: 1, Most: q.running / 2, Blocks: true})
	q.awaitBlocked(q.running / 2)
	for range q.running / 2 {
		c.awaitLine(q.Ctx, "holds")
	}
	q.lose()
	c.signal(syscall.SIGKILL)
	q.start()
}
