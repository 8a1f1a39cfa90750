package events

import (
	"context"
	"iter"
)

// Log is every session's history.
//
// Append and Read may be called from many goroutines. What Append returned is
// durable as the profile of the log promises; see package bus. The caller
// keeps ownership of the commit it appends and gets its own copy of what it reads.
type Log interface {
	// Append adds c to the history of c.Session and returns its sequence.
	// With At(n) it lands only as sequence n+1, else *[ConflictError] and
	// nothing was written. At(0) creates the history. With Free it lands
	// wherever the end is. A commit that is there already, because an earlier
	// try landed and its reply was lost, is found by its id and counts as
	// appended now. Other errors: [ErrNoSession], [ErrSealed],
	// those of [Encode], and [ErrOutcomeUnknown] where ctx ended before the
	// outcome could be read back.
	Append(ctx context.Context, c *Commit, at Expect) (Seq, error)
	// Read yields the commits from sequence from on (0 and 1 mean all), in
	// order, without holes, up to what was last when it began. The error is
	// terminal: [ErrNoSession], [ErrMalformed], [ErrFutureVersion] or of transport.
	Read(ctx context.Context, session SessionID, from Seq) iter.Seq2[Entry, error]
	// Last is the sequence of the newest commit: [ErrNoSession] where there is no history.
	Last(ctx context.Context, session SessionID) (Seq, error)
}

// Entry is a commit in its place.
type Entry struct {
	Seq    Seq
	Commit *Commit
	Data   []byte // the commit as it stands in the log, with what this program does not know of it. Not to be changed
}

// Expect says where an append may land.
type Expect struct {
	seq  Seq
	free bool
}

// At allows the append only directly after sequence seq: a decision made on the state at seq.
func At(seq Seq) Expect { return Expect{seq: seq} }

// Free allows the append anywhere after since: a fact that commutes with
// others. since is a sequence known to be older than the first try, where
// reading back begins after a lost reply.
func Free(since Seq) Expect { return Expect{seq: since, free: true} }

// Guarded returns the expected sequence, and false for free appends.
func (e Expect) Guarded() (Seq, bool) { return e.seq, !e.free }
