package session

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/states"
	"github.com/lash-go/lash/session/turn"
)

// appendSigned appends a commit at the sequence of the state that it was decided on, with a head where it needs one, and folds it
// into the cached state, whose lock the caller has. It is the only append of hosts and runs, and the only place that signs. A
// commit without place for a head gets none, and the next one does. fold gets the commit as it is in the log, and returns the state with
// it. Where that fails, the commit stays in the history; the entry loses its state, and the next Load folds the log. The same where another
// history, which ended at that sequence, has accepted the commit: that of servers to which this process connected again meanwhile.
//
// What fold does, and what follows:
//
//	                        a host: appendLocked        a run: AppendCommit, and committed of workers/internal/run
//	fold the commit         State.Apply                 the function after: Committed, as the run's state has its events
//	the cached state        the folded one              a copy of the run's
//	sequence for the client api.RecordSeq               none: no request waits for it
//	sessions of the owner   quota.Record                none: a run opens and closes no session
//	mark the session dirty  unless a worker will        markDirty, at a tick and at the run's end
//	wake, timer             hints.Commit                none: the run has the wake, and sets the timer at its end
//	wakes of tasks          hints.Commit                hints.Tasks
//	plugins, traces         none                        stackCommitted, trace.Commit
func (h *Host) appendSigned(ctx context.Context, s *states.Entry, c *events.Commit, on *projector.State, fold func(events.Entry) (*projector.State, error)) (events.Seq, error) {
	c, err := h.b.Encrypted(c) // the head is about what is stored
	if err != nil {
		return 0, err
	}
	signed, head, err := h.sign(c, on)
	if err != nil {
		return 0, err
	}
	expected := on.Seq + 1 // fold may change the state
	seq, err := h.log.Append(ctx, signed, on.Seq)
	if err != nil {
		return 0, err
	}
	if head != nil && seq == expected && h.cfg.Signed != nil {
		h.cfg.Signed(head)
	}
	if on.Seq == 0 { // the append has made the stream
		on.SetIncarnation(h.log.Incarnation(on.Session))
	}
	if follow.IsStale(h.b, on) {
		if err = follow.Compare(ctx, h.b, on); err != nil {
			err = fmt.Errorf("%w: %w", events.ErrOutcomeUnknown, err)
		}
	}
	if err == nil {
		s.State, err = fold(events.Entry{Seq: seq, Commit: signed})
	}
	if err != nil {
		s.State = nil
		return 0, err
	}
	return seq, nil
}

// appendLocked appends a host's events at the sequence of the locked state, folds them, and publishes the hints.
func (h *Host) appendLocked(ctx context.Context, s *states.Entry, meta commitMeta, list []events.Event) error {
	c, err := h.commit(ctx, s.State.Session, meta, list)
	if err != nil {
		return err
	}
	c.At = s.State.Next(c.At)
	_, err = h.appendSigned(ctx, s, c, s.State, func(e events.Entry) (*projector.State, error) {
		api.RecordSeq(ctx, e.Commit.Session, e.Seq)
		now, due := s.State, turn.Due(s.State)
		if err := now.Apply(e); err != nil {
			return nil, err
		}
		h.quota.Record(now)
		if !turn.NeedsWorker(now, 0) { // else the worker that runs the session marks it dirty
			_ = h.b.MarkDirty(e.Commit.Session)
		}
		h.hints.Commit(now, e.Commit.Events, due)
		return now, nil
	})
	if errors.Is(err, bus.ErrFull) {
		err = &api.LimitError{What: "hot sessions", Limit: h.b.MaxHot(), Err: err}
	}
	return err
}

// AppendCommit appends a commit that a worker of this process decided on a state. It holds the session's lock, as the
// host's own decisions do: the two do not conflict with each other. after runs once the commit is in the log, with the
// commit as it is there, and returns the state with it.
func (w Worker) AppendCommit(ctx context.Context, c *events.Commit, on *projector.State, after func(*events.Commit) (*projector.State, error)) (events.Seq, error) {
	s, err := w.Host.states.Lock(ctx, c.Session)
	if err != nil {
		return 0, err
	}
	defer s.Unlock()
	expected := on.Seq + 1
	return w.Host.appendSigned(ctx, s, c, on, func(e events.Entry) (*projector.State, error) {
		if e.Seq != expected {
			return s.State, nil // the worker decides again
		}
		now, err := after(e.Commit)
		if err == nil {
			w.Host.hints.Tasks(now, e.Commit.Events)
		}
		return now, err
	})
}

// sign returns the commit with its head; the commit itself and nil where it gets none.
func (h *Host) sign(c *events.Commit, on *projector.State) (*events.Commit, *proof.Head, error) {
	if h.cfg.Signer == nil || !on.Proof.Needs(c) {
		return c, nil, nil
	}
	signer := h.cfg.Signer()
	if signer == nil {
		return c, nil, nil
	}
	if !signer.Certificate().ValidAt(c.At) { // a later head covers the commit
		h.logger.Warn("certificate of the node's key is not valid: turns end without a head", zap.String("session", string(c.Session)))
		return c, nil, nil
	}
	signed, head, err := signer.Sign(c, &on.Proof)
	if errors.Is(err, events.ErrTooLarge) {
		h.logger.Debug("no place for a head", zap.String("session", string(c.Session)), zap.Error(err))
		return c, nil, nil
	}
	return signed, head, err
}
