package events

import (
	"context"
	"iter"
)

// Log stores the histories of all sessions.
//
// Append and Read are safe for concurrent use. A commit that Append returned is durable as the log's profile
// promises, see package bus. The caller owns the commit that it appends and gets its own copy of commits that it
// reads.
type Log interface {
	// Append adds c to the history of c.Session with sequence expected+1, and returns that sequence. expected is the
	// last sequence of the state on which c was decided. With 0 Append creates the history.
	//
	// If the history does not end at expected, the error is a *[ConflictError] and the log is unchanged. If the history
	// contains a commit with c's id, because an earlier attempt succeeded and its reply was lost, Append returns that
	// commit's sequence. Other errors: [ErrNoSession], those of [Encode], and [ErrOutcomeUnknown] if ctx ended before the outcome
	// was known. A log with limits has errors of its own for a history that it cannot store, as bus.ErrFull.
	Append(ctx context.Context, c *Commit, expected Seq) (Seq, error)
	// Read yields the commits from sequence from on (0 and 1 mean all), in order and without gaps, up to the last one
	// at the start of the read. From last+1 it yields none, and from a later sequence [ErrShorter]. All are of one history: where another
	// one took its place meanwhile, the read ends with that error too. The error is terminal: it, [ErrNoSession], those of [Decode], or a
	// transport error.
	Read(ctx context.Context, session SessionID, from Seq) iter.Seq2[Entry, error]
	// Last is the sequence of the newest commit. Without a history the error is [ErrNoSession].
	Last(ctx context.Context, session SessionID) (Seq, error)
}

// Entry is a commit with its sequence.
type Entry struct {
	Seq    Seq
	Commit *Commit
	Data   []byte // the stored encoding, including fields that this program does not know. Read-only

	parts *commitParts // of Data, from [DecodeEntry]; may be nil
}
