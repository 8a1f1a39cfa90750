package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/hint"
)

// ErrRedacted is an archive without some payloads. It can be read and verified, and no session can go on from it.
var ErrRedacted = errors.New("the archive is redacted: a session is restored from a whole one")

// DifferentError is a session that has the archive's id and another history.
type DifferentError struct {
	Session events.SessionID
	Seq     events.Seq // first commit that differs, or the first that one of them lacks
}

func (e *DifferentError) Error() string {
	return fmt.Sprintf("session %s exists, and its history differs from sequence %d on", e.Session, e.Seq)
}

// Restored says what [Restore] did.
type Restored struct {
	Session events.SessionID
	Last    events.Seq
	Already bool  // the session had this history before, and may have continued
	Blobs   int64 // bodies that the history refers to
}

// Restore puts an archive into a server as a cold session, under the same id, with the same commits byte for byte. The
// archive is verified before anything is written: its history folds without a violation and has all its bodies. The history
// appears at once, after its bodies. A session with work left is woken, and a worker continues it as after the death of another
// one. A call that died, or one for a session that has the history, can be repeated.
//
// What is encrypted in the archive needs the keys of the bus, and stays byte for byte; its bodies are encrypted with their
// current key. What is plain in the archive stays plain.
//
// Errors: [*DifferentError]; [events.ErrMalformed] with the reason; [events.ErasedError]; those of the bus.
func Restore(ctx context.Context, b *bus.Bus, a *events.Archive) (Restored, error) {
	return restore(ctx, b, a, func(*projector.State) error { return nil })
}

// RestoreIdle is [Restore] for an archive that may come from anywhere: a session with work left is a [*WorkError], and nothing
// is written. A node would continue the work: it would run the command of a monitor, or a call that was approved on another fleet.
func RestoreIdle(ctx context.Context, b *bus.Bus, a *events.Archive) (Restored, error) {
	return restore(ctx, b, a, refuseWork)
}

func restore(ctx context.Context, b *bus.Bus, a *events.Archive, accept func(*projector.State) error) (Restored, error) {
	done := Restored{Session: a.Session}
	texts := &bodies{all: DecryptedBodies(a.Blobs, b.Keys()), read: make(map[string][]byte)}
	s, err := verify(ctx, a, Decrypted(a.Log, b.Keys()), texts)
	if err != nil {
		return done, fmt.Errorf("%w: %w", events.ErrMalformed, err)
	}
	done.Last = s.Seq
	if done.Already, err = holds(ctx, b, a); err != nil {
		return done, err
	}
	if !done.Already {
		err = accept(s)
	}
	if err != nil {
		return done, err
	}
	for _, body := range texts.read {
		done.Blobs++
		if done.Already {
			continue
		}
		if _, err := b.PutBlob(ctx, body); err != nil {
			return done, err
		}
	}
	if !done.Already {
		if err = b.Restore(ctx, a.Session, a.Log); errors.As(err, new(*events.ConflictError)) {
			if done.Already, err = holds(ctx, b, a); err == nil && !done.Already {
				err = &DifferentError{Session: a.Session, Seq: 1}
			}
		}
	}
	if err != nil {
		return done, err
	}
	if err = follow.PutCold(ctx, b, s); err == nil {
		err = hint.Store(ctx, b, s)
	}
	return done, err
}

// RestoreToRead is [Restore] for a server that only shows sessions: a redacted archive becomes a session that takes no
// append. An archive of an earlier version does not say who redacted it, and neither does the session.
func RestoreToRead(ctx context.Context, b *bus.Bus, a *events.Archive) error {
	log := Decrypted(a.Log, b.Keys())
	switch err := refuseRedacted(ctx, a, log); {
	case err == nil:
		_, err = Restore(ctx, b, a)
		return err
	case !errors.Is(err, ErrRedacted):
		return err
	}
	texts := &bodies{all: DecryptedBodies(a.Blobs, b.Keys()), read: make(map[string][]byte)}
	s, err := follow.ReadAt(ctx, log, texts, a.Session, math.MaxUint64)
	if err != nil {
		return fmt.Errorf("%w: the redacted archive cannot be folded: %w", events.ErrMalformed, err)
	}
	for _, body := range texts.all {
		if _, err := b.PutBlob(ctx, body); err != nil {
			return err
		}
	}
	records := a.Redactions
	if len(records) == 0 {
		records = []events.RedactionRecord{{What: []string{"*"}}}
	}
	if err := b.Restore(ctx, a.Session, a.Log, records...); err != nil {
		return err
	}
	return follow.PutCold(ctx, b, s)
}

