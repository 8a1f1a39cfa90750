package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
)

// purgeAgain is the time after a redaction at which an archiver purges the last time: a node that was paused meanwhile may
// have written a snapshot or an index row from a state that it folded before.
const purgeAgain = 10 * time.Minute

// MarkRedacting marks the row of a cold session before its archive is redacted. From then on an archiver finishes the
// redaction, if it is in the archive: it purges what may have the payloads, and makes the rows again. Error: [bus.ErrErasing].
func MarkRedacting(ctx context.Context, b *bus.Bus, session events.SessionID) error {
	_, err := b.Directory().Update(ctx, session, func(have bus.Row) ([]byte, error) {
		var row Directory
		err := json.Unmarshal(have.Value, &row)
		switch {
		case err == nil && row.isTombstone():
			return nil, fmt.Errorf("session %s: %w", session, bus.ErrErasing)
		case have.Revision == 0 || err != nil:
			return nil, fmt.Errorf("mark session %s: %w: it has no row in the directory", session, events.ErrInvalid)
		}
		row.Redacting = true
		return json.Marshal(row)
	})
	return err
}

// FinishRedaction removes what may have the payloads of a redacted session, outside of its archive, and makes its rows
// again. It may be repeated. last removes the mark of [MarkRedacting].
func FinishRedaction(ctx context.Context, b *bus.Bus, session events.SessionID, last bool) error {
	if err := b.PurgeRedacted(ctx, session); err != nil {
		return err
	}
	s, err := At(ctx, b.Log(), b, session, math.MaxUint64) // no snapshot, which may be older than the redaction
	if err == nil {
		err = remakeIndex(ctx, b, s)
	}
	if err == nil {
		err = b.RemovePacksOf(ctx, session) // which have the words of the row before
	}
	if err != nil {
		return err
	}
	row := RowOf(s)
	row.Place, row.Redacting = PlaceCold, !last
	value, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("row of %s: %w", session, err)
	}
	return replace(ctx, b.Directory(), session, value, func(old []byte) bool {
		var have Directory
		return json.Unmarshal(old, &have) != nil || !have.isTombstone() && have.Seq <= row.Seq && !bytes.Equal(old, value) // a reader of all rows gets each written one again
	})
}

// finishRedaction is the archiver's part of a redaction.
func (a *Archiver) finishRedaction(ctx context.Context, session events.SessionID, now time.Time) error {
	list, err := a.b.Redactions(ctx, session)
	if err != nil || len(list) == 0 { // none yet: its program is about to write it, or died before
		return err
	}
	return ignoreGone(FinishRedaction(ctx, a.b, session, now.Sub(list[len(list)-1].At.Time()) >= purgeAgain))
}

// SignRedaction returns the signed note of a redaction that is about to be made, at the time of the record. It is empty without a signer
// whose certificate is valid then.
func SignRedaction(ctx context.Context, log events.Log, session events.SessionID, r events.RedactionRecord, signer func() *proof.Signer) (string, error) {
	s := signerAt(signer, r.At)
	if s == nil {
		return "", nil
	}
	ends, err := readEnds(ctx, log, session)
	if err == nil {
		err = ends.err
	}
	if err != nil {
		return "", err
	}
	return s.SignRedaction(&proof.RedactionRecord{
		Session: session, Signed: r.At, At: r.At, By: r.By, Reason: r.Reason, Size: ends.size, Root: ends.root, What: r.What,
	})
}
