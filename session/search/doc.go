// Package search finds turns in the texts of all sessions of a source: those of a host, of a client, of a store, or of
// archive files. The index rows select the sessions that may match, and their histories decide, by [index.Of].
//
// A search tests all index rows, most of them by the packs that nodes make of them, and the histories of the sessions that may match, several at once and in order. A
// [Request] bounds the histories and their time, so that a query that every row may match ends too: the result says
// that more may match, and from where the next search continues.
//
// It imports session/api, projector/index and projector/follow. It checks no rights: [Request.Allowed] does.
package search
