// Command soak runs a fleet of real processes under faults, and compares every history with its recording.
//
// A run has three servers and some nodes. Each is a child process; a server has a store of its own. The load is
// recorded conversations. A client in this process drives them. Scripted models and tools in the nodes reply as
// recorded, and write each request to a ledger file, which no fault touches. Recorded tools whose calls return text are
// tools of an external plugin, which has some processes of its own; the other tools stay in the nodes. Every connection
// passes through a [link] that can be cut, so partitions need no privileges.
//
//	parent ── link ──┐
//	node 1 ── link ──┼── server 1 ── link ── server 2 …
//	node 2 ── link ──┤
//	plugin 1 ─ link ─┘
//
// With --mcp each node also runs a server of the Model Context Protocol, a child process of its own, and more
// sessions call its tools. The server appends each run to a ledger. A call with a result ran, and one that must not run twice
// ran at most once.
//
// At the end all faults are undone, and the running conversations may finish. Then every history is compared with its
// recording and with the ledgers. A session is lost if its turns did not end or its history differs. An effect is
// doubled if it ran twice and must not, on any worker or instance of the plugin, or if it ran although the history says
// that it did not start.
package main
