package bus

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
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

// incarnations has the current incarnation of each located session: its stream, when the server made it, and how often texts were removed
// from the history. It changes when the session is archived, continues, gets a new stream for a lost one, is redacted or erased, and at each
// reconnect: messages about removals may be lost meanwhile, and a server that was started on an earlier copy of its store has the same streams
// with other commits. A state of an earlier incarnation may hold lost commits, and one with fewer removals holds texts that are gone.
type incarnations struct {
	mu         sync.Mutex    // held by changes
	reconnects func() uint64 // of the connection, until now
	cache      *lru.Cache[events.SessionID, knownIncarnation]
}

type incarnation struct {
	stream  string
	created time.Time // zero for a cold session
	removed int       // number of redactions; [removedAll] for an erased session
}

type knownIncarnation struct {
	incarnation
	reconnects uint64 // before it was located
	text       string
}

// maxIncarnations is how many sessions incarnations has.
const maxIncarnations = 1 << 16

// get is the incarnation of a session that was located since the last reconnect.
func (l *incarnations) get(session events.SessionID) (known knownIncarnation, ok bool) {
	known, ok = l.cache.Get(session)
	if ok && known.reconnects != l.reconnects() {
		return knownIncarnation{}, false
	}
	return known, ok
}

// note records what a reader has located after so many reconnects. Where the session is known with more removals, or there were more
// reconnects, the reader's requests were answered before the last one: note changes nothing, and is not ok. certain is of a reader that has
// located the session again since. name is that of the incarnation; empty where nothing was located.
func (l *incarnations) note(session events.SessionID, now incarnation, reconnects uint64, certain bool) (name string, ok bool) {
	if now.stream == "" { // nothing was located
		return "", true
	}
	if known, ok := l.get(session); ok && known.is(now) && known.reconnects == reconnects {
		return known.text, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.get(session)
	if !certain && (reconnects != l.reconnects() || ok && now.removed < known.removed) {
		return "", false
	}
	return l.put(session, now, reconnects), true
}

// put replaces the incarnation, and returns its name. The caller has mu.
func (l *incarnations) put(session events.SessionID, now incarnation, reconnects uint64) string {
	text := fmt.Sprintf("%s@%d/%d", now.stream, now.created.UnixNano(), reconnects)
	if now.removed > 0 {
		text += removals + strconv.Itoa(now.removed)
	}
	l.cache.Add(session, knownIncarnation{now, reconnects, text})
	return text
}

func (i incarnation) is(other incarnation) bool {
	return i.stream == other.stream && i.created.Equal(other.created) && i.removed == other.removed
}

// noteAgain is note for a session whose history ended in that stream.
func (l *incarnations) noteAgain(session events.SessionID, stream string, created time.Time) {
	if known, _ := l.get(session); known.stream == stream {
		l.note(session, incarnation{stream: stream, created: created}, known.reconnects, false)
	}
}

// noteRemoval records that a session has so many removals, as the process that made the last one says.
func (l *incarnations) noteRemoval(session events.SessionID, removed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.get(session); !ok || known.removed != removed {
		l.put(session, incarnation{removed: removed}, l.reconnects())
	}
}

// isOld reports whether the session may be elsewhere than it was located, as far as this bus knows: it was archived, continues, or has lost texts, or
// the servers that answer may have another copy of it.
func (b *Bus) isOld(session events.SessionID, loc location) bool {
	return loc.name != "" && (b.Log().Incarnation(session) != loc.name || b.secondary.connects() != loc.secondary)
}

// Incarnation is a text for the session's incarnation as this bus knows it; empty where it does not. It sends no request: reads, [Bus.Hot]
// and [Bus.OnRemoval] notice another one.
func (l Log) Incarnation(session events.SessionID) string {
	known, _ := l.b.incarnations.get(session)
	return known.text
}

// removals begins the part of an incarnation's text that counts removals.
const removals = "#"

// SameTexts reports whether the histories of two incarnations of a session have the same texts: no redaction or erasure is between them. An
// empty one has had no removal.
func SameTexts(a, b string) bool {
	_, removedA, _ := strings.Cut(a, removals)
	_, removedB, _ := strings.Cut(b, removals)
	return removedA == removedB
}
