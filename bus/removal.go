package bus

import (
	"math"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
)

// A redaction or an erasure removes texts of a history. What other processes have of it ends with it:
//
//	state, view     each read locates the history first, and a state with fewer removals is folded again: see [SameTexts]
//	read, stream    yields nothing from a place that was located before the removal, as far as its process knows, and locates again
//	observation     ends with a message of the process that removed, and else with its next look at the log
//
// A process knows of a removal by any read that locates the session, and by that message. The message is a hint: it may be lost, and a client
// can forge it, which costs the receivers a read.

// removedAll is the number of removals of an erased session.
const removedAll = math.MaxInt32

// removalListeners are the caches of this process.
type removalListeners struct {
	subscribing sync.Once

	mu   sync.Mutex
	list []func(events.SessionID)
}

// OnRemoval calls forget, while the bus is open, with each session of which another process or this one has redacted texts, or that it
// has erased. forget must not block. A bus of [OpenReader] calls it from its first [Bus.Live] or [Bus.OnCommit] on: its user may have no right
// to receive anything before.
func (b *Bus) OnRemoval(forget func(events.SessionID)) {
	b.removals.mu.Lock()
	defer b.removals.mu.Unlock()
	b.removals.list = append(b.removals.list, forget)
}

// subscribeRemovals receives the messages about removals. Without them, after an error, reads still notice removals.
func (b *Bus) subscribeRemovals() {
	b.removals.subscribing.Do(func() { _, _ = b.listen(b.names.removedAll(), b.receivedRemoval) })
}

func (b *Bus) receivedRemoval(m *nats.Msg) {
	id, ok := b.names.parseRemoved(m.Subject)
	removed, err := strconv.Atoi(string(m.Data))
	if !ok || err != nil || removed <= 0 {
		return
	}
	b.incarnations.noteRemoval(id, removed)
	b.removals.mu.Lock()
	defer b.removals.mu.Unlock()
	for _, forget := range b.removals.list {
		forget(id)
	}
}

// publishRemoval says that texts of a session are removed. It is repeated with the rest of the removal, where a process dies.
func (b *Bus) publishRemoval(session events.SessionID, removed int) error {
	return mapError(b.nc.Publish(b.names.removed(session), strconv.AppendInt(nil, int64(removed), 10)))
}
