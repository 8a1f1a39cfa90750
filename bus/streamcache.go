package bus

import (
	"strconv"
	"sync"
	"time"

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

// incarnations has the current incarnation of each located session: its stream and when the server made it. It changes when the
// session is archived, continues, or gets a new stream for a lost one. A state of an earlier incarnation may hold lost commits.
type incarnations struct {
	mu        sync.Mutex
	bySession map[events.SessionID]incarnation
}

type incarnation struct {
	stream  string
	created time.Time // zero for a cold session
	text    string
}

// maxIncarnations bounds incarnations; above it an arbitrary one is dropped.
const maxIncarnations = 1 << 16

func (l *incarnations) note(session events.SessionID, stream string, created time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.bySession[session]
	if ok && known.stream == stream && known.created.Equal(created) {
		return
	}
	if l.bySession == nil {
		l.bySession = make(map[events.SessionID]incarnation)
	}
	for other := range l.bySession {
		if ok || len(l.bySession) < maxIncarnations {
			break
		}
		delete(l.bySession, other)
	}
	l.bySession[session] = incarnation{stream, created, stream + "@" + strconv.FormatInt(created.UnixNano(), 10)}
}

// noteAgain is note for a session whose history ended in that stream.
func (l *incarnations) noteAgain(session events.SessionID, stream string, created time.Time) {
	if l.get(session).stream == stream {
		l.note(session, stream, created)
	}
}

func (l *incarnations) get(session events.SessionID) incarnation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bySession[session]
}

// Life is a text for the session's incarnation as this bus knows it; empty where it does not. It sends no request: reads and [Bus.Hot] notice
// another one.
func (l Log) Life(session events.SessionID) string { return l.b.incarnations.get(session).text }
