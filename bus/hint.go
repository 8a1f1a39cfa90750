package bus

import (
	"context"
	"sync"

	"github.com/lash-go/lash/events"
)

// hints are the streams in which sessions that were archived go on, as they were found last. The entry of such a
// session has up to half a MiB of its history in it, which a look at the end has no use for.
//
// A hint may be old, and then it says so itself. The name of a stream is never used for another one. A stream
// that goes on after an archive is bound before it takes appends, and sealed and deleted before the next one is
// made: one that is bound, not sealed, and has commits has the end of its session. Any other sends the look to the
// entry; also one that was made again too late, which takes no appends ([Bus.remake]).
type hints struct {
	mu sync.Mutex
	of map[events.SessionID]hint
}

type hint struct {
	stream string
	first  events.Seq // of the stream
}

// maxHints bounds what is remembered: beyond it any other is forgotten.
const maxHints = 4096

func (h *hints) get(session events.SessionID) (hint, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.of[session]
	return found, ok
}

func (h *hints) put(session events.SessionID, found hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = make(map[events.SessionID]hint)
	}
	for other := range h.of {
		if len(h.of) < maxHints {
			break
		}
		delete(h.of, other)
	}
	h.of[session] = found
}

// drop forgets a hint that is old, unless another look has found a newer one.
func (h *hints) drop(session events.SessionID, old hint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of[session] == old {
		delete(h.of, session)
	}
}

// locateFrom is [Bus.locate] for a reader of what is from a sequence on, and of the end. Of what was archived
// before that the place may have nothing.
func (b *Bus) locateFrom(ctx context.Context, session events.SessionID, from events.Seq) (place, error) {
	if h, ok := b.hints.get(session); ok && h.first <= from {
		end, err := b.streamEnd(ctx, h.stream)
		if err == nil && !end.sealed && !end.opening && end.last >= h.first {
			return place{stream: h.stream, first: h.first, last: end.last}, nil
		}
		b.hints.drop(session, h)
	}
	return b.locate(ctx, session)
}
