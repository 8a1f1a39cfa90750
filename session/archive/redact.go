package archive

import (
	"context"
	"fmt"
	"iter"

	"github.com/lash-go/lash/events"
)

// Redacted is a log for [Write] whose events lack the payloads that drop names: digests replace them, and proofs stay
// valid. Heads keep theirs. The index is that of the event in the commit. Reads fail with [events.ErrMalformed] where a
// commit was not written by lash.
func Redacted(log events.Log, drop func(e events.Entry, index int) bool) events.Log {
	return redacted{log, drop}
}

type redacted struct {
	events.Log
	drop func(events.Entry, int) bool
}

// Read implements [events.Log].
func (r redacted) Read(ctx context.Context, session events.SessionID, from events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		for e, err := range r.Log.Read(ctx, session, from) {
			if err == nil {
				e, err = r.entry(e)
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

func (r redacted) entry(e events.Entry) (events.Entry, error) {
	data, err := events.Redact(e.Data, func(index int, _ events.Kind) bool { return !r.drop(e, index) })
	if err != nil {
		return e, fmt.Errorf("sequence %d: %w", e.Seq, err)
	}
	out, err := events.DecodeEntry(e.Seq, data)
	if err != nil {
		return e, err
	}
	out.Commit.Digest = e.Commit.Digest
	for i := range out.Commit.Events {
		if ev := &out.Commit.Events[i]; ev.Locked() != 0 {
			*ev = e.Commit.Events[i] // as it was decrypted
		}
	}
	return out, nil
}
