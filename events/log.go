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
	// Append adds c to the history of c.Session as sequence at+1, which it
	// returns: at is the sequence whose state c was decided on. Where the
	// history does not end at at, the append is a *[ConflictError] and nothing
	// was written. At 0 it creates the history. A commit that is there already,
	// because an earlier try was written and its reply was lost, is found by its
	// id and counts as appended now. Other errors: [ErrNoSession], [ErrSealed],
	// those of [Encode], and [ErrOutcomeUnknown] where ctx ended before the
	// outcome could be read back.
	Append(ctx context.Context, c *Commit, at Seq) (Seq, error)
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
