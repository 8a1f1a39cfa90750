// Package projector computes the state of a session from its history (the fold), and the views, prompts and snapshots
// of that state. It imports events and events/proof, is pure, and computes the same bytes on every machine.
//
// A [State] is folded from commits by [State.Apply], or restored from a snapshot and folded on. Both ways give equal
// states, byte for byte, at every sequence.
//
// # Segments
//
// A session's state grows with its history, but opening a session must stay cheap. So the state has a small head and a
// body. Blocks of [SegmentNodes] nodes, the segments, move from the head to the body. Blocks of records move there too,
// the books: finished turns, inputs that a turn accepted or a client cancelled, and requests with a key. This happens
// at points that depend on the history only. Segments and books are immutable, and their reference is the digest of
// their content. A page is a list of [PageSegments] references of segments.
//
// A snapshot is the head with these references. So it has the same size after ten events and after a million, and a
// stored segment is not stored again. Apply does not read old segments. Paths, ids and prompts do: they return
// [ErrPartial] until the segments are attached.
//
// # Copies
//
// The first commit of a session that starts as a copy names a [Base]. This is a small head in a format of its own,
// which is independent of the fold's version, with references to the segments and pages of the other session's
// snapshots. The state needs the base before it folds the first commit.
//
// # Size
//
// The package is large because the fold is one function of all event kinds on one state: about half
// are the types of the state and the cases of Apply. Views, prompts and snapshots use the state's unexported body
// (segments, indexes, caches). A package of their own would need this body as exported API.
package projector
