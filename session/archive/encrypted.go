package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync/atomic"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/bodykey"
)

// Decrypted is a log of one session whose entries are decrypted by keys. Its reads fail with [events.ErrMalformed] at a plain commit
// that comes after an encrypted one. Without keys it is the log itself.
func Decrypted(log events.Log, keys *bodykey.Keys) events.Log {
	if keys == nil {
		return log
	}
	return &decrypted{Log: log, keys: keys}
}

type decrypted struct {
	events.Log
	keys *bodykey.Keys
	mark atomic.Uint64 // sequence of the first encrypted commit, once a read from the beginning has reached it; 0: not known
}

// before follows the mark of the commits before a sequence.
func (d *decrypted) before(ctx context.Context, session events.SessionID, from events.Seq) (m events.Mark, err error) {
	if known := events.Seq(d.mark.Load()); known != 0 && known < from {
		return events.Mark{From: known}, nil
	}
	if from <= 1 {
		return m, nil
	}
	for e, err := range d.Log.Read(ctx, session, 1) {
		if err != nil || e.Seq >= from || m.From != 0 {
			return m, err
		}
		if err := m.Next(e); err != nil {
			return m, err
		}
	}
	return m, nil
}

// Read implements [events.Log].
func (d *decrypted) Read(ctx context.Context, session events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		mark, err := d.before(ctx, session, from)
		if err != nil {
			yield(events.Entry{}, err)
			return
		}
		for e, err := range d.Log.Read(ctx, session, from) {
			if err == nil {
				if err = errors.Join(mark.Next(e), e.Decrypt(d.keys)); err != nil {
					err = fmt.Errorf("sequence %d: %w", e.Seq, err)
				}
				d.mark.Store(uint64(mark.From))
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// DecryptedBodies are the bodies of an archive by the digests of their texts, and by those of what is stored: a plain body may begin
// as an encrypted one does, since tools and callers choose its text. Only the events that refer to a body say which one it is.
func DecryptedBodies(stored map[string][]byte, keys *bodykey.Keys) map[string][]byte {
	out := maps.Clone(stored)
	if keys == nil {
		return out
	}
	for _, body := range stored {
		if !bodykey.IsStored(body) {
			continue
		}
		if text, err := keys.Load(body); err == nil {
			sum := sha256.Sum256(text)
			out[hex.EncodeToString(sum[:])] = text
		}
	}
	return out
}

// keeper is a reader of bodies whose store encrypts them.
type keeper interface{ Keys() *bodykey.Keys }

// stored is the form in which an archive has a body: encrypted like the payload that refers to it.
func stored(blobs any, ev *events.Event, body []byte) ([]byte, error) {
	k, ok := blobs.(keeper)
	if ev.Encrypted == nil || !ok || k.Keys() == nil {
		return body, nil
	}
	return k.Keys().Store(body)
}
