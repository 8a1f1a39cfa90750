package bus

import (
	"context"
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
)

// yieldTime is how long writers yield after the last request for priority.
const yieldTime = 20 * time.Millisecond

// priorities are the appends that requested priority, by the hash of their session. Two sessions with one hash only
// yield to each other.
type priorities struct {
	seed  maphash.Seed
	slots [256]priority
}

type priority struct {
	mu    sync.Mutex
	since time.Time // start of the oldest append that requested priority
	until time.Time // when its priority ends
}

func (w *priorities) slot(session events.SessionID) *priority {
	return &w.slots[maphash.String(w.seed, string(session))%uint64(len(w.slots))]
}

// RequestPriority asks the other writers of a session to yield to an append that started at this time and has met
// conflicts again and again. The writer of the last commit knows the newest state, so it tends to win the next append
// too; the others read that commit, and are late again. The oldest append has priority; the zero time is older than
// any. A lost request only delays the append.
func (b *Bus) RequestPriority(session events.SessionID, began time.Time) {
	if events.CheckToken("session", session) == nil {
		_ = b.nc.Publish(b.names.priority(session), strconv.AppendInt(nil, int64(time.Since(began)), 10))
	}
}

// ReleasePriority ends the priority of a session's append.
func (b *Bus) ReleasePriority(session events.SessionID) {
	if events.CheckToken("session", session) == nil {
		_ = b.nc.Publish(b.names.priority(session), nil)
	}
}

// MustYield reports whether an append that started at this time must wait for an older one.
func (b *Bus) MustYield(session events.SessionID, began time.Time) bool {
	w := b.priorities.slot(session)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.since.Before(began) && time.Now().Before(w.until)
}

// Yield waits while an older append has priority, for yieldTime at most.
func (b *Bus) Yield(ctx context.Context, session events.SessionID, began time.Time) {
	const interval = 200 * time.Microsecond
	for end := time.Now().Add(yieldTime); b.MustYield(session, began) && time.Now().Before(end); {
		if !delay.Sleep(ctx, interval) {
			return
		}
	}
}

// subscribePriorities receives the requests for priority.
func (b *Bus) subscribePriorities() error {
	_, err := b.listen(b.names.priorityAll(), func(m *nats.Msg) {
		if id, ok := b.names.parsePriority(m.Subject); ok {
			b.priorities.slot(id).update(string(m.Data), time.Now())
		}
	})
	return err
}

// update handles a message: the age of the append that requests priority, in nanoseconds, or empty, which ends it.
func (w *priority) update(age string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := strconv.ParseInt(age, 10, 64)
	began := now.Add(-time.Duration(n))
	switch {
	case age == "":
		w.until = now
	case err != nil || n < 0:
	case now.After(w.until) || !began.After(w.since.Add(time.Millisecond)): // repeated requests of one append differ by the message's delay
		w.since, w.until = began, now.Add(yieldTime)
	}
}
