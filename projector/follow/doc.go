// Package follow loads and saves the state of sessions over the bus: snapshots, directory rows and catalogues. It has
// the [Projector] that writes them, and the [Archiver] that archives and erases sessions.
//
// The history is authoritative. A reader folds the commits after the snapshot, so a late or dead projector costs time
// and never correctness.
//
// # Places of a session
//
//	       bus.Archive at the folded sequence            row cold, Discard
//	hot ------------------------------------> sealed -------------------------> cold
//	 ^                                                                           |
//	 +------------------------------- next append -------------------------------+
//
// Faults that each transition survives:
//
//  1. A commit arrives before the seal: bus.Archive fails with a conflict, and the session stays hot. A commit between
//     this check and the seal is archived too; the archiver folds it before it writes the row.
//  2. The archiver dies after the seal: the next archiver finds the sealed stream and archives the session again.
//  3. The archiver dies before Discard: the sealed stream still exists, so fault 2 applies. For this reason the row
//     is written before Discard.
//  4. Several archivers archive the same session: every step can be repeated. The revision of the archive entry
//     decides between concurrent writes, and the loser repeats its step.
//
// # Another history in the place of one
//
// A store, or a stream, may be restored from a backup under a running process, and a loss of commits accepted. What processes have of a session
// until then, and what notices that:
//
//	it has                           known of its history             it is compared
//	state of a host, a run, a        incarnation, last commit         by [Sync], [Receive] and [Compare], see sync.go
//	projector
//	snapshot                         sequence, commit                 by [Sync], in the stream; one that is newer than the history is dropped
//	rows of the directory and the    sequence, generation             by a projector: rewind, where the state was reset, or a row is newer
//	catalogues
//	row of the index                 sequence, commit                 before it is continued
//	plugins of a session             sequence, commit, incarnation    before their next use, with the log
//	observation                      sequence, commit, incarnation    before each commit of the log, and after a reconnect, which drops what waits
//	stream that continues an archive name, which is never used again  by each look at the end
//
// A read of the log yields commits of one history, or ends with [events.ErrShorter].
//
// # Erasure
//
//	               mark            write the tombstone          purge, mark
//	any place ------------> erasing ----------------> tombstone ------------> erased
//
// If the caller requires an end of the history, the tombstone is first: its write checks the end. Then the mark follows.
//
//  1. The program dies after the mark: the row has the status erasing, and [Archiver.Retain] of any node finishes.
//  2. The program dies after the tombstone and before the mark: the next Retain of the session finds the tombstone and erases
//     again.
//  3. A paused projector writes a snapshot or a catalogue after the erasure: [BlobSweeper] removes it. It cannot
//     replace the directory row, because a tombstone is never replaced.
//
// # Sweep of unreferenced blobs
//
//	         sweep: no reference              sweep, 12 hours after the end of that one: no reference
//	blob ------------------------> suspect ------------------------------------------------> removed
//	 ^                                |
//	 +--------------------------------+  a sweep finds a reference, or the blob was stored again
//
// One sweep is not enough. Time line of a fork, whose commit refers to an old blob:
//
//	sweep                                       fork and erasure
//	reads the new session: no reference
//	                                            the new session's commit refers to the blob of the old session
//	                                            the old session is erased
//	reads the old session: erased
//
// The next sweep reads the commit. The same holds for a writer that finds a fresh blob, does not store it again, and commits
// later than the sweep reads: hours at most, and the second sweep begins 12 hours after the end of the first.
//
// The suspects, each with the end of its first sweep, are in [suspectRows] rows that all nodes share, and so is the time of the last
// sweep. All times are the servers'. A suspect is one storage of a blob, with the server's time of it: a blob that was stored again is another.
//
//  1. A process ends between sweeps: the next one, of any node, reads the rows.
//  2. A sweeper dies in a sweep: rows that it has stored are true, and it removes a blob only after it has stored its row. Another node
//     sweeps [claimFor] after the claim.
//  3. Two sweepers: each replaces a row by the revision that it read before it read the histories. The later one gets
//     [bus.ErrStale], and removes nothing of that row.
//  4. More suspects than rows take: the oldest are kept. The others become suspects in a later sweep.
//
// An idle fleet writes two rows in 12 hours, the claim and the end of a sweep, and each node reads one in 10 minutes.
package follow