// bodies reads an archive's bodies. It keeps those that the history refers to.
type bodies struct{ all, read map[string][]byte }

func (m *bodies) Blob(_ context.Context, ref events.BlobRef) ([]byte, error) {
	if body, ok := m.all[ref.Digest]; ok {
		m.read[ref.Digest] = body
		return body, nil
	}
	return nil, fmt.Errorf("body %s: %w", ref.Digest, bus.ErrNotFound)
}

// refuseRedacted returns [ErrRedacted] for an archive without some payloads, with the first one. Such an event folds to
// nothing: without the end of a turn, the turn would run again.
func refuseRedacted(ctx context.Context, a *events.Archive, log events.Log) error {
	for e, err := range log.Read(ctx, a.Session, a.First) {
		if err != nil {
			return err
		}
		for i := range e.Commit.Events {
			if ev := &e.Commit.Events[i]; ev.Redacted != nil {
				return fmt.Errorf("sequence %d, event %d, %s: %w", e.Seq, i, ev.Kind, ErrRedacted)
			} else if id := ev.Locked(); id != 0 {
				return fmt.Errorf("sequence %d, event %d, %s: %w", e.Seq, i, ev.Kind, &events.KeyError{ID: id})
			}
		}
	}
	return nil
}

// verify folds an archive from its beginning.
func verify(ctx context.Context, a *events.Archive, log events.Log, blobs *bodies) (*projector.State, error) {
	if a.First != 1 {
		return nil, fmt.Errorf("the archive begins at sequence %d, want 1", a.First)
	}
	if err := refuseRedacted(ctx, a, log); err != nil {
		return nil, err
	}
	v := projector.NewVerifier(a.Session)
	for entry, err := range log.Read(ctx, a.Session, 1) {
		if err != nil {
			return nil, err
		}
		found, err := follow.Verify(ctx, blobs, v, entry)
		if err != nil {
			return nil, fmt.Errorf("sequence %d: %w", entry.Seq, err)
		}
		if len(found) > 0 {
			return nil, fmt.Errorf("sequence %d: %s: %s", found[0].Seq, found[0].Check, found[0].Problem)
		}
		for i := range entry.Commit.Events {
			if p := entry.Commit.Events[i].Payload; p != nil {
				err = blob.Visit(ctx, blobs, p, func(_ events.BlobRef, read func() ([]byte, error)) error { _, err := read(); return err })
			}
			if err != nil {
				return nil, fmt.Errorf("sequence %d, %s: %w", entry.Seq, entry.Commit.Events[i].Kind, err)
			}
		}
	}
	if found := v.Check(); len(found) > 0 {
		return nil, errors.New(found[0].Problem)
	}
	if v.State().Seq == 0 {
		return nil, errors.New("the archive has no commits")
	}
	return v.State(), nil
}

// isLostWhole reports the error of a session with no commit left: an archive may take its place.
func isLostWhole(err error) bool {
	lost, ok := errors.AsType[*bus.CutOffError](err)
	return ok && lost.Last == 0
}

// holds reports whether the server has the archive's history already. A session that does not exist has not.
func holds(ctx context.Context, b *bus.Bus, a *events.Archive) (bool, error) {
	next, stop := iter.Pull2(b.Log().Read(ctx, a.Session, 1))
	defer stop()
	for entry, err := range a.Log.Read(ctx, a.Session, 1) {
		if err != nil {
			return false, err
		}
		have, err, ok := next()
		switch {
		case err != nil && errors.As(err, new(*events.ErasedError)):
			return false, err
		case entry.Seq == 1 && (!ok || errors.Is(err, events.ErrNoSession) || isLostWhole(err)):
			return false, nil
		case err != nil:
			return false, err
		case !ok || !bytes.Equal(have.Data, entry.Data):
			return false, &DifferentError{Session: a.Session, Seq: entry.Seq}
		}
	}
	return true, nil
}
