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
// The server syncs stream by stream, idle ones too, which a thousand hot
// sessions do not bear ten times a second. So the embedded one of profile
// interval syncs the whole filesystem at once (package busembed).
//
// # Reads
//
// Reads are direct gets, in batches that are bounded in bytes: no reader has a
// consumer on the server. They may be answered by a replica that is behind. So every
// read first asks the leader for the last sequence, and reads until it has it.
//
// Reads of more than 64 commits, and of bodies above 256 KiB, go over a second connection, which is
// made when it is first of use: acks, heartbeats, claims and wakes of the node never wait behind them. While there
// is none, as where the server allows no more, the first one serves, in batches of at most 512 KiB.
//
// Where a session goes on after an archive, a bus remembers in which stream, and asks that
// one for the end first: the entry has up to half a MiB of the history in it. A hint that is old says so itself.
//
// # Writers
//
// Appends name the sequence at which the history must end, so of several writers of
// a session one is first, and it knows the newest state: its next append is first
// too. Who has lost again and again asks the others to let it go first, the oldest
// before all ([Bus.AskWay]); a worker that runs the session's turn asks at once.
//
// # Wakes
//
// A command is accepted when its event is in the session's stream. A wake says
// only that there may be work in a session: a message of a few bytes on
// <prefix>.work.<class>.<session> of the work queue, without a body ([WakeKey]).
// [Bus.PublishWake] publishes it without waiting, so a wake may be lost, come
// twice or come late; who gets one reads the session's history. The header
// carries hints that cost nothing when they are wrong ([WakeHint]).
//
// Workers pull. The queue is a work queue with one consumer for each class. The
// worker whose pull finds the queue gone makes the stream and its consumer again
// ([Queue.Fetch]). The leading node's sweep then publishes a wake for every hot
// session that owes work.
//
// # Timers and dead letters
//
// A timer is a message without a body, one for each session, that the server
// publishes on another subject at its time, counted in whole seconds and up to
// one early: [Due.Fetch] puts off what is early, so that a worker sees it at its
// time in milliseconds. It is delivered until it is acked. A timer too is a hint:
// what is due is in the history.
//
// A session that no node can fold has one dead letter ([DeadLetter]) in the
// stream of dead letters. For a day it also holds how often a session's wake
// killed its node, or failed ([Trial]).
//
// # Services
//
// Nodes answer requests on <prefix>.api.<operation> as a NATS service, named
// <prefix>-api: one of a queue group gets each, and $SRV.PING, INFO and STATS
// find it. Who asks is told every second that somebody is at it, so that
// silence means that nobody is. A request that nobody took was not done; of any
// other without an answer nobody knows. Answers go to inboxes only: a request
// that wants its answer elsewhere is counted, and not looked at.
//
// A client may take an answer that is made for long in pieces. They come to its inbox before the answer, numbered, and nothing
// sends them again. Such a client says every second that it listens, to all nodes, under a token that it made for this one request.
// Nodes that are older just answer. An operation without pieces refuses the header. What a user says is about requests of that user
// alone. Where so much is said that a node loses some of it, no silence ends a request.
//
//	client                                   node that works on the request
//	request, Lash-Stream: TOKEN      ──────►
//	                                 ◄────── Lash-Piece: 0, 1, ...
//	to all: Lash-Stream: TOKEN       ──────► every second
//	to all: the same, and Lash-End   ──────► cancels the request: the client gave up, or asks another node
//	nothing for 10 s                         cancels it too: the client, or the way to it, is gone
//	                                 ◄────── the answer
//
// # Hot and cold sessions
//
// A hot session has a stream; a cold one costs the server an entry in the
// stream of archives, with its history in it as an archive file, or in blobs
// where it is large. Readers see one history: archived runs, then the stream.
// An append to a cold session makes it hot: a new stream goes on at the next
// sequence.
//
//	hot ──seal──► sealed ──write files, put entry──► archived ──read back, delete stream──► cold
//	 ▲                                                                                       │
//	 └───────────────────────── append: new stream, of another name ─────────────────────────┘
//
// The entry names the stream before anything of the stream's settings changes: a
// single server that was killed while it wrote them skips the stream at its next
// start. Whoever then comes to the session has the server make the stream again,
// which finds what is on its disk.
//
// Whoever dies between two steps leaves either the old or the new place whole,
// and whoever comes next, an archiver or an append, does the rest.
//
// A new stream has a name that no other ever has, and takes no appends before
// the entry names it: who sleeps through other lives of the session, and then
// makes one, makes one that nobody appends to. Whoever deletes one that the entry
// does not name puts the entry as it is before: so nobody names the stream any more,
// and a delete that comes late hits nothing. Who has a stream made again does
// the same, as the server may have lost a seal that an archiver saw. A first
// stream has one name for all who create the session, so these look for an entry
// before they make it and after. What is left is one who
// slept between that look and its append, through all of a first life of the
// session, and wakes up in the instant in which a third, who slept likewise, has
// made the stream once more and not looked yet.
//
// # Erased sessions
//
// The entry of an erased session is its tombstone, put where the entry and the
// end of the sealed stream are what was found: either an append is first, and
// is erased with the rest, or the tombstone is, and the append is refused. What
// is left is removed then, by whoever comes: the tombstone says what. It stays, with a
// mark of some bytes, so that the id stays taken. What the server's disk holds of removed
// messages goes when the server next compacts that block.
package bus
