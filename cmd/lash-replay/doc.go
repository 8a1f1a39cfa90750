// Command lash-replay reads, replays and verifies histories: of a running server, of the store of a stopped node, or
// of an archive file. It needs only the history, and does not change it.
//
// Exit codes: 0 success, 1 violations were found, 2 the command failed.
package main
