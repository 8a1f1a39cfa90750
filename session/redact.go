package session

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/archive"
)

// Redact replaces payloads of a closed session by their digests, for good, as [archive.Redact] says. what names events by
// kind, pattern of kinds or id. The record, which Redact returns, has the actor of this host, and the signature of
// [Config.Signer]. The reason has at most 1000 bytes.
func (h *Host) Redact(ctx context.Context, id events.SessionID, what []string, reason string) (events.RedactionRecord, error) {
	if err := events.CheckReason("reason", reason); err != nil {
		return events.RedactionRecord{}, fmt.Errorf("redact session %s: %w", id, err)
	}
	r, err := archive.Redact(ctx, h.b, id, events.RedactionRecord{At: h.b.Millis(), By: h.actor.ID, Reason: reason, What: what}, h.cfg.Signer)
	if err != nil {
		return r, err
	}
	if r.Note == "" && h.cfg.Signer != nil {
		h.logger.Warn("the redaction is not signed: the certificate of the node's key is not valid, or another program wrote it", zap.String("session", string(id)))
	}
	return r, nil
}
