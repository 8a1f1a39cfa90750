package workers

import (
	"context"
	"sync"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// stateCache keeps states between turns. A state is in one pair of hands at a
// time; one that is behind its log is found out by the first append.
type stateCache struct {
	limit  int
	mu     sync.Mutex
	states map[events.SessionID]*projector.State
}

func newStateCache(limit int) *stateCache {
	return &stateCache{limit: limit, states: make(map[events.SessionID]*projector.State)}
}

func (c *stateCache) take(id events.SessionID) *projector.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[id]
	delete(c.states, id)
	return s
}

func (c *stateCache) put(s *projector.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.states { // any one will do
		if len(c.states) < c.limit {
			break
		}
		delete(c.states, id)
	}
	c.states[s.Session] = s
}

// blobCacheBytes bounds the bodies that a worker keeps at hand.
const blobCacheBytes = 64 << 20

// blobCache keeps bodies that prompts are filled with again and again.
type blobCache struct {
	b *bus.Bus

	mu     sync.Mutex
	bodies map[string][]byte
	bytes  int
}

func newBlobCache(b *bus.Bus) *blobCache {
	return &blobCache{b: b, bodies: make(map[string][]byte)}
}

// PutBlob implements [session.Blobs].
func (c *blobCache) PutBlob(ctx context.Context, body []byte) (events.BlobRef, error) {
	ref, err := c.b.PutBlob(ctx, body)
	if err == nil {
		c.keep(ref.Digest, body)
	}
	return ref, err
}

// Blob implements [session.Blobs]. The caller must not change the body.
func (c *blobCache) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	c.mu.Lock()
	body, ok := c.bodies[ref.Digest]
	c.mu.Unlock()
	if ok {
		return body, nil
	}
	body, err := c.b.Blob(ctx, ref)
	if err == nil {
		c.keep(ref.Digest, body)
	}
	return body, err
}

func (c *blobCache) keep(digest string, body []byte) {
	if len(body) > blobCacheBytes/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.bodies[digest]; ok {
		return
	}
	for old, b := range c.bodies { // any one will do
		if c.bytes+len(body) <= blobCacheBytes {
			break
		}
		c.bytes -= len(b)
		delete(c.bodies, old)
	}
	c.bodies[digest] = body
	c.bytes += len(body)
}
