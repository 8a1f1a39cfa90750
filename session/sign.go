package session

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/proof"
	"github.com/lash-go/lash/projector"
)

// appendSigned appends a commit that was decided on a state, with a head where it needs one: the only place that signs.
// It returns the commit as it is in the log. A commit without place for a head gets none, and the next one does.
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
	if err == nil && head != nil && seq == on.Seq+1 && h.signed != nil {
		h.signed(head)
	}
	return signed, seq, err
}

// sign returns the commit with its head; the commit itself and nil where it gets none.
func (h *Host) sign(c *events.Commit, on *projector.State) (*events.Commit, *proof.Head, error) {
	if h.signer == nil || !on.Proof.Needs(c) {
		return c, nil, nil
	}
	signer := h.signer()
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
