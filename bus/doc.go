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
package bus
