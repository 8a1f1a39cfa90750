package bus

import (
	"context"
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
)

// wayTime is how long writers wait for one that asked to go first and has not said since that it is done.
const wayTime = 20 * time.Millisecond

// ways are the writers that asked to go first, by the hash of their session.
// Two sessions with one hash only wait for each other.
type ways struct {
	seed  maphash.Seed
	slots [256]way
}

type way struct {
	mu    sync.Mutex
	began time.Time // when the oldest append that asked began
	until time.Time // when it is forgotten
}

func (w *ways) of(session events.SessionID) *way {
	return &w.slots[maphash.String(w.seed, string(session))%uint64(len(w.slots))]
}

// AskWay asks the other writers of a session to let an append go first that
// began at that time, and has found the session moved again and again. Who has
// just appended knows the newest state, and is first with its next append too:
// the others read what it wrote, and come too late for ever. The oldest append
// goes first; the zero time is older than any. Where the request is lost, the
// append only takes longer.
func (b *Bus) AskWay(session events.SessionID, began time.Time) {
	_ = b.nc.Publish(b.names.way(session), strconv.AppendInt(nil, int64(time.Since(began)), 10))
}

// EndWay says that an append that asked is done.
func (b *Bus) EndWay(session events.SessionID) { _ = b.nc.Publish(b.names.way(session), nil) }

// InWay reports whether an append that began at that time is to wait for an older one.
func (b *Bus) InWay(session events.SessionID, began time.Time) bool {
	w := b.ways.of(session)
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.began.Before(began) && time.Now().Before(w.until)
}

// GiveWay waits while an append that began at that time is in the way, a moment at most.
func (b *Bus) GiveWay(ctx context.Context, session events.SessionID, began time.Time) {
	const look = 200 * time.Microsecond
	for end := time.Now().Add(wayTime); b.InWay(session, began) && time.Now().Before(end); {
		if !Sleep(ctx, look) {
			return
		}
	}
}

// hearWays listens to who asks.
func (b *Bus) hearWays() error {
	_, err := b.listen(b.names.ways(), func(m *nats.Msg) {
		b.ways.of(b.names.parseWay(m.Subject)).heard(string(m.Data), time.Now())
	})
	return err
}

// heard takes in a message: the age of the append that asks, in nanoseconds, or nothing, which ends it.
func (w *way) heard(age string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := strconv.ParseInt(age, 10, 64)
	began := now.Add(-time.Duration(n))
	switch {
	case age == "":
		w.until = now
	case err != nil || n < 0:
	case now.After(w.until) || !began.After(w.began.Add(time.Millisecond)): // the same one comes a little later each time
		w.began, w.until = began, now.Add(wayTime)
	}
}
