// Command lash-replay reads, replays and verifies histories: over a running
// server, from the store of a stopped node, or from an archive file. It needs
// nothing but the history and changes nothing in it.
//
// Exit codes: 0 all is well, 1 violations were found, 2 it could not be done.
package main
