package bus

import (
	"strconv"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/lash-go/lash/events"
)

// newCache has something of at most this many sessions, which can be read again: above it the one that was used longest ago is
// dropped.
func newCache[V any](size int) *lru.Cache[events.SessionID, V] {
	c, _ := lru.New[events.SessionID, V](size) // the size is valid
	return c
}

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
	bySession *lru.Cache[events.SessionID, cachedStream]
}

type cachedStream struct {
	stream string
	first  events.Seq // of the stream
}

// maxCachedStreams is how many sessions the cache has.
const maxCachedStreams = 4096

func (c streamCache) get(session events.SessionID) (cachedStream, bool) {
	return c.bySession.Get(session)
}

func (c streamCache) put(session events.SessionID, found cachedStream) {
	c.bySession.Add(session, found)
}

// drop removes an old stream, unless another lookup has replaced it.
func (c streamCache) drop(session events.SessionID, old cachedStream) {
	if found, ok := c.bySession.Peek(session); ok && found == old {
		c.bySession.Remove(session) // one that replaced it just now is read again
	}
}

// incarnations has the current incarnation of each located session: its stream and when the server made it. It changes when the
// session is archived, continues, or gets a new stream for a lost one. A state of an earlier incarnation may hold lost commits.
type incarnations struct {
	*lru.Cache[events.SessionID, incarnation]
}

type incarnation struct {
	stream  string
	created time.Time // zero for a cold session
	text    string
}

// maxIncarnations is how many sessions incarnations has.
const maxIncarnations = 1 << 16

func (l incarnations) note(session events.SessionID, stream string, created time.Time) {
	known, ok := l.Get(session)
	if !ok || known.stream != stream || !known.created.Equal(created) {
		l.Add(session, incarnation{stream, created, stream + "@" + strconv.FormatInt(created.UnixNano(), 10)})
	}
}

// noteAgain is note for a session whose history ended in that stream.
func (l incarnations) noteAgain(session events.SessionID, stream string, created time.Time) {
	if known, _ := l.Peek(session); known.stream == stream {
		l.note(session, stream, created)
	}
}

// Incarnation is a text for the session's incarnation as this bus knows it; empty where it does not. It sends no request: reads and [Bus.Hot] notice
// another one.
func (l Log) Incarnation(session events.SessionID) string {
	known, _ := l.b.incarnations.Get(session)
	return known.text
}
