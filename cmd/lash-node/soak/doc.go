// Package soak runs a fleet of real processes under faults and holds what
// became of it against what went in.
//
// A run has three servers, each the child of this process with a store of its
// own, and some nodes, children too. Recorded conversations are the load: a
// client here drives them, a scripted model and scripted tools in the nodes
// answer as recorded, and leave a line in a ledger outside of everything for
// each thing that they do. Every connection goes through a [link], which can
// be cut, so that partitions need no privileges.
//
//	parent ── link ──┐
//	node 1 ── link ──┼── server 1 ── link ── server 2 …
//	node 2 ── link ──┘
//
// When the time is over everything is healed, what was begun may end, and then
// every history is compared with its recording and with the ledgers. Lost is
// what did not end or differs; doubled is what ran twice and must not.
package soak
