package api

import (
	"context"
	"sync/atomic"

	"github.com/lash-go/lash/events"
)

// Receipt is where an accepted request stands in a session's history.
type Receipt struct {
	session events.SessionID
	seq     atomic.Uint64
}

type receiptKey struct{}

// WithReceipt has the method that is called with the context say where in the
// session's history it appended. In Go, over NATS and over HTTP (as the header
// Lash-Seq) it is the same sequence.
func WithReceipt(ctx context.Context, id events.SessionID) (context.Context, *Receipt) {
	r := &Receipt{session: id}
	return context.WithValue(ctx, receiptKey{}, r), r
}

// Seq is the sequence of the last commit that the request made, or that an
// earlier copy of it made; 0 where it appended nothing.
func (r *Receipt) Seq() events.Seq { return events.Seq(r.seq.Load()) }

// Note is for those that append: it puts a sequence on the receipt, if there is one for the session.
func Note(ctx context.Context, id events.SessionID, seq events.Seq) {
	if r, ok := ctx.Value(receiptKey{}).(*Receipt); ok && r.session == id {
		r.seq.Store(max(r.seq.Load(), uint64(seq)))
	}
}
