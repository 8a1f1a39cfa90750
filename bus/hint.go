package bus

import (
	"context"
	"sync"

	"github.com/lash-go/lash/events"
)

// streamHints remembers, of sessions that were archived, the stream in which each continues. A lookup of the end then
// needs no read of the archive entry, which has up to half a MiB of history. The state of the stream shows whether a
// hint is old:
//
//  1. The name of a stream is never used again.
//  2. A stream that continues a session is bound before it takes appends, and sealed and deleted before the next
//     one is made.
//  3. So a bound stream that is not sealed and has commits holds the end of its session. For any other the bus
//     reads the entry.
//  4. A stream that was made again too late is not bound, and takes no appends ([Bus.recreateStream]).
type streamHints struct {
	mu        sync.Mutex
	bySession map[events.SessionID]streamHint
}

type streamHint struct {
	stream string
	first  events.Seq // of the stream
}

// maxHints bounds the hints; above it an arbitrary one is dropped.
const maxHints = 4096

func (h *streamHints) get(session events.SessionID) (streamHint, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	found, ok := h.bySession[session]
	return found, ok
}

func (h *streamHints) put(session events.SessionID, found streamHint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bySession == nil {
		h.bySession = make(map[events.SessionID]streamHint)
	}
	for other := range h.bySession {
		if len(h.bySession) < maxHints {
			break
		}
		delete(h.bySession, other)
	}
	h.bySession[session] = found
}

// drop removes an old hint, unless another lookup has replaced it.
func (h *streamHints) drop(session events.SessionID, old streamHint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bySession[session] == old {
		delete(h.bySession, session)
	}
}

// locateFrom is [Bus.locate] for a reader of the commits from a sequence on, and of the end. The location may omit
// the archive of earlier commits.
func (b *Bus) locateFrom(ctx context.Context, session events.SessionID, from events.Seq) (location, error) {
	if h, ok := b.hints.get(session); ok && h.first <= from {
		end, err := b.streamEnd(ctx, h.stream)
		if err == nil && !end.sealed && !end.opening && end.last >= h.first {
			return location{stream: h.stream, first: h.first, last: end.last}, nil
		}
		b.hints.drop(session, h)
	}
	return b.locate(ctx, session)
}
