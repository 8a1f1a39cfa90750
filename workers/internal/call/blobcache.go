package call

import (
	"context"
	"sync"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// blobCacheBytes limits the bodies in the memory of a [BlobCache], in bytes.
const blobCacheBytes = 64 << 20

// BlobCache reads and stores bodies outside the log, and caches some of them in memory, because all prompts of a
// session need the same ones. It implements [blob.Store]. Its methods may overlap.
type BlobCache struct {
	b *bus.Bus

	mu     sync.Mutex
	bodies map[string][]byte // by digest
	bytes  int
}

// NewBlobCache makes an empty cache.
func NewBlobCache(b *bus.Bus) *BlobCache {
	return &BlobCache{b: b, bodies: make(map[string][]byte)}
}

// PutBlob implements [blob.Store].
func (c *BlobCache) PutBlob(ctx context.Context, body []byte) (events.BlobRef, error) {
	ref, err := c.b.PutBlob(ctx, body)
	if err == nil {
		c.store(ref.Digest, body)
	}
	return ref, err
}

// Blob implements [blob.Store]. The caller must not change the body.
func (c *BlobCache) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	c.mu.Lock()
	body, ok := c.bodies[ref.Digest]
	c.mu.Unlock()
	if ok {
		return body, nil
	}
	body, err := c.b.Blob(ctx, ref)
	if err == nil {
		c.store(ref.Digest, body)
	}
	return body, err
}

func (c *BlobCache) store(digest string, body []byte) {
	if len(body) > blobCacheBytes/4 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.bodies[digest]; ok {
		return
	}
	for old, b := range c.bodies { // in random order
		if c.bytes+len(body) <= blobCacheBytes {
			break
		}
		c.bytes -= len(b)
		delete(c.bodies, old)
	}
	c.bodies[digest] = body
	c.bytes += len(body)
}
