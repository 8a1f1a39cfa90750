package watch

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// history is the history that an observer has delivered, up to its last commit. Lost commits that an operator accepted are replaced by
// other ones with their sequences.
type history struct {
	log         bus.Log
	session     events.SessionID
	seq         events.Seq      // of the last commit delivered, or the cursor
	commit      events.CommitID // its id; empty: not known
	incarnation string          // of the log's stream when the commit was compared; empty: not known
	doubtful    bool            // the commit has to be compared before another one is delivered
}

// delivered notes the next commit.
func (h *history) delivered(e events.Entry) { h.seq, h.commit = e.Seq, e.Commit.ID }

// moved reports whether the log has another incarnation than the one that was compared last.
func (h *history) moved() bool { return h.incarnation != h.log.Incarnation(h.session) }

// check compares the last commit with that of the log, where it is doubtful or another stream is in the place of the earlier one, as
// after an archive. [*api.CursorError]: the log has another commit, or none, or texts were removed from it.
func (h *history) check(ctx context.Context) error {
	if !h.doubtful && !h.moved() {
		return nil
	}
	before := h.log.Incarnation(h.session)
	if err := h.compare(ctx); err != nil {
		return err
	}
	switch located := h.log.Incarnation(h.session); {
	case !bus.SameTexts(h.incarnation, located):
		return &api.CursorError{Session: h.session, Cursor: h.seq, Last: h.seq}
	case located == before: // otherwise it moved meanwhile: the next check compares again
		h.incarnation, h.doubtful = located, false
	}
	return nil
}

func (h *history) compare(ctx context.Context) error {
	if h.seq == 0 {
		_, err := h.log.Last(ctx, h.session)
		return err
	}
	e, err := h.log.CommitAt(ctx, h.session, h.seq)
	switch {
	case errors.Is(err, events.ErrShorter), err == nil && h.commit != "" && e.Commit.ID != h.commit:
		last, err := h.log.Last(ctx, h.session)
		if err != nil {
			return fmt.Errorf("end of the history that replaced the observed one: %w", err)
		}
		return &api.CursorError{Session: h.session, Cursor: h.seq, Last: last}
	case err != nil:
		return err
	}
	h.commit = e.Commit.ID
	return nil
}
