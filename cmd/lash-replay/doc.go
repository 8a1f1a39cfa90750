// Command lash-replay reads, replays and verifies histories: of a running server, of a node's store, or of an archive
// file. It needs only the history, and does not change it.
//
// Exit codes: 0 success, 1 violations or differences were found, 2 the command failed.
package main
