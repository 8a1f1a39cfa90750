package bus

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// bodies is what encrypts and decrypts everything that a session says, before a server stores it and after. All that is
// written to a stream or a bucket goes through one of its functions, or has no bodies:
//
//	commits                                encodeCommit, decodeCommit
//	rows, deltas, dead letters, trials,    store, load, with the bucket or the subject as the place
//	events for plugins
//	blobs                                  storeBlob, loadBlob, names
//	archive entries, archive files         commits as they are stored
//	wakes, timers, marks, redactions,      ids, times, and who did what and why
//	rows of tombstones
//	manifests                              what plugins declare, which no session says
//
// With keys every body is encrypted, and plain ones that the store has from before are read. Without keys bodies are
// plain, unless the store's bodies are encrypted: then nothing that has a body is written ([events.KeyError]), so a node
// that was started without the file writes nothing plain.
type bodies struct {
	keys  *bodykey.Keys // nil: plain
	store uint32        // key of the store's check; 0 without one
}

// bodiesKey is the key of the check in the bucket of manifests: no plugin has this name.
const bodiesKey = "=bodies"

// Keys are the keys of bodies of this bus; nil without them.
func (b *Bus) Keys() *bodykey.Keys { return b.bodies.keys }

// writable refuses to write a body without the keys of the store.
func (s *bodies) writable() error {
	if s.keys == nil && s.store != 0 {
		return fmt.Errorf("the store's bodies are encrypted: %w", &events.KeyError{ID: s.store})
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

// agreeKeys compares the keys with the store's check. The first node with keys writes the check, and so does one whose
// current key is another than the check's: later nodes have to have that key. Errors: [bodykey.ErrWrong].
func (b *Bus) agreeKeys(ctx context.Context) error {
	for try := 1; ; try++ {
		check, revision, err := b.keyCheck(ctx)
		if err != nil {
			return err
		}
		b.bodies.store = bodykey.KeyOfStored(check)
		keys := b.bodies.keys
		if keys == nil {
			return nil
		}
		if revision != 0 {
			if err := keys.Opens(check); err != nil {
				return err
			}
		}
		if b.bodies.store == keys.Current() || b.reader {
			return nil
		}
		if check, err = keys.Check(); err == nil {
			err = b.putKeyCheck(ctx, check, revision)
		}
		if !errors.Is(err, events.ErrMoved) {
			b.bodies.store = keys.Current()
			return err
		}
		if err := pause(ctx, try); err != nil { // another node wrote first
			return err
		}
	}
}

// keyCheck is the store's check; revision 0 without one.
func (b *Bus) keyCheck(ctx context.Context) (check []byte, revision uint64, err error) {
	if b.manifests == nil { // a reader, of a store without plugins
		return nil, 0, nil
	}
	err = b.retry(ctx, "read the check of the keys of bodies", func(ctx context.Context) error {
		entry, err := b.manifests.Get(ctx, bodiesKey)
		if err == nil {
			check, revision = entry.Value(), entry.Revision()
		}
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	return check, revision, err
}

func (b *Bus) putKeyCheck(ctx context.Context, check []byte, revision uint64) error {
	return b.once(ctx, func(ctx context.Context) (err error) {
		if revision == 0 {
			_, err = b.manifests.Create(ctx, bodiesKey, check)
		} else {
			_, err = b.manifests.Update(ctx, bodiesKey, check, revision)
		}
		return err
	})
}
