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
package follow
