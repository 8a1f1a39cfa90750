// Package reader reads sessions: states and views now and at a sequence, turns and their records, lists, bodies, tasks and
// approvals. A host and a client read with it. It writes nothing.
package reader
