package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// bodiesKey is the key of the check in the bucket of manifests: no plugin has this name.
const bodiesKey = "=bodies"

// agreeKeys compares the keys with the store's check. The first node with keys writes the check, and so does one whose
// current key is another than the check's: later nodes have to have that key. Errors: [bodykey.ErrWrong]; [events.ErrMalformed]
// for a check that is no ciphertext, which would allow every key, and none.
func (b *Bus) agreeKeys(ctx context.Context) error {
	for try := 1; ; try++ {
		check, revision, err := b.keyCheck(ctx)
		if err != nil {
			return err
		}
		b.bodies.store.Store(bodykey.KeyOfStored(check))
		keys := b.bodies.keys
		if keys == nil {
			return nil
		}
		if revision != 0 {
			if err := keys.Opens(check); err != nil {
				return err
			}
		}
		if b.bodies.store.Load() == keys.Current() || b.reader {
			return b.agreeSince(ctx)
		}
		if check, err = keys.Check(); err == nil {
			_, err = b.Manifests().putStored(ctx, bodiesKey, check, revision)
		}
		if !errors.Is(err, events.ErrMoved) {
			b.bodies.store.Store(keys.Current())
			return errors.Join(err, b.agreeSince(ctx))
		}
		if err := pause(ctx, try); err != nil { // another node wrote first
			return err
		}
	}
}

// keyCheck is the store's check; revision 0 without one.
func (b *Bus) keyCheck(ctx context.Context) (check []byte, revision uint64, err error) {
	check, revision, err = b.fact(ctx, bodiesKey)
	if err == nil && revision != 0 && bodykey.KeyOfStored(check) == 0 {
		err = fmt.Errorf("%w: the check of the keys of bodies is no ciphertext", events.ErrMalformed)
	}
	return check, revision, err
}

// fact reads what nodes agree on, from the bucket of manifests; revision 0 where there is none.
func (b *Bus) fact(ctx context.Context, key string) (stored []byte, revision uint64, err error) {
	if b.manifests == nil { // a reader, of a store without plugins
		return nil, 0, nil
	}
	return b.Manifests().stored(ctx, key)
}

// keyCheckEvery is how often a bus without keys reads the check of a store whose bodies are plain.
const keyCheckEvery = time.Second

// watchKeys reads the check until the store has one, for a bus that writes plain bodies: another node may begin to encrypt at
// any time.
func (b *Bus) watchKeys(ctx context.Context) {
	if b.reader || b.bodies.keys != nil || b.bodies.store.Load() != 0 {
		return
	}
	b.work.Go(func() { // ends with Close
		for b.bodies.store.Load() == 0 && delay.Sleep(ctx, keyCheckEvery) {
			b.readKeyCheck(ctx)
		}
	})
}

// readKeyCheck takes over the key of a check that is new. Where there is no answer, the next try follows.
func (b *Bus) readKeyCheck(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	entry, err := b.manifests.Get(ctx, bodiesKey)
	if err != nil {
		return
	}
	if id := bodykey.KeyOfStored(entry.Value()); id != 0 {
		b.bodies.store.Store(id)
		b.log.Error("another node encrypts what sessions say, and this one has no key: it writes nothing of sessions any more; start it again with --bodies-key",
			zap.Uint32("key", id))
	}
}
