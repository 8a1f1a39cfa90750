package bus

import (
	"encoding/hex"
	"fmt"
	"sync/atomic"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// bodies is what encrypts and decrypts everything that a session says, before a server stores it and after. All that is
// written to a stream or a bucket goes through one of its functions, or has no bodies:
//
//	commits                                encodeCommit, decodeCommit
//	rows, deltas, dead letters, trials,    storeBody, loadBody, with the bucket or the subject as the place
//	events for plugins
//	blobs                                  storeBlob, storedBlob
//	archive entries, archive files         commits as they are stored
//	wakes, timers, marks, redactions,      ids, times, and who did what and why
//	rows of tombstones
//	manifests                              what plugins declare, which no session says
//
// With keys every body is encrypted, and plain ones that the store has from before are read. Without keys bodies are
// plain, unless the store's bodies are encrypted: then nothing that has a body is written ([events.KeyError]), so a node
// that was started without the file writes nothing plain. One that was started before the first node with keys stops to
// write within keyCheckEvery.
type bodies struct {
	keys  *bodykey.Keys // nil: plain
	store atomic.Uint32 // key of the store's check; 0 without one
	since atomic.Int64  // when the store's bodies became encrypted, in Unix milliseconds of the server; 0: not known, or no keys here
	marks *marks
}

// Keys are the keys of bodies of this bus; nil without them.
func (b *Bus) Keys() *bodykey.Keys { return b.bodies.keys }

// Writable refuses a bus without the keys of the store: it writes nothing of sessions. The error is an [events.KeyError].
func (b *Bus) Writable() error { return b.bodies.writable() }

// writable refuses to write a body without the keys of the store.
func (s *bodies) writable() error {
	if id := s.store.Load(); s.keys == nil && id != 0 {
		return fmt.Errorf("the store's bodies are encrypted: %w", &events.KeyError{ID: id})
	}
	return nil
}

// Encrypted returns the commit as an append to this bus stores it. Its encoding has ciphertexts in place of payloads;
// without keys it is the commit itself.
func (b *Bus) Encrypted(c *events.Commit) (*events.Commit, error) {
	if err := b.bodies.writable(); err != nil || b.bodies.keys == nil {
		return c, err
	}
	return events.Encrypted(c, b.bodies.keys)
}

// encodeCommit is the stored encoding of a commit.
func (b *Bus) encodeCommit(c *events.Commit) ([]byte, error) {
	c, err := b.Encrypted(c)
	if err != nil {
		return nil, err
	}
	return events.Encode(c)
}

// decodeCommit is the entry of a stored commit. Payloads whose key is not here stay encrypted.
func (b *Bus) decodeCommit(seq events.Seq, data []byte) (events.Entry, error) {
	e, err := events.DecodeEntry(seq, data)
	if err == nil {
		err = b.decrypt(&e)
	}
	return e, err
}

func (b *Bus) decrypt(e *events.Entry) error {
	if b.bodies.keys == nil {
		return nil
	}
	return e.Decrypt(b.bodies.keys)
}

// storeBody is the stored form of a body at a place.
func (b *Bus) storeBody(body []byte, place string) ([]byte, error) {
	if err := b.bodies.writable(); err != nil || b.bodies.keys == nil {
		return body, err
	}
	return b.bodies.keys.Store(body, place)
}

// loadBody is the inverse of storeBody. Errors: a [*events.KeyError]; [events.ErrMalformed].
func (b *Bus) loadBody(stored []byte, place string) ([]byte, error) {
	return b.bodies.keys.Load(stored, place)
}

// storeBlob is the name and the stored form of a blob with a digest.
func (b *Bus) storeBlob(digest string, body []byte) (name string, stored []byte, err error) {
	if err := b.bodies.writable(); err != nil || b.bodies.keys == nil {
		return digest, body, err
	}
	names, err := b.bodies.keys.Names(digest)
	if err == nil {
		stored, err = b.bodies.keys.Store(body)
	}
	if err != nil {
		return "", nil, err
	}
	return names[0], stored, nil
}

// blobNames are the names under which a blob may be stored.
func (b *Bus) blobNames(digest string) ([]string, error) {
	if b.bodies.keys == nil {
		return []string{digest}, nil
	}
	names, err := b.bodies.keys.Names(digest)
	return append(names, digest), err
}

// blobDigest is the digest of a blob that is stored under a name. ok is false where the key of the name is not here.
func (b *Bus) blobDigest(name string) (digest string, ok bool) {
	if len(name) == hex.EncodedLen(events.DigestBytes) {
		return name, true
	}
	if b.bodies.keys == nil {
		return "", false
	}
	digest, err := b.bodies.keys.Digest(name)
	return digest, err == nil
}
