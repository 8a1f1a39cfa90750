// Package bus owns JetStream: the connection, every stream, bucket and
// subject, and what travels on them. It imports events only, and maps every
// code of NATS to an error of ours in one switch.
//
// # Durability profiles
//
// What an acknowledged append survives is the server's to keep, so it is
// chosen where the server is configured and printed at start:
//
//	interval  one server, fsync every 100 ms   any process crash; a power cut loses at most that
//	always    one server, fsync every write    any process crash, any power cut
//	cluster   three servers, quorum            any process crash, loss of one server
//
// # Reads
//
// Direct gets may be answered by a replica that is behind. So every read
// first asks the leader for the last sequence, and reads until it has it.
//
// # Services
//
// Nodes answer requests on <prefix>.api.<operation> as a NATS service, named
// <prefix>-api: one of a queue group gets each, and $SRV.PING, INFO and STATS
// find it. Who asks is told every second that somebody is at it, so that
// silence means that nobody is. A request that nobody took was not done; of any
// other without an answer nobody knows.
//
// # Hot and cold sessions
//
// A hot session has a stream; a cold one costs the server an entry in the
// stream of archives, with its history in it as an archive file, or in blobs
// where it is large. Readers see one history: archived runs, then the stream.
// An append to a cold session makes it hot: a new stream goes on at the next
// sequence.
//
//	hot ──seal──► sealed ──write, read back, put entry──► archived ──delete stream──► cold
//	 ▲                                                                                 │
//	 └───────────────────────── append: new stream, of another name ──────────────────┘
//
// Whoever dies between two steps leaves either the old or the new place whole,
// and whoever comes next, an archiver or an append, does the rest. A stream's
// name carries the revision of the entry that it goes on after: a delete that
// comes late hits nothing. What is left is a process that sleeps between
// finding a session cold and making its stream, while that session is appended
// to and archived once more: it looks again and takes its stream back, and in
// the instant between, another process that slept through the same would append
// to nowhere.
package bus
