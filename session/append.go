package session

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/states"
	"github.com/lash-go/lash/session/turn"
)

// appendSigned appends a commit at the sequence of the state that it was decided on, with a head where it needs one. It
// is the only append of hosts and runs, and the only place that signs. It returns the commit as it is in the log. A
// commit without place for a head gets none, and the next one does.
//
// After the append, its caller has these duties:
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
func (h *Host) appendSigned(ctx context.Context, c *events.Commit, on *projector.State) (*events.Commit, events.Seq, error) {
	c, err := h.b.Encrypted(c) // the head is about what is stored
	if err != nil {
		return nil, 0, err
	}
	signed, head, err := h.sign(c, on)
	if err != nil {
		return nil, 0, err
	}
	seq, err := h.log.Append(ctx, signed, on.Seq)
	if err == nil && head != nil && seq == on.Seq+1 && h.cfg.Signed != nil {
		h.cfg.Signed(head)
	}
	return signed, seq, err
}

// appendLocked appends a host's events at the sequence of the locked state, folds them, and publishes the hints. The
// caller has the lock of the entry. Where the fold fails, the commit stays in the history; the entry loses its state, and the next
// Load folds the log.
func (h *Host) appendLocked(ctx context.Context, s *states.Entry, meta commitMeta, list []events.Event) error {
	c, err := h.commit(ctx, s.State.Session, meta, list)
	if err != nil {
		return err
	}
	c, seq, err := h.appendSigned(ctx, c, s.State)
	if errors.Is(err, bus.ErrFull) {
		err = &api.LimitError{What: "hot sessions", Limit: h.b.MaxHot(), Err: err}
	}
	if err != nil {
		return err
	}
	api.RecordSeq(ctx, c.Session, seq)
	due := turn.Due(s.State)
	if err := s.State.Apply(events.Entry{Seq: seq, Commit: c}); err != nil {
		s.State = nil
		return err
	}
	h.quota.Record(s.State)
	if !turn.NeedsWorker(s.State, 0) { // else the worker that runs the session marks it dirty
		_ = h.b.MarkDirty(c.Session)
	}
	h.hints.Commit(s.State, c.Events, due)
	return nil
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
	c, seq, err := w.Host.appendSigned(ctx, c, on)
	if err == nil && seq == on.Seq+1 {
		if s.State, err = after(c); err != nil {
			s.State = nil
			return 0, err
		}
		w.Host.hints.Tasks(s.State, c.Events)
	}
	return seq, err
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
