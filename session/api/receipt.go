package api

import (
	"context"
	"sync/atomic"

	"github.com/lash-go/lash/events"
)

// Receipt is the sequence of an accepted request in a session's history.
type Receipt struct {
	session events.SessionID
	seq     atomic.Uint64
}

type receiptKey struct{}

// WithReceipt makes a method that is called with the context report the sequence of its commit in the session's
// history. In Go, over NATS and over HTTP (header Lash-Seq) it is the same sequence.
func WithReceipt(ctx context.Context, id events.SessionID) (context.Context, *Receipt) {
	r := &Receipt{session: id}
	return context.WithValue(ctx, receiptKey{}, r), r
}

// Seq is the sequence of the last commit of the request, or of an earlier copy of it; 0 where the request appended
// nothing.
func (r *Receipt) Seq() events.Seq { return events.Seq(r.seq.Load()) }

// RecordSeq records a sequence on the context's receipt, if it has one for the session. Code that appends calls it.
func RecordSeq(ctx context.Context, id events.SessionID, seq events.Seq) {
	if r, ok := ctx.Value(receiptKey{}).(*Receipt); ok && r.session == id {
		r.seq.Store(max(r.seq.Load(), uint64(seq)))
	}
}
