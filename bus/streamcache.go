package bus

import (
	"sync"

	"github.com/lash-go/lash/events"
)

// streamCache has, of sessions that were archived, the stream in which each continues. A lookup of the end then needs
// no read of the archive entry, which has up to half a MiB of history. The state of the stream shows whether a cached
// one is old:
//
//  1. The name of a stream is never used again.
//  2. A stream that continues a session is bound before it takes appends, and sealed and deleted before the next
//     one is made.
//  3. So a bound stream that is not sealed and has commits holds the end of its session. For any other the bus
//     reads the entry.
//  4. A stream that was made again too late is not bound, and takes no appends ([Bus.recreateStream]).
type streamCache struct {
	mu        sync.Mutex
	bySession map[events.SessionID]cachedStream
}

type cachedStream struct {
	stream string
	first  events.Seq // of the stream
}

// maxCachedStreams bounds the cache; above it an arbitrary stream is dropped.
const maxCachedStreams = 4096

func (c *streamCache) get(session events.SessionID) (cachedStream, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.bySession[session]
	return found, ok
}

func (c *streamCache) put(session events.SessionID, found cachedStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bySession == nil {
		c.bySession = make(map[events.SessionID]cachedStream)
	}
	for other := range c.bySession {
		if len(c.bySession) < maxCachedStreams {
			break
		}
		delete(c.bySession, other)
	}
	c.bySession[session] = found
}

// drop removes an old stream, unless another lookup has replaced it.
func (c *streamCache) drop(session events.SessionID, old cachedStream) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bySession[session] == old {
		delete(c.bySession, session)
	}
}
