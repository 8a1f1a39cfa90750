package integration

import (
	"syscall"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

const workStream = "lash-work"

// purgeWork takes every wake out of the queue.
func (s *site) purgeWork() {
	s.t.Helper()
	stream, err := jetstreamOf(s.bus).Stream(s.ctx, workStream)
	must(s.t, "queue", err, nil)
	must(s.t, "purge", stream.Purge(s.ctx), nil)
}

// deleteWork takes the queue itself away, with its consumers.
func (s *site) deleteWork() {
	s.t.Helper()
	must(s.t, "delete", jetstreamOf(s.bus).DeleteStream(s.ctx, workStream), nil)
}

// TestWakeQueueLost takes all wakes away while the models of 64 turns do not
// answer and 200 more turns wait; and again while nodes vanish. Every turn ends
// once, and nothing that was recorded, or must not run twice, runs again.
func TestWakeQueueLost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lose func(*site)
		then func(*queueLoss) // what happens while every effect is held
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
	s.t.Helper()
	q := &queueLoss{running: s.share(64, 4), lose: func() { lose(s) }}
	q.worksite = s.worksite(q.running / 2)
	sessions, turns := s.share(66, 6), s.share(4, 3)
	for i := range sessions {
		s.open(api.CreateRequest{ID: toilSession(i)})
		for k := range turns {
			s.submit(toilSession(i), toilTurn(k), text("do "+string(toilTurn(k))))
		}
	}
	q.start()
	then(q)
	q.gate.open()
	for i := range sessions {
		for k := range turns {
			equal(s.t, "end", s.ended(toilSession(i), toilTurn(k)).End, events.EndFinished)
		}
	}
	q.audit(sessions, turns)
}

// queueLoss is a site where as many turns run, and are held, as two nodes run at once.
type queueLoss struct {
	*worksite
	running int
	lose    func() // the wakes
}

// losesWakes loses the wakes, and nothing else.
func losesWakes(q *queueLoss) {
	q.start()
	q.held(q.running)
	q.lose()
}

// losesNodes has the first node vanish, and then, in the middle of calls that
// must not run twice, the second: each time the wakes are gone before.
func losesNodes(q *queueLoss) {
	q.start()
	q.held(q.running)
	q.lose()
	q.kills[0]()
	q.start()
	for range 3 { // a call, a reply, a call
		q.gate.next()
		q.held(q.running / 2)
	}
	q.lose()
	q.kills[1]()
	q.start()
}

// losesProcess has a node's process be killed.
func losesProcess(q *queueLoss) {
	c := q.process(childConfig{Round: 1, Most: q.running / 2, Blocks: true})
	q.held(q.running / 2)
	for range q.running / 2 {
		c.says(q.ctx, "holds")
	}
	q.lose()
	c.signal(syscall.SIGKILL)
	q.start()
}
