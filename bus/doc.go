// Package bus owns JetStream: the connection, every stream, bucket and subject, and the messages on them. Of
// this repository it may import events and the packages below events only. One switch maps the errors of requests to
// errors of this project (errors.go).
//
// # Why one package
//
// The parts are one package because appends, archives and reads share the entry, the location and the loop of limits,
// retries and mapped errors (request.go). They use the same connections (link.go), and subjects that one type builds
// (subject.go). Requests to workers, instances and services are sent once, without the loop. Append, archive, read and
// erase are one protocol on two streams: the session's stream and its archive entry. A cut between them would export the
// entry, the location of a history and the loop to each other.
// Files are grouped by subject:
//
//	connection    bus.go waiting.go patience.go request.go pause.go link.go secondary.go errors.go batch.go
//	assets        subject.go topology.go assets.go reader.go list.go capacity.go storage.go stats.go recovered.go
//	histories     log.go read.go leader.go location.go streamcache.go archive.go restore.go cutoff.go erase.go redact.go removal.go priority.go
//	queues        wake.go timer.go deadletter.go consumer.go
//	projections   rows.go rowvalues.go packs.go packfilter.go live.go blob.go blob_sweep.go sweep_row.go
//	bodies        bodies.go keycheck.go plain.go
//	requests      service.go admission.go sender.go listener.go peer.go clock.go readrequest.go readserver.go
//	plugins       plugin.go pluginlink.go pluginevent.go
//
// # Durability profiles
//
// The server decides what an acknowledged append survives. So the profile is part of the server's configuration, and
// is printed at start:
//
//	interval  one server, fsync every 100 ms   any process crash; a power cut loses at most 100 ms
//	always    one server, fsync every write    any process crash, any power cut
//	cluster   three servers, quorum            any process crash, loss of one server
//
// The server syncs stream by stream, idle ones too. With a thousand hot sessions that is too slow for ten times
// a second. So the embedded server of profile interval syncs the whole filesystem at once (package busembed).
//
// # Append
//
// A session's history is a stream. Each commit names the sequence at which the history must end
// (Nats-Expected-Last-Sequence), so one of several writers succeeds. The append is idempotent: the commit's id decides.
//
//	                      ┌──────────────── tail read: the commit is not there, wait ──────────────┐
//	                      ▼                                                                        │
//	caller ──Append──► publish ──ack──────────────────────────────► done                           │
//	                      │                                                                        │
//	                      ├─wrong last sequence──┐                                                 │
//	                      ├─no answer in time────┼─► read the tail from the leader ────────────────┤
//	                      │                      │         ├─ holds this commit's id ──► done
//	                      │                      │         ├─ holds another commit ────► ConflictError
//	                      │                      │         └─ session erased or absent ► that error
//	                      ├─no stream, or sealed ──► make the session hot, publish again
//	                      └─any other error ───────► that error: nothing was written
//
// Faults that the transitions survive:
//
//   - ack lost: the tail holds the commit; the caller gets its sequence.
//   - publish lost: the tail does not hold it; the same publish is safe, as it names the same sequence.
//   - false refusal, of a replica that was behind: the tail shows no other commit; the publish is repeated.
//   - session cold, or its archiver dead: the append completes the archive, opens the next stream, and publishes again.
//     Where that fails the outcome is unknown, and the tail decides.
//   - ctx ends first: [events.ErrOutcomeUnknown]; the caller repeats the same commit.
//   - writer loses again and again: it asks for priority ([Bus.RequestPriority]). The others then wait a moment, the
//     oldest append goes first. A lost request for priority costs time only.
//
// # Reads
//
// Reads are direct gets in batches of bounded size; no reader has a consumer on the server. A replica that is
// behind may answer. So every read first gets the last sequence from the leader, and reads until it has it.
//
// Reads of more than 64 commits, and bodies above 256 KiB, use a second connection, which is made
// at first use. Acks, heartbeats, claims and wakes of the node never wait behind them. Without a second connection,
// as where the server allows one only, the first one is used, in batches of at most 512 KiB.
//
// What a plugin sends has a connection of its own, and so have messages to its instances. A server closes a connection on
// which more arrives than its client reads. So a plugin that floods a node delays itself only. Where that connection cannot
// be made, the primary one is used, until one of the attempts every ten seconds succeeds; then subscriptions move to it.
//
// # Hot and cold sessions
//
// A hot session has a stream. A cold session costs the server one entry in the stream of archives: its history is in
// the entry as archive files, or in blobs where it is large. A reader sees one history: the archived files, then the stream.
//
//	            create                 seal: no appends           write files, put entry
//	(none) ─────────────► hot ───────────────────────────► sealed ──────────────────────► archived
//	                       ▲                                                                 │ read back, compare,
//	                       │ bind: the stream takes                                          │ delete the stream
//	                       │ the session's subjects                                          ▼
//	                    opening ◄── put entry: it names the stream ── unnamed ◄── make ──── cold
//	                                                                  stream     (append)
//
//	transition     fault                                  guard
//	create         creator dies before the first commit   the stream without commits is no session; SweepOrphans
//	                                                      archives it after 10 minutes
//	create         session is archived between the        the creator looks for an entry before and after it makes
//	               check and the stream                   the stream, and after its first commit
//	seal           server killed while it writes the      the entry names the stream first, so the next process has
//	               stream's settings, skips the stream    the server make it again, from what is on its disk
//	seal           the server loses the seal              the stream goes on after the files: the entry says so
//	                                                      before anything is deleted (verifyArchive)
//	put entry      archiver dies before or after it       the next archiver or append repeats the step
//	put entry      two archivers                          the entry is replaced by revision: one gets ErrStale
//	delete         archiver dies before it                the next append, or Discard, compares and deletes
//	make stream    two openers                            each stream has a name of its own; the entry names one
//	name stream    opener dies before it                  the stream takes no appends; SweepOrphans deletes it
//	bind           opener dies before it                  the next append, or SweepOrphans, binds the stream
//	any            the server loses the stream            the row of the directory shows commits that are not there: the
//	                                                      session is refused ([CutOffError]), and its id stays in use
//
// The name of a stream that continues a session is never used again. The process that deletes a stream which the entry
// does not name first puts the entry unchanged: its revision moves, so a paused opener cannot name that stream any more.
// The process that has the server make a lost stream again does the same: a paused archiver that saw the seal gets ErrStale.
//
// Only a session's first stream has a name that all creators share. Remaining race:
//
//  1. Creator A checks that there is no session, and pauses.
//  2. The session is created, archived, and its first stream deleted.
//  3. Creator B, paused as A was, makes the first stream again, and has not checked the entry yet.
//  4. A publishes its first commit. The stream of B takes it.
//
// A then finds the entry, and removes the stream with its commit. Until then readers see A's commit as the session's history.
//
// A bus remembers in which stream a session continues, and asks that stream for the end first: the entry has up to half
// a MiB of history in it. The state of the stream shows whether what it remembers is old (streamCache).
//
// # Erased sessions
//
//	hot or sealed ──seal──► sealed ──put tombstone──► erased ──Purge──► tombstone without content
//	cold ───────────────────────────put tombstone──────┘
//
//	transition     fault                                  guard
//	seal           an append is first                     it is part of the history that is erased, or ConflictError
//	                                                      where the caller named the end
//	put tombstone  archiver or opener puts the entry      replaced by revision: the later one gets ErrStale
//	put tombstone  eraser dies before it                  the session is whole; the next append makes it hot again
//	Purge          eraser dies at any step                every step can be repeated; the tombstone lists the blobs
//	after Purge    paused creator or opener               it finds the tombstone, and deletes its own stream
//
// The tombstone replaces the entry, and stays: the id remains in use. The server's disk keeps the bytes of removed messages
// until the server compacts that block.
//
// # Wakes
//
// A command is accepted when its event is in the session's stream. A wake says only that a session may have
// work. It is a message of a few bytes, without a body, on <prefix>.work.<class>.<session>[.<task>] ([WakeKey]).
// Its header has hints that may be wrong ([WakeHint]). The worker that gets a wake reads the session's history.
//
// The queue has one wake of each key: PublishWake replaces it, and a later Ack of the old one has no effect. A wake without
// Progress for AckWait is delivered again. If the queue was deleted, Fetch makes it again, empty, and reports it.
// The package comment of workers has the states of a wake, and the faults that each transition survives.
//
// # Timers and dead letters
//
// A session has at most one timer. It is a message without a body that the server publishes on another subject at its time,
// in milliseconds. The firing of one deletes the session's timer, also one that was stored meanwhile, so that a worker stores it again after
// each firing. A timer is redelivered until it is acked. It is a hint too: the history says what is due.
//
// A session that no node can fold has one dead letter ([DeadLetter]). The same stream holds, for a day, how
// often a wake of the session failed or killed its node ([Trial]).
//
// # Blobs
//
// A body is stored in chunks under a new content id, then its description under the digest of the body.
//
//	(none) ──chunks──► chunks without description ──description──► stored ──DropBlob──► (none)
//
//	transition     fault                                  guard
//	chunks         writer dies                            [Bus.Blobs] lists chunks without description; the sweep removes them
//	description    answer lost                            the put is repeated; the digest is the same
//	stored         body about to be referred to           a body older than an hour is stored again before it is
//	               while the sweep removes it             referred to, so the sweep's DropBlob names older content
//	DropBlob       sweep dies half way                    the description goes first; its chunks are listed as above
//	stored         description without chunks             reading fails after three tries; PutBlob counts the chunks
//
// # Encrypted bodies
//
// With [Config.Keys] everything that a session says is encrypted before it is sent to a server, and decrypted where it is
// read: bodies.go lists the writers. The keys encrypt deterministically, so a repeated append or put has the same bytes,
// and an append of a lost answer is found again by them. The payloads of events stay in their places in the encoded commit,
// so kinds, ids, times and actors can be read without keys; leaf hashes are over what is stored. So streams are routed,
// archived, restored, erased and verified without keys.
//
//	found                                  without keys, or without its key
//	a commit                               read with its payloads locked ([events.Event.Locked])
//	a row                                  Get fails ([*events.KeyError]); listings leave it out
//	a delta                                fails; the commit that follows has its text
//	a blob                                 not found: its name is encrypted too; listings leave it out
//	a write of any of these                fails, if the store's bodies are encrypted
//
// The bucket of manifests has a check: a ciphertext by which Open refuses keys that are not the store's. Rotation:
//
//	keys of the nodes      check       a node with
//	[1]                    1           [2] is refused
//	[1 2], one by one      1           [1] runs on: nothing is encrypted with 2 yet
//	[2 1], one by one      2           [1] is refused; one that still runs leaves sessions with 2 to other nodes
//	[2]                    2           [2] leaves sessions with 1 to other nodes; without any, they are erased
//
// A history is encrypted from its first commit with a ciphertext on: that commit is its mark ([events.Mark]). A writer
// without the key cannot make a ciphertext for a later place, and a node without it decides nothing on such a history. So a
// bus with keys reads no plain commit after the mark, where it comes from a stream, an archive file, a restored archive or a
// live message. Before the mark:
//
//	plain commits                          read with keys
//	stored before the store's first keys   yes: the session was plain, and its next commit is the mark
//	stored within a minute after them      yes: a node that was started before them may have written it
//	stored later                           no: the bucket of manifests has the time of the first keys, encrypted, and the
//	                                       server has the time of each message
//	restored from a plain archive          yes, up to the next commit
//	archived while plain                   yes: archive files have no times of the server
//
// Two nodes that start with different first keys both write the check: the replacement is by revision, and the later one
// reads it again and is refused.
//
// # Reads of other accounts
//
// Clients and auditors are users of other accounts, which have no access to the server's API. To them the subjects of that API
// are those of [Bus.ServeReads]: the same reader works in every account. The process that answers makes the request itself.
//
//	client              $JS.API.DIRECT.GET.STREAM   in its account
//	the server          <prefix>.read.DIRECT.GET.STREAM   in the nodes' account
//	a node              checks its form and its limits, waits for one of a few places, and sends $JS.API.DIRECT.GET.STREAM
//	the server          answers the node, which passes each message on
//
// A form that no bus of [OpenReader] sends is refused, and so is a user whose requests wait for too many places.
// So nobody but a node chooses what a request costs the server.
//
// # Services
//
// Nodes answer requests on <prefix>.api.<operation> as a NATS service named <prefix>-api. A queue group delivers each
// request to one node; $SRV.PING, INFO and STATS find the nodes. A node that works on a request says so every second. A
// node at its limit of requests lets a few wait for at most a second, of one user a quarter of them, and declines the
// others with Lash-Gone.
//
//	client                                   node that works on the request
//	request                          ──────►
//	                                 ◄────── Lash-Working, every second
//	                                 ◄────── the answer, or Lash-Gone
//
// A request with the header Lash-Serves asks whether a node serves: a node answers it at once, without the handler.
//
// No responder, or Lash-Gone, means that the request was not done ([ErrNoResponder]). After silence, or a lost connection, the
// outcome is unknown. Answers go to inboxes only: a request with another reply subject is counted, and not handled.
//
// A client may ask for chunks of a long answer. They arrive before the answer, numbered, and are sent once. Such a client
// says every second, to all nodes, that it listens. It uses a token that is made for this one request. Older nodes only
// answer; an operation without chunks refuses the header. What a user publishes is about the requests of that user alone.
// While a node loses such messages in a flood, silence ends no request.
//
//	client                                   node that works on the request
//	request, Lash-Stream: TOKEN      ──────►
//	                                 ◄────── Lash-Piece: 0, 1, ...
//	to all: Lash-Stream: TOKEN       ──────► every second
//	to all: the same, and Lash-End   ──────► cancels the request: the client stopped, or asks another node
//	no message for 10 s                      cancels it too: the client, or its connection, is lost
//	                                 ◄────── the answer
package bus
