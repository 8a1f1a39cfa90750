package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
)

// Erased is the part of a row about the erasure of its session.
type Erased struct {
	At     events.Millis `json:"at"`
	By     string        `json:"by"`
	Reason string        `json:"reason"`
}

// isTombstone reports whether the row is a tombstone, which no projector replaces.
func (d *Directory) isTombstone() bool {
	return d.Status == projector.StatusErasing || d.Status == projector.StatusErased
}

// Erase removes everything of a session except its tombstone: the archive entry, which keeps its id in use, and the
// directory row. If end is not nil, the history must end at that sequence. Erasing again returns the first tombstone.
// signer returns the signer of the tombstone; nil, also as its result, means none. Errors: [events.ErrNoSession],
// [events.ConflictError], those of [bus.Tombstone.Check].
//
// The row is marked first if end is nil, otherwise after the history is sealed. After an error later than the mark,
// an archiver finishes the erasure. A session with lost commits ([bus.CutOffError]) is erased with what is there, if end is nil.
func Erase(ctx context.Context, b *bus.Bus, session events.SessionID, end *events.Seq, t bus.Tombstone, signer func() *proof.Signer) (bus.Tombstone, error) {
	if err := t.Check(); err != nil { // before the mark, after which archivers finish the erasure
		return t, fmt.Errorf("erase: %w", err)
	}
	if err := b.Recreate(ctx, session); err != nil {
		return t, fmt.Errorf("erase: %w", err)
	}
	last, err := b.Log().Last(ctx, session)
	known := last
	if lost, ok := errors.AsType[*bus.CutOffError](err); ok && end == nil { // the mark replaces the row that shows the loss, and shows it too
		last, known, err = lost.Last, lost.Known, nil
	}
	gone := errors.As(err, new(*events.ErasedError))
	if err != nil && !gone {
		return t, fmt.Errorf("erase: %w", err)
	}
	if end == nil && !gone {
		t.Last = last
		if err := mark(ctx, b, session, projector.StatusErasing, known, t); err != nil {
			return t, err
		}
	}
	sign := func(ctx context.Context, t bus.Tombstone) (string, error) {
		return signTombstone(ctx, b, session, t, signer)
	}
	if t, err = b.PutTombstone(ctx, session, end, t, sign); err != nil {
		return t, err
	}
	if err = mark(ctx, b, session, projector.StatusErasing, t.Last, t); err == nil {
		err = b.Purge(ctx, session)
	}
	if err == nil {
		err = mark(ctx, b, session, projector.StatusErased, t.Last, t)
	}
	return t, err
}

// signTombstone returns the signed note of a tombstone. It is empty without a signer whose certificate is valid now, by the servers' time. The
// root is that of the commits as they are stored, whether they fold or not. It is missing where one cannot be read.
func signTombstone(ctx context.Context, b *bus.Bus, session events.SessionID, t bus.Tombstone, signer func() *proof.Signer) (string, error) {
	now := b.Millis()
	s := signerAt(signer, now)
	if s == nil {
		return "", nil
	}
	ends, err := readEnds(ctx, b.Log().Remaining(), session)
	if err != nil {
		return "", err
	}
	signed := proof.Tombstone{
		Session: session, Signed: now, At: t.At, Retention: t.Retention, By: t.By, Reason: t.Reason, Size: t.Last, Head: ends.head,
	}
	if ends.err == nil && ends.size == t.Last { // a damaged history can be erased too
		signed.Root = &ends.root
	}
	return s.SignTombstone(&signed)
}

// mark writes a tombstone into the directory. An existing tombstone of status erased stays. seq is the newest commit that the session
// had: a row with a smaller one would let a session with lost commits continue, see [bus.CutOffError].
func mark(ctx context.Context, b *bus.Bus, session events.SessionID, status projector.Status, seq events.Seq, t bus.Tombstone) error {
	value, err := json.Marshal(Directory{
		Session: session, DirectorySeq: bus.DirectorySeq{Seq: seq}, Status: status, UpdatedAt: t.At, Erased: &Erased{At: t.At, By: t.By, Reason: t.Reason},
	})
	if err != nil {
		return err
	}
	err = replace(ctx, b.Tombstones(), session, value, func(old []byte) bool {
		var have Directory
		return json.Unmarshal(old, &have) != nil || have.Status != projector.StatusErased
	})
	if err != nil {
		return fmt.Errorf("mark session %s %s: %w", session, status, err)
	}
	return nil
}
